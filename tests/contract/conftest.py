# SPDX-License-Identifier: Apache-2.0
"""The same tests over every provider: behind the same face the same happens. What differs stands
in docs/providers.md, and nowhere else."""
import pytest

import engine as lib
from server import Server


@pytest.fixture(scope="session")
def engine():
    """Started with its first use: the other providers need none."""
    started = []

    def get():
        if not started:
            started.append(lib.start_engine())
        return started[0]

    yield get
    for one in started:
        one.remove()


@pytest.fixture(scope="session", params=["native", "docker"])
def provider(request):
    return request.param


@pytest.fixture(scope="session")
def make_server(provider, binary, engine):
    """Servers of the provider, not started yet; nothing may be left of them at the end."""
    made = []

    def make(**settings):
        if provider == "docker":
            made.append(lib.DockerServer(engine(), **settings))
        else:
            made.append(Server(**settings))
        return made[-1]

    yield make
    for one in made:
        one.remove()


@pytest.fixture(scope="session")
def server(make_server):
    one = make_server(POOL_SIZE=2, PIDS_LIMIT=64).start()
    yield one
    one.close()


@pytest.fixture
def own_server(make_server):
    """With settings of the test's own."""
    started = []

    def start(**settings):
        started.append(make_server(**settings).start())
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def session(server):
    name = server.create()
    yield name
    server.cleanup(name)
