# SPDX-License-Identifier: Apache-2.0
"""The SDK against the real server, which tests/lib of the repository starts, and in local mode."""

import asyncio
import os
import pathlib
import signal
import sys
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "lib"))

import server as lib
from time_limit import pytest_runtest_protocol  # noqa: F401

from threadbox import AsyncSandboxClient, SandboxClient

# Who starts tests in the background of a script has them ignore it, and some are about it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def binary():
    if os.geteuid() != 0:
        pytest.skip("sandboxes with all their barriers need root")
    if not lib.BINARY or not os.path.exists(lib.BINARY):
        pytest.fail("no binary: ./run --build-only, or set THREADBOX_BINARY")
    return lib.BINARY


@pytest.fixture(scope="session")
def server(binary):
    """One server for all tests that need no settings of their own."""
    shared = lib.Server(DEFAULT_POLICY="strict")
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture
def start_server(binary):
    """Starts servers with settings of their own; at the end nothing of them may be left."""
    servers = []

    def start(**settings):
        servers.append(lib.Server(**settings))
        return servers[-1].start()

    try:
        yield start
        for one in servers:
            one.close()
    finally:
        for one in servers:
            one.remove()


class LocalPlace(lib.Server):
    """Where the sandboxes of local mode are, for who looks at their processes from outside."""

    def __init__(self, state_dir):
        self.state_dir = state_dir


@pytest.fixture(scope="session")
def local_state():
    """A state directory of local mode."""
    if os.geteuid() != 0:
        pytest.skip("sandboxes with all their barriers need root")
    import local_support  # skips when there is no native library

    with local_support.state_dir() as where:
        yield where


@pytest.fixture
def mode():
    """Modules whose tests hold for local mode, too, have one with both."""
    return "remote"


@pytest.fixture
def place(mode, request):
    """Where the sandboxes are: see ``live.people``."""
    if mode == "remote":
        return request.getfixturevalue("server")
    return LocalPlace(request.getfixturevalue("local_state"))


@pytest.fixture
def arguments(mode, request):
    """Of a client in this mode; those of engines with settings of their own are made by a call."""
    if mode == "remote":
        return {"server_url": request.getfixturevalue("url")}
    return {"mode": "local", "state_dir": request.getfixturevalue("local_state")}


@pytest.fixture
def arguments_for(mode, request):
    """The same for an engine with these settings."""

    def make(**settings):
        if mode == "local":
            return {"mode": "local", "state_dir": request.getfixturevalue("local_state"),
                    **settings}
        start = request.getfixturevalue("start_server")
        server = start(**{name.upper(): str(value) for name, value in settings.items()})
        return {"server_url": f"http://127.0.0.1:{server.port}"}

    return make


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def thread():
    """The name of a thread that no other test uses."""
    return f"thread-{uuid.uuid4().hex}"


@pytest.fixture
def client(arguments, thread):
    """A client whose session may run everything."""
    with SandboxClient(**arguments, policy="open") as made:
        made.get_or_create_session("tester", thread)
        yield made


@pytest.fixture
def in_loop(arguments, thread):
    """Runs a coroutine function with an asynchronous client that has a session."""

    def run(test):
        async def go():
            async with AsyncSandboxClient(**arguments, policy="open") as made:
                await made.get_or_create_session("tester", thread)
                return await test(made)

        return asyncio.run(go())

    return run
