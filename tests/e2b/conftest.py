# SPDX-License-Identifier: Apache-2.0
"""An E2B cloud of the tests, and servers that use it."""
import shutil

import pytest

import e2b_server as lib


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make certificates with")
    return lib.Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def shared_cloud(binary, certificates):
    one = lib.E2bServer(certificates)
    yield one
    one.remove()


@pytest.fixture
def cloud(shared_cloud):
    """Fails only as this test wants it."""
    shared_cloud.failures.clear()
    yield shared_cloud
    for failure in shared_cloud.failures:
        failure.go.set()
    shared_cloud.failures.clear()


@pytest.fixture
def start_cloud_server(shared_cloud):
    """Of the test's own; without ready sandboxes unless it wants some."""
    started = []

    def start(cloud=None, **settings):
        settings = {"POOL_SIZE": 0, **settings}
        started.append(lib.CloudServer(cloud or shared_cloud, **settings).start())
        return started[-1]

    yield start
    for one in started:
        one.remove()


@pytest.fixture
def own_server(start_cloud_server):
    return lambda **settings: start_cloud_server(**settings)


@pytest.fixture(scope="session")
def server(shared_cloud):
    one = lib.CloudServer(shared_cloud, POOL_SIZE=0).start()
    yield one
    one.remove()


@pytest.fixture
def session(cloud, server):
    name = server.create()
    yield name
    server.post("/cleanup", {"session_id": name})
