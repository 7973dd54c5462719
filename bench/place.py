# SPDX-License-Identifier: Apache-2.0
"""Servers of the benchmark's own, and programs that it may have to install."""
import contextlib
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import server as lib  # noqa: E402
from client import Threadbox  # noqa: E402

# The default policy and a full core: latency rows are not about the quota.
SETTINGS = {"DEFAULT_POLICY": "strict", "CPU_QUOTA": "100000", "LOG_LEVEL": "error",
            "SESSION_TIMEOUT_MINUTES": "600", "MAX_POOL_SIZE": "100000"}


class Missing(Exception):
    """A program that a group of rows needs is not there; says how to get it."""


@contextlib.contextmanager
def server(**settings):
    """At its end nothing of it may be left on the machine."""
    if not lib.BINARY:
        raise Missing("no binary: ./run --build-only")
    made = lib.Server(**{**SETTINGS, **settings})
    try:
        yield made.start()
        made.close()
    finally:
        made.remove()


@contextlib.contextmanager
def connected(**settings):
    """A server, and a client of it once its pool is full."""
    with server(**settings) as made:
        client = Threadbox(made.port)
        wait_for_pool(client, int(settings.get("POOL_SIZE", 1)))
        try:
            yield made, client
        finally:
            client.close()


def wait_for_pool(client, size, seconds=120):
    lib.wait_until(lambda: client.get("/health")["pool_available"] >= size,
                   f"{size} sandboxes are ready", seconds)


def environment(packages):
    """Python of a virtual environment with these; made once, in build/."""
    place = ROOT / "build" / "bench-venv"
    stamp = place / "wanted"
    wanted = "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        for command in ([sys.executable, "-m", "venv", "--clear", place],
                        [place / "bin" / "pip", "install", "-q", *packages]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Missing(f"a virtual environment with {', '.join(packages)}: "
                              f"{(done.stderr or done.stdout)[-200:]}")
        stamp.write_text(wanted)
    return place / "bin" / "python"


class Rates:
    """Keeps how much a second, not how long."""

    def __init__(self, measured, amount, unit="MB/s"):
        self.measured, self.amount, self.unit = measured, amount, unit

    def timed(self, name, work, keep=True):
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        if keep:
            self.measured.add(name, self.amount / took, self.unit)
