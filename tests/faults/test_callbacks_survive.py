# SPDX-License-Identifier: Apache-2.0
"""Callbacks when receivers, servers, keepers and sandboxes die: each end arrives, under one id."""
import contextlib
import os
import signal
import socket
import sqlite3

import pytest

from live import start
from receiver import LOOPBACK, Receiver, deliveries, wait_state
from server import wait_until


@pytest.fixture
def receiver():
    with Receiver() as one:
        yield one


def test_a_receiver_that_was_down_and_a_server_that_died_meanwhile(start_server):
    server = start_server(**LOOPBACK)
    with socket.socket() as holder:  # a port where nobody listens
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        sessions = [server.create(f"t{i}") for i in range(3)]
        for session in sessions:
            for i in range(5):
                start(server, session, f"echo {i}", notify_url=f"http://127.0.0.1:{port}/{i}")
        wait_until(lambda: len(deliveries(server, "pending")) == 15, "all have ended")
        expected = {row["id"] for row in deliveries(server, "pending")}
        server.restart()
        assert {row["id"] for row in deliveries(server, "pending")} == expected
    with Receiver(port=port) as receiver:
        receiver.wait(10, 30)
        server.restart()
        wait_until(lambda: set(receiver.ids()) == expected, "all came", 30)
        wait_until(lambda: len(deliveries(server, "done")) == 15, "all are done", 30)
        told = {(data["session_id"], data["process_id"], data["stdout"])
                for data in map(receiver.data, range(len(receiver.got)))}
        assert told == {(session, i + 1, f"{i}\n") for session in sessions for i in range(5)}


def test_processes_that_end_without_a_server_are_told_by_the_next_one(start_server, receiver):
    server = start_server(**LOOPBACK)
    session = server.create("t")
    for i in range(4):
        start(server, session, f"echo {i}; sleep 1000", notify_url=f"{receiver.base}/{i}")
    server.execute(session, "true")
    expected = {row["id"] for row in deliveries(server, "waiting")}
    assert len(expected) == 4
    guest = server.guest_pid(session)
    # The shell of `true` may be there for a moment after its end was told.
    wait_until(lambda: len(server.sandbox_pids(session)) == 5, "only those four are left")
    pids = [pid for pid in server.sandbox_pids(session) if pid != guest]
    server.kill9()
    for pid in pids:  # the sandbox has nobody else to end them now
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: set(server.sandbox_pids(session)) == {guest}, "all have ended")
    assert not receiver.got
    server.start()
    receiver.wait(4)
    assert set(receiver.ids()) == expected
    assert sorted(receiver.data(i)["process_id"] for i in range(4)) == [1, 2, 3, 4]
    wait_until(lambda: len(deliveries(server, "done")) == 4, "all are done")
    server.restart()
    server.restart()
    assert len(deliveries(server)) == 4
    for row in deliveries(server):  # as time does
        assert server.request("DELETE", f"/api/webhooks/deliveries/{row['id']}").status == 200
    server.restart()
    assert deliveries(server) == deliveries(server, "waiting") == []
    assert len(receiver.got) == 4, receiver.got  # and never again


def test_a_process_that_goes_on_over_a_restart_is_told_of_once(start_server, receiver):
    server = start_server(**LOOPBACK)
    session = server.create("t")
    process = start(server, session, "cat; echo end", stdin_open=True, notify_url=receiver.base)
    server.restart()
    process.write("over the restart\n")
    process.post("stdin/close")
    receiver.wait()
    assert receiver.data()["stdout"] == "over the restart\nend\n"
    wait_state(server, "done", session)
    server.restart()
    assert len(receiver.got) == 1


def test_a_server_that_died_before_it_wrote_is_made_good_by_the_note(start_server, receiver):
    server = start_server(**LOOPBACK)
    session = server.create("t")
    process = start(server, session, "cat", stdin_open=True, notify_url=receiver.base)
    row = wait_state(server, "waiting", session)
    server.kill9()
    path = os.path.join(server.state_dir, "store", "threadbox.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rows:
        assert rows.execute("DELETE FROM deliveries").rowcount == 1
    server.start()
    process.post("stdin/close")
    receiver.wait()
    assert receiver.ids() == [row["id"]]


def test_processes_that_end_with_the_keeper_are_told_as_lost(start_server, receiver):
    server = start_server(**LOOPBACK)
    session = server.create("t")
    process = start(server, session, "sleep 1000", tag="x", notify_url=receiver.base)
    server.kill9()
    server.kill9_keeper()
    server.start()
    receiver.wait()
    data = receiver.data()
    assert (data["cause"], data["process_id"], data["tag"]) == ("lost", process.number, "x")
    assert (data["session_id"], data["command"]) == (session, "sleep 1000")


def test_a_revived_session_counts_anew_and_tells_anew(start_server, receiver):
    server = start_server(**LOOPBACK)
    session = server.create("t")
    start(server, session, "echo 1", notify_url=receiver.base)
    receiver.wait()
    guest = server.guest_pid(session)
    os.kill(guest, signal.SIGKILL)
    wait_until(lambda: "sandbox_lost" in server.log(), "the server knows")
    start(server, session, "echo 2", notify_url=receiver.base)
    receiver.wait(2)
    assert [receiver.data(i)["stdout"] for i in range(2)] == ["1\n", "2\n"]
    assert len(set(receiver.ids())) == 2


def test_a_server_ends_in_order_while_a_receiver_hangs_and_tells_it_again(start_server, receiver):
    server = start_server(**LOOPBACK)
    receiver.answers = ["hang"]
    session = server.create("t")
    start(server, session, "true", notify_url=receiver.base)
    receiver.wait()
    assert server.terminate() == 0
    server.start()
    receiver.wait(2)
    assert len(set(receiver.ids())) == 1
    assert wait_state(server, "done", session)["attempts"] == 1  # the other one was never judged
