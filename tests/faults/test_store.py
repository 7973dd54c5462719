# SPDX-License-Identifier: Apache-2.0
"""What a server has written down: nothing that was answered is lost with it, and what the store
and the keeper know apart comes together again."""
import contextlib
import os
import pathlib
import shutil
import sqlite3
import subprocess

import pytest

from keeper import Keeper
from live import start
from receiver import LOOPBACK, Receiver, wait_state
from server import Server, wait_until


def database(server):
    return pathlib.Path(server.state_dir, "store", "threadbox.db")


def change(server, *statements):
    """What happens to the store while no server is there."""
    with contextlib.closing(sqlite3.connect(database(server), isolation_level=None)) as rows:
        answers = [rows.execute(text, values).fetchall() for text, *values in statements]
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return answers[-1]


def rows_of(server):
    return {row[0] for row in change(server, ("SELECT id FROM sessions",))}


def status_of(server, session):
    reply = server.get(f"/status/{session}")
    return reply.json if reply.status == 200 else None


def thread_of(server, thread):
    """The id of a thread's session, or None."""
    reply = server.get(f"/get_session?thread_id={thread}")
    return reply.json["session_id"] if reply.status == 200 else None


# ---- what only one of them knows ----

def test_a_session_without_a_row_comes_back_by_its_label(start_server):
    server = start_server(DEFAULT_POLICY="strict")
    session = server.create("t", user_id="alice", policy="wide", timeout_minutes=90)
    server.stdout(session, "echo data > f")
    server.kill9()
    change(server, ("DELETE FROM sessions",))
    server.start()
    assert f"event=session_restored_from_label session={session[:12]}" in server.log()
    assert thread_of(server, "t") == session
    assert status_of(server, session)["policy"] == "wide"
    assert server.stdout(session, "cat f") == "data\n"
    server.terminate()
    assert change(server, ("SELECT id, thread, user, policy, idle_ms FROM sessions",)) == [
        (session, "t", "alice", "wide", 90 * 60000)]
    server.start()


def test_a_row_without_a_sandbox_goes(start_server):
    server = start_server()
    lost, kept = server.create("lost"), server.create("kept")
    server.kill9()
    with contextlib.closing(Keeper(server.state_dir)) as keeper:
        assert keeper.destroy(lost)[0] == Keeper.DONE
    server.start()
    assert f"event=session_orphan_removed session={lost[:12]}" in server.log()
    assert thread_of(server, "kept") == kept
    fresh = server.create("lost")
    assert fresh != lost and server.stdout(fresh, "ls") == ""


def test_a_row_that_has_the_thread_of_another_session_does_not_stop_the_start(start_server):
    """A server died after a thread had come again, before either was written down."""
    server = start_server()
    session = server.create("t")
    server.kill9()
    change(server, ("UPDATE sessions SET id = '00000000-0000-4000-8000-000000000000'",))
    server.start(seconds=10)
    assert thread_of(server, "t") == session
    assert server.stdout(session, "echo usable") == "usable\n"
    server.terminate()
    assert rows_of(server) == {session}
    server.start()


def test_a_sandbox_that_nobody_owns_is_removed(start_server):
    server = start_server(POOL_SIZE=0)
    server.kill9()
    with contextlib.closing(Keeper(server.state_dir)) as keeper:
        assert keeper.create("stray-1", label="what is this")[0] == Keeper.CREATED
    server.start()
    assert "event=sandbox_orphan_removed sandbox=stray-1" in server.log()
    assert server.sandbox_pids("stray-1") == []
    assert server.health()["active_sessions"] == 0


# ---- damage ----

def overwrite(path):
    path.write_bytes(os.urandom(50000))


def cut(path):
    path.write_bytes(path.read_bytes()[:6000])


def scramble(path):
    data = bytearray(path.read_bytes())
    data[4096:8192] = os.urandom(4096)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [overwrite, cut, scramble, pathlib.Path.unlink])
def test_FT32_sessions_come_back_from_their_labels_when_the_store_is_lost(start_server, damage):
    server = start_server()
    session = server.create("t", timeout_minutes=90)
    server.stdout(session, "echo data > f")
    server.terminate()
    change(server, ("SELECT 1",))
    damage(database(server))
    server.start()
    assert thread_of(server, "t") == session
    assert server.stdout(session, "cat f") == "data\n"
    assert server.health()["status"] == "healthy"
    if damage is not pathlib.Path.unlink:
        assert "event=store_recovered" in server.log()
    server.restart()
    assert thread_of(server, "t") == session


STRANGE = {"no idle time": "idle_ms = 0", "negative": "idle_ms = -5", "huge":
           "idle_ms = 9223372036854775807", "far": "created_ms = 9223372036854775807, "
           "last_activity_ms = -9223372036854775807", "policy": "policy = 'gone'",
           "thread": "thread = char(10, 27, 55296), user = char(0)"}


def test_FT32_a_strange_row_costs_its_session_at_most(start_server):
    server = start_server()
    sessions = {name: server.create(name.replace(" ", "-"), timeout_minutes=0.1)
                for name in STRANGE}
    good = server.create("good")
    server.kill9()
    change(server, ("PRAGMA ignore_check_constraints=ON",), *(
        (f"UPDATE OR IGNORE sessions SET {STRANGE[name]} WHERE id = ?", session)
        for name, session in sessions.items()))
    server.start()
    assert thread_of(server, "good") == good
    for name, session in sessions.items():
        status = status_of(server, session)
        assert status and status["expires_at"], name
        assert server.try_execute(session, "whoami").status in (200, 404), name
    # Of these none lives for ever: their labels know better.
    for session in sessions.values():
        wait_until(lambda: not server.exists(session), f"{session} expires", 25)
    assert thread_of(server, "good") == good


# ---- a full disk ----

@pytest.fixture
def small_store(binary):
    """A server whose store has a disk of its own; what its sandboxes need is elsewhere."""
    server = Server()
    place = f"{server.state_dir}/store"
    os.chmod(server.state_dir, 0o755)
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=True)
    try:
        yield server.start()
        server.stop()
        subprocess.run(["umount", place], check=True)

        def leftovers():  # but our own mount, which others' namespaces may have got a copy of
            return [left for left in server.leftovers() if f" {place} " not in left]
        wait_until(lambda: not leftovers(), lambda: f"gone: {leftovers()}")
    finally:
        if os.path.ismount(place):
            subprocess.run(["umount", "-l", place], check=True)
        server.remove()
        shutil.rmtree(server.state_dir, ignore_errors=True)


def fill(place):
    path = f"{place}/filling"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return path


def test_FT11_a_store_that_is_full_refuses_new_sessions_and_heals(small_store):
    server = small_store
    old, other = server.create("old"), server.create("other")
    brief = server.create("brief", timeout_minutes=0.03)
    filling = fill(f"{server.state_dir}/store")
    refused, number = None, 0
    while not refused:  # the log may have room left in its own pages
        number += 1
        assert number < 500
        reply = server.post("/create_session", {"user_id": "u" * 500, "thread_id": f"t{number}"})
        refused = reply if reply.status != 200 else None
    assert refused.status == 503 and int(refused.headers["Retry-After"]) > 0
    assert server.state_dir not in refused.body.decode()
    assert server.get(f"/get_session?thread_id=t{number}").status == 404
    assert server.health()["status"] == "degraded"
    assert server.stdout(old, "echo usable") == "usable\n", "what is there goes on"
    wait_until(lambda: not server.exists(brief), "it expires as ever")
    assert server.post("/cleanup", {"session_id": other}).status == 200
    assert server.sandbox_pids(other) == [] and server.sandbox_pids(brief) == []
    os.unlink(filling)
    wait_until(lambda: server.health()["status"] == "healthy", "it has healed")
    assert "event=store_failing" in server.log() and "event=store_healed" in server.log()
    for thread in ("other", "brief", f"t{number}"):
        reply = server.post("/create_session", {"user_id": "u", "thread_id": thread})
        assert reply.status == 200, "a thread whose session went meanwhile comes again"
        assert reply.json["session_id"] not in (other, brief)
    health = server.health()
    assert health["pool"]["allocated"] == health["active_sessions"]
    server.restart()
    assert thread_of(server, "old") == old
    assert server.health()["active_sessions"] == health["active_sessions"]


def test_FT11_a_callback_waits_for_a_store_that_is_full(small_store):
    server = small_store.restart(**LOOPBACK)
    session = server.create("t")
    with Receiver() as receiver:
        process = start(server, session, "cat", stdin_open=True, notify_url=receiver.base)
        filling = fill(f"{server.state_dir}/store")
        process.write("x" * 65536)
        process.post("stdin/close")
        wait_until(lambda: "event=webhook_not_recorded" in server.log(), "it can't be written")
        assert not receiver.got
        os.unlink(filling)
        receiver.wait(seconds=30)
        assert receiver.data()["stdout"] == "x" * 65536
        assert wait_state(server, "done", session)["attempts"] == 1


def test_FT11_a_server_starts_although_its_store_is_full(small_store):
    server = small_store
    session, gone = server.create("t"), server.create("gone")
    server.kill9()
    change(server, ("DELETE FROM sessions WHERE id = ?", session))
    with contextlib.closing(Keeper(server.state_dir)) as keeper:
        keeper.destroy(gone)
    filling = fill(f"{server.state_dir}/store")
    server.start(seconds=15)
    assert thread_of(server, "t") == session and thread_of(server, "gone") is None
    assert server.stdout(session, "echo usable") == "usable\n"
    os.unlink(filling)
    wait_until(lambda: server.health()["status"] == "healthy", "it has healed")
    server.create("gone")
