# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest

from cluster import Cluster


@pytest.fixture
def make_cluster(binary):
    """Clusters of a test's own; at the end nothing of them may be left."""
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    made = []

    def make(keep=True, **size):
        made.append(Cluster(keep=keep))
        return made[-1].start(**size)
    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def shared_cluster(binary):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    one = Cluster(CLUSTER_LEASE_MS=6000)  # nothing dies here; a busy machine is no reason to
    try:
        yield one.start(workers=2, coordinators=2)
    finally:
        one.close()
