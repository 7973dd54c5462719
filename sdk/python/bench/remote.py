# SPDX-License-Identifier: Apache-2.0
"""What a remote command costs, beside a local process: python bench/remote.py [URL]

Rounds alternate, so that whatever else the machine does meets all of them. Without a URL a server
is started (needs root and a build).
"""

import asyncio
import contextlib
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from threadbox import AsyncSandboxClient, SandboxClient

ROUNDS = 500
LIB = pathlib.Path(__file__).resolve().parents[3] / "tests" / "lib"


@contextlib.contextmanager
def server() -> Iterator[str]:
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    sys.path.insert(0, str(LIB))
    import server as lib  # noqa: PLC0415

    started = lib.Server(DEFAULT_POLICY="strict").start()
    try:
        yield f"http://127.0.0.1:{started.port}"
    finally:
        started.close()


def local_process() -> None:
    subprocess.run(["bash", "-c", "true"], check=True)


def main() -> None:
    with server() as url, SandboxClient(server_url=url) as client, asyncio.Runner() as loop:
        client.create_session()
        suspending = AsyncSandboxClient(server_url=url)
        loop.run(suspending.create_session())
        cases = {
            "subprocess.run": local_process,
            "SandboxClient": lambda: client.execute("true"),
            "AsyncSandboxClient": lambda: loop.run(suspending.execute("true")),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(ROUNDS):
            for name, work in cases.items():
                began = time.perf_counter()
                work()
                times[name].append((time.perf_counter() - began) * 1000)
        loop.run(suspending.close_session())
        loop.run(suspending.close())
    base = statistics.median(times["subprocess.run"])
    for name, measured in times.items():
        middle = statistics.median(measured)
        late = sorted(measured)[ROUNDS * 9 // 10]
        print(f"{name:20} p50 {middle:.2f} ms  p90 {late:.2f} ms  {middle / base:.2f} times")


if __name__ == "__main__":
    main()
