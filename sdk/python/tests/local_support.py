# SPDX-License-Identifier: Apache-2.0
"""What tests of local mode share: the native library, installed or just built, state directories
that leave nothing behind, and programs of their own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = ROOT / "sdk/python/src"
BUILD = pathlib.Path(os.environ.get("THREADBOX_BUILD_DIR", ROOT / "build/release"))

# For programs: the package of the source tree finds the library of the build.
PRELUDE = f"""
import os, sys
try:
    import threadbox._native
except ImportError:
    sys.path.insert(0, {str(SOURCE)!r})
    found = sys.modules.get("threadbox")
    if found is None or not found.__file__.startswith({str(SOURCE)!r}):
        for name in [name for name in sys.modules if name.split(".")[0] == "threadbox"]:
            del sys.modules[name]
    import threadbox
    threadbox.__path__.append({str(BUILD / "python")!r})
    os.environ.setdefault("THREADBOX_PROGRAM", {str(BUILD / "threadbox")!r})
"""
exec(PRELUDE)

try:
    from threadbox import _local, _native  # noqa: F401
except ModuleNotFoundError:  # one that is there and can't be loaded is no reason to skip
    pytest.skip("no native library: pip install ./sdk/python", allow_module_level=True)

from threadbox._engine import Command, ProcessSpec, SessionSpec, iterate, run  # noqa: E402


def program() -> str:
    from threadbox._program import find_program

    return find_program()


def stop_keeper(state: str) -> None:
    environment = {**os.environ, "STATE_DIR": state}
    done = [program(), "stop"]
    subprocess.run(done, env=environment, timeout=30, check=False, capture_output=True)


def keeper_runs(state: str) -> bool:
    """Whether a process has this keeper's lock."""
    text = pathlib.Path("/proc/locks").read_text()
    try:
        inode = os.stat(f"{state}/keeper.lock").st_ino
    except FileNotFoundError:
        return False
    return any(line.split()[5].split(":")[2] == str(inode) for line in text.splitlines())


def wait_until(condition, seconds: float = 20.0, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)


@contextlib.contextmanager
def state_dir(mode: int = 0o711):
    where = tempfile.mkdtemp(prefix="tbl", dir="/tmp")
    os.chmod(where, mode)
    try:
        yield where
    finally:
        stop_keeper(where)
        wait_until(lambda: not keeper_runs(where), what="the end of the keeper")
        shutil.rmtree(where, ignore_errors=True)


def run_program(text: str, *arguments: str, timeout: float = 60, before: str = "", **options):
    """A Python program that has the package; `before` runs before it is imported."""
    words = [sys.executable, "-c", before + PRELUDE + textwrap.dedent(text), *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def start_program(text: str, *arguments: str, **options) -> subprocess.Popen:
    words = [sys.executable, "-u", "-c", PRELUDE + textwrap.dedent(text), *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options)


def output_of(done) -> str:
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# A program with an engine, to be run with the environment SUPPORT.
PROGRAM = """
import os, signal, sys, threading
sys.path.insert(0, os.environ["SUPPORT"])
from local_support import Box, run
from threadbox import _local
engine = _local.open_engine(state_dir=sys.argv[1], default_policy="open")
"""
SUPPORT = {**os.environ, "SUPPORT": os.path.dirname(__file__)}


class Box:
    """A session of a blocking engine, with short calls."""

    def __init__(self, engine, thread: str = "", **spec) -> None:
        self.engine = engine
        self.info = run(engine.create_session(SessionSpec(thread_id=thread, **spec)))
        self.id = self.info.session_id

    def execute(self, command: str, timeout: float = 30.0, **more):
        return run(self.engine.execute(self.id, Command(command, timeout, **more)))

    def out(self, command: str) -> str:
        done = self.execute(command)
        assert done.ended.exit_code == 0, (done.stdout, done.stderr, done.ended)
        return done.stdout

    def start(self, command: str | None = None, **more):
        return run(self.engine.start(self.id, ProcessSpec(command=command, **more)))

    def stream(self, command: str, timeout: float = 30.0):
        return iterate(self.engine.stream(self.id, Command(command, timeout)))

    def follow(self, number: int, stream="all", offset: int = 0):
        return iterate(self.engine.follow(self.id, number, stream, offset))

    def close(self) -> None:
        run(self.engine.close_session(self.id))


@pytest.fixture(scope="session")
def state():
    if os.geteuid() != 0:
        pytest.skip("as root; without it see test_local_rootless.py")
    with state_dir() as where:
        yield where


@pytest.fixture(scope="session")
def engine(state):
    opened = _local.open_engine(state_dir=state, default_policy="open")
    yield opened
    run(opened.close())


@pytest.fixture
def box(engine):
    made = Box(engine)
    yield made
    made.close()
