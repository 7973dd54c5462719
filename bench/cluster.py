#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a cluster costs and how it grows, on this machine: bench/cluster.py [row …]. Each row says
what it may be at most or at least, and the exit code is 1 when one is not held. As root, with
redis-server."""
import argparse
import collections
import contextlib
import json
import pathlib
import re
import socket
import statistics
import sys
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))

from cluster import Cluster  # noqa: E402
from redis_server import Redis, encode, read_reply  # noqa: E402
from server import read_text  # noqa: E402

LEASE = 10_000  # ms, as it is by default
missed = []


def row(name, value, bound="", held=True):
    print(f"{name:58} {value:24} {bound}{'' if held else '  MISSED'}", flush=True)
    if not held:
        missed.append(name)


@contextlib.contextmanager
def cluster_of(workers, **more):
    one = Cluster(CLUSTER_LEASE_MS=LEASE, **more)
    try:
        yield one.start(workers=workers)
    finally:
        one.close()


class Asker:
    """One connection that is kept, and no more Python than needed: what is measured is small."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path, body):
        """Seconds, and the answer."""
        text = json.dumps(body).encode()
        began = time.perf_counter()
        self.socket.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (path.encode(), len(text), text))
        data = b""
        while True:
            data += self.socket.recv(65536)
            head, found, rest = data.partition(b"\r\n\r\n")
            if not found:
                continue
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            if len(rest) == length:
                return time.perf_counter() - began, rest


def added(_):
    """In turn, so that both see the same machine."""
    with cluster_of(1) as cluster:
        front, worker = cluster.coordinators[0], cluster.workers[0]
        session = front.create("t")
        askers = Asker(worker), Asker(front)
        times = [], []
        for number in range(3000):
            for asker, kept in zip(askers, times):
                took, answer = asker.post("/execute", {"session_id": session, "command": "true"})
                assert b'"exit_code":0' in answer.replace(b" ", b""), answer
                if number >= 200:
                    kept.append(took * 1000)
        direct, through = map(statistics.median, times)
        row("/execute of `true`, p50, direct", f"{direct:.3f} ms")
        row("/execute of `true`, p50, through a coordinator", f"{through:.3f} ms")
        row("added by the coordinator at p50", f"{through - direct:.3f} ms", "at most 0.3 ms",
            through - direct <= 0.3)


def fetch(server, session):
    """Seconds for all of it, to nowhere."""
    room = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", server.port)) as wire:
        began = time.perf_counter()
        wire.sendall(b"GET /api/sessions/%s/files/content?path=big HTTP/1.1\r\nHost: x\r\n"
                     b"Connection: close\r\n\r\n" % session.encode())
        got = 0
        while more := wire.recv_into(room):
            got += more
        assert got > 1 << 30, got
        return time.perf_counter() - began


def resident(server, what="VmRSS"):
    return int(re.search(rf"{what}:\s+(\d+)", read_text(f"/proc/{server.process.pid}/status"))[1])


def download(_):
    with cluster_of(1, MAX_FILE_SIZE_MB=2048, MAX_WORKSPACE_SIZE_MB=3072,
                    MEMORY_LIMIT="4g") as cluster:
        front, worker = cluster.coordinators[0], cluster.workers[0]
        session = front.create("t")
        front.stdout(session, "head -c 1073741824 /dev/zero > big", timeout=120)
        fetch(worker, session)
        before = resident(front)
        pairs = [(fetch(worker, session), fetch(front, session)) for _ in range(3)]
        direct, through = (min(times) for times in zip(*pairs))
        part = 100 * direct / through
        row("1 GiB downloaded, direct", f"{1024 / direct:.0f} MiB/s")
        row("1 GiB downloaded through a coordinator", f"{1024 / through:.0f} MiB/s")
        row("part of the direct speed", f"{part:.0f} %", "at least 60 %", part >= 60)
        grown = resident(front, "VmHWM") - before
        row("memory that the coordinator took for it", f"{grown / 1024:.1f} MiB",
            "at most 16 MiB", grown < 16 << 10)


def throughput(cluster, sessions, seconds=8):
    """Commands in a second, each session with one at a time that sleeps."""
    front, ends, counts = cluster.coordinators[0], [0.0], collections.Counter()

    def work(session):
        asker = Asker(front)
        while time.monotonic() < ends[0]:
            _, answer = asker.post("/execute", {"session_id": session, "command": "sleep 0.5"})
            assert b"exit_code" in answer, answer
            counts["all"] += 1
    ends[0] = time.monotonic() + seconds
    at_work = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for one in at_work:
        one.start()
    for one in at_work:
        one.join()
    return counts["all"] / seconds


def scaling(_):
    """Workers of ten sandboxes, all of them in use."""
    last = None
    for workers in (1, 2, 4):
        with cluster_of(workers, MAX_POOL_SIZE=10) as cluster:
            front = cluster.coordinators[0]
            sessions = [front.create(f"t{i}") for i in range(10 * workers)]
            speed = throughput(cluster, sessions)
        bound = "" if last is None else "at least 1.9 times as many"
        row(f"commands that sleep, {workers} workers of 10 sandboxes",
            f"{speed:.1f} /s" + (f" ({speed / last:.2f} times)" if last else ""), bound,
            last is None or speed >= 1.9 * last)
        last = speed


@contextlib.contextmanager
def monitored(redis):
    """Counts what clients ask for; not what scripts do inside."""
    wire = socket.create_connection(("127.0.0.1", redis.port))
    wire.sendall(encode("MONITOR"))
    stream = wire.makefile("rb")
    read_reply(stream)
    seen = []

    def read():
        with contextlib.suppress(OSError, ValueError):
            while line := stream.readline():
                if b" lua]" not in line:
                    seen.append(line)
    reader = threading.Thread(target=read)
    reader.start()
    yield seen
    wire.shutdown(socket.SHUT_RDWR)
    reader.join()


def operations(_):
    """Two workers, two coordinators that have never heard of the sessions, twenty sessions."""
    with cluster_of(2) as cluster:
        front = cluster.coordinator()
        sessions = [cluster.coordinators[0].create(f"t{i}") for i in range(20)]
        asker, count = Asker(front), 4000
        with monitored(cluster.redis) as seen:
            began = time.monotonic()
            for number in range(count):
                asker.post("/execute", {"session_id": sessions[number % 20], "command": "true"})
            took = time.monotonic() - began
        each = len(seen) / count
        row(f"Redis operations for an /execute, at {count / took:.0f} /s", f"{each:.4f}",
            "at most 0.05", each <= 0.05)
        with monitored(cluster.redis) as seen:
            time.sleep(LEASE / 1000)
        row("Redis operations of 2 workers and 2 coordinators at rest",
            f"{len(seen) / (LEASE / 1000):.2f} /s")


def scripts():
    text = (ROOT / "src/cluster/scripts.cpp").read_text()
    begin = r'Script& (\w+)\(\) \{\n  static const redis::Script script\{R"\('
    return dict(re.findall(begin + r'(.*?)\)"', text, re.S))


def directory(options):
    """Claimed by the scripts of the workers; thread and session are UUIDs."""
    count, batch = options.sessions, 5000
    redis = Redis(keep=False).start()
    try:
        claim = redis.call("SCRIPT", "LOAD", scripts()["claim"])
        epoch = "0123abcd-0123-0123"
        redis.call("SET", "{tb}:run", "run open")
        redis.call("HSET", "{tb}:workers", "worker-17", f"{epoch} 1 1 1 http://10.1.2.3:8000 9 0 1")
        wire = socket.create_connection(("127.0.0.1", redis.port))
        stream = wire.makefile("rb")

        def memory():
            return int(redis.call("INFO", "memory").split("used_memory:")[1].split()[0])
        before, began = memory(), time.monotonic()
        for start in range(0, count, batch):
            words = []
            for _ in range(batch):
                thread, session = uuid.uuid4(), uuid.uuid4()
                words.append(encode("EVALSHA", claim, 5, f"{{tb}}:t:{thread}", "{tb}:workers",
                                    "{tb}:run", "{tb}:next", f"{{tb}}:s:{session}", "worker-17",
                                    epoch, "run", session, 604800000))
            wire.sendall(b"".join(words))
            for _ in range(batch):
                assert read_reply(stream)[0] == "claimed"
        took = time.monotonic() - began
        keys = redis.call("DBSIZE")
        assert keys == 2 * count + 3, keys
        each = (memory() - before) / count
        row(f"{count} sessions in Redis, each", f"{each:.0f} bytes", "at most 600 bytes",
            each <= 600)
        row("claimed by one client, pipelined", f"{count / took:.0f} /s")
    finally:
        redis.close()


ROWS = {"added": added, "download": download, "scaling": scaling, "operations": operations,
        "directory": directory}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(ROWS))
    parser.add_argument("--sessions", type=int, default=1_000_000, help="of the row `directory`")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    for name in options.rows or ROWS:
        ROWS[name](options)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
