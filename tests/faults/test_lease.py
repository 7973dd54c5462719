# SPDX-License-Identifier: Apache-2.0
"""The keeper's lease: sandboxes are frozen and then ended in time, whatever the server does."""
import contextlib
import os
import signal
import struct
import time

import pytest

from keeper import Keeper
from server import read_text, wait_until

LEASE = 14
TICKS = "while true; do date +%s.%N >> ticks; sleep 0.05; done"


def lease(keeper, freeze_in=None, end_in=None, first=False, ahead=0):
    """Seconds from now; none: without end. `ahead`: by a clock that is ahead of the keeper's."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + ahead
    times = (0, 0) if freeze_in is None else (int(1000 * (now + freeze_in)),
                                              int(1000 * (now + end_in)))
    kind, fields, _ = keeper.ask(LEASE, struct.pack("<QQBQ", *times, first, int(1000 * now)))
    assert kind == (Keeper.FAILED if ahead else Keeper.DONE), fields


@pytest.fixture
def box(start_server):
    """A server without a cluster, a session in which something runs, and its keeper."""
    server = start_server(POOL_SIZE=0, MIN_POOL_SIZE=0)
    session = server.create("t")
    server.stdout(session, f"({TICKS}) > /dev/null 2>&1 &")
    with contextlib.closing(Keeper(server.state_dir)) as keeper:
        yield server, session, keeper


def frozen(server, session):
    return any("frozen 1" in read_text(f"{top}/{session}/cgroup.events")
               for top in server.cgroups())


def test_a_lease_that_runs_out_freezes_ends_and_keeps_files(box):
    server, session, keeper = box
    os.kill(server.process.pid, signal.SIGSTOP)  # nobody says anything any more
    lease(keeper, 0.3, 1.5)
    wait_until(lambda: frozen(server, session), "it is frozen")
    assert server.sandbox_pids(session), "and not ended yet"
    wait_until(lambda: not server.sandbox_pids(session), "it is ended")
    os.kill(server.process.pid, signal.SIGCONT)
    refused = server.post("/create_session", {})
    assert refused.status == 503 and "lease" in refused.json["error"], refused
    lease(keeper)
    assert int(server.stdout(session, "wc -l < ticks")) > 0, "its files are there"


def test_a_renewal_thaws(box):
    server, session, keeper = box
    lease(keeper, 0, 60)
    wait_until(lambda: frozen(server, session), "it is frozen")
    lease(keeper, 60, 70)
    wait_until(lambda: not frozen(server, session), "it goes on")
    before = int(server.stdout(session, "wc -l < ticks"))
    wait_until(lambda: int(server.stdout(session, "wc -l < ticks")) > before, "it works on")
    lease(keeper)


def test_a_lease_that_was_said_too_late_is_over(box):
    """Its times are absolute: who was stopped before it could say them gives nobody more time."""
    server, session, keeper = box
    lease(keeper, -2, -1)
    wait_until(lambda: not server.sandbox_pids(session), "it is ended at once")
    lease(keeper, 60, 70, first=True)
    assert server.post("/create_session", {}).status == 503, "a first lease is no renewal"
    lease(keeper)


def test_a_lease_by_another_clock_is_refused(box):
    """A server that was started in another time namespace than its keeper is an hour ahead: taken
    at its word, its lease would last an hour longer than others believe."""
    server, session, keeper = box
    lease(keeper, 0.3, 0.6)
    lease(keeper, 60, 70, ahead=3600)
    wait_until(lambda: not server.sandbox_pids(session), "the lease before it stands")
    lease(keeper)
