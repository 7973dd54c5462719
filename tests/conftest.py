# SPDX-License-Identifier: Apache-2.0
"""What the tests of the running program share: servers, sessions, and the check for leftovers."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import server as lib  # noqa: E402
from time_limit import pytest_runtest_protocol  # noqa: E402, F401


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also soaks that take minutes")
    parser.addoption("--soak", type=float, help="seconds of mixed load; without it there is none")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a soak, run with --long only")
    config.addinivalue_line("markers", "mixed_load: half an hour of it, run with --soak only")


def pytest_collection_modifyitems(config, items):
    """Soaks are left out, not skipped, unless they are asked for."""
    for option, marker in (("--long", "long"), ("--soak", "mixed_load")):
        if config.getoption(option):
            continue
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker(marker)])
        items[:] = [item for item in items if not item.get_closest_marker(marker)]


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
    shared = lib.Server()
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture
def session(server):
    """A fresh session on the shared server."""
    name = server.create()
    yield name
    server.cleanup(name)


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
def rootless(binary):
    """A server of a plain user."""
    nobody = 65534

    def drop():
        os.setgroups([])
        os.setresgid(nobody, nobody, nobody)
        os.setresuid(nobody, nobody, nobody)
    made = lib.Server(preexec=drop, POOL_SIZE=0)
    os.chown(made.state_dir, nobody, nobody)
    try:
        yield made.start()
    finally:
        subprocess.run([made.binary, "stop"], env=made.environment(), preexec_fn=drop, check=False)
        made.remove()
