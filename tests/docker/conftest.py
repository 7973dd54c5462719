# SPDX-License-Identifier: Apache-2.0
"""What only containers have: an engine that may be gone, and things that it keeps for us."""
import pytest

import engine as lib


@pytest.fixture(scope="session")
def engine():
    one = lib.start_engine()
    yield one
    one.remove()


@pytest.fixture
def start_server(binary, engine):
    """Servers with settings of their own; at the end nothing of them may be left."""
    servers = []

    def start(**settings):
        servers.append(lib.DockerServer(engine, **{"POOL_SIZE": 0, **settings}))
        return servers[-1].start()

    try:
        yield start
        for one in servers:
            one.close()
    finally:
        for one in servers:
            one.remove()


@pytest.fixture(scope="session")
def server(binary, engine):
    one = lib.DockerServer(engine, POOL_SIZE=1)
    try:
        yield one.start()
        one.close()
    finally:
        one.remove()


@pytest.fixture
def session(server):
    name = server.create()
    yield name
    server.cleanup(name)
