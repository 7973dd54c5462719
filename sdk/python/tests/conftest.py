# SPDX-License-Identifier: Apache-2.0
"""The SDK against the real server: tests/lib of the repository starts it."""

import asyncio
import os
import pathlib
import sys
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "lib"))

import server as lib

from threadbox import AsyncSandboxClient, SandboxClient


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


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def thread():
    """The name of a thread that no other test uses."""
    return f"thread-{uuid.uuid4().hex}"


@pytest.fixture
def client(url, thread):
    """A client whose session may run everything."""
    with SandboxClient(server_url=url, policy="open") as made:
        made.get_or_create_session("tester", thread)
        yield made


@pytest.fixture
def in_loop(url, thread):
    """Runs a coroutine function with an asynchronous client that has a session."""

    def run(test):
        async def go():
            async with AsyncSandboxClient(server_url=url, policy="open") as made:
                await made.get_or_create_session("tester", thread)
                return await test(made)

        return asyncio.run(go())

    return run
