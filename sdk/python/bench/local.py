# SPDX-License-Identifier: Apache-2.0
"""How fast local mode is: `execute("true")` beside a bare `subprocess.run(["bash", "-c", "true"])`
of the same Python, in turns; and how it scales from 1 to 8 threads.

    python sdk/python/bench/local.py [--rounds 300] [--bound 1.2]

With --bound the exit code is 1 when the ratio of the medians is above it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from threadbox import SandboxClient

COMMAND = ["bash", "-c", "true"]


def timed(action) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def in_turns(client: SandboxClient, rounds: int) -> tuple[list[float], list[float]]:
    local: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        local.append(timed(lambda: client.execute("true")))
        bare.append(timed(lambda: subprocess.run(COMMAND, check=True)))
    return local, bare


def throughput(actions, seconds: float) -> float:
    """Actions in a second; each has a thread of its own."""
    counts = [0] * len(actions)
    end = time.perf_counter() + seconds

    def work(index: int) -> None:
        while time.perf_counter() < end:
            actions[index]()
            counts[index] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def show(name: str, times: list[float]) -> float:
    ordered = sorted(times)
    median = statistics.median(ordered)
    tail = ordered[int(len(ordered) * 0.99)]
    print(f"{name:34} p50 {median:7.3f} ms   p99 {tail:7.3f} ms")
    return median


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    options.add_argument("--rounds", type=int, default=300)
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--bound", type=float)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="tbbench", dir="/tmp") as state:
        settings = {"mode": "local", "state_dir": state}
        began = time.perf_counter()
        client = SandboxClient(**settings)
        client.get_or_create_session(user_id="bench", thread_id="bench")
        client.execute("true")
        print(f"{'first command (keeper, sandbox)':34}     {timed_since(began):7.1f} ms")
        in_turns(client, 20)
        local, bare = in_turns(client, given.rounds)
        ratio = show("execute('true'), local", local) / show("subprocess.run, bare", bare)
        print(f"{'ratio of the medians':34}     {ratio:7.2f}")
        for threads in (1, 2, 4, 8):
            clients = []
            for number in range(threads):
                one = SandboxClient(**settings)
                one.get_or_create_session(user_id="bench", thread_id=f"bench-{number}")
                clients.append(one)
            actions = [lambda one=one: one.execute("true") for one in clients]
            rate = throughput(actions, given.seconds)
            plain = throughput([lambda: subprocess.run(COMMAND)] * threads, given.seconds)
            print(f"{threads} threads: local {rate:7.0f}/s   bare {plain:7.0f}/s")
            for one in clients[1:]:
                one.close()
        client.close()
        time.sleep(3)  # the keeper ends with its last client
    return int(given.bound is not None and ratio > given.bound)


def timed_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
