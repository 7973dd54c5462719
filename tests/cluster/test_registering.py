# SPDX-License-Identifier: Apache-2.0
"""Workers that end right after they came."""
import os
import signal
import threading

from cluster import LEASE
from server import wait_until


def test_one_that_stops_right_after_it_registered_is_given_up_in_time(make_cluster):
    cluster = make_cluster(workers=1)
    cluster.wait_open()
    starter = threading.Thread(target=cluster.worker)
    starter.start()
    wait_until(lambda: cluster.redis.call("HGET", "{tb}:workers", "w2"), "it has registered")
    late = cluster.workers[1]
    os.kill(late.process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: not cluster.redis.call("HGET", "{tb}:workers", "w2"),
                   "it is given up", 4 * LEASE)
    finally:
        os.kill(late.process.pid, signal.SIGCONT)
        starter.join()
