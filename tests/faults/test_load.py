# SPDX-License-Identifier: Apache-2.0
"""The server dies under load, at random moments, or is stopped: nothing that was answered is lost,
and time goes on."""
import concurrent.futures
import contextlib
import hashlib
import os
import random
import socket
import threading
import time

import pytest

from server import wait_until
from test_store import change, rows_of, status_of, thread_of


class Load:
    """Clients that note what they were answered."""

    def __init__(self, server):
        self.server, self.over, self.lock = server, False, threading.Lock()
        self.sessions, self.files, self.outputs = {}, {}, {}

    def note(self, where, key, value):
        with self.lock:
            where[key] = value

    def work(self, index):
        with contextlib.suppress(Exception):  # it ends with the server
            session = self.server.create(f"thread-{index}")
            self.note(self.sessions, f"thread-{index}", session)
            for step in range(10**6):
                data = os.urandom(20000)
                reply = self.server.upload(session, f"f{step}", data)
                if reply.status == 200:
                    self.note(self.files, (session, f"f{step}"), hashlib.sha256(data).hexdigest())
                told = self.server.execute(session, f"seq {step} {step + 500}; exit {step % 9}")
                self.note(self.outputs, (session, told["process_id"]),
                          (told["exit_code"], told["stdout"]))

    def create(self, index):
        with contextlib.suppress(Exception):
            for step in range(10**6):
                thread = f"more-{index}-{step}"
                session = self.server.create(thread)
                if step % 3 == 2:
                    self.server.cleanup(session)
                    self.note(self.sessions, thread, None)
                else:
                    self.note(self.sessions, thread, session)


def half_upload(server, session):
    client = socket.create_connection(("127.0.0.1", server.port), 20)
    head = (b"--b\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n%s\r\n--b\r\n"
            b"Content-Disposition: form-data; name=\"file\"; filename=\"half\"\r\n\r\n"
            % session.encode())
    client.sendall(b"POST /upload_file HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; "
                   b"boundary=b\r\nContent-Length: 400000\r\n\r\n" + head + bytes(300000))
    return client


def test_FT02_kill_9_under_load_loses_nothing_that_was_answered(start_server):
    server = start_server(MAX_POOL_SIZE=100)
    load = Load(server)
    with concurrent.futures.ThreadPoolExecutor(22) as pool:
        for index in range(20):
            pool.submit(load.work, index)
        wait_until(lambda: len({session for session, _ in load.outputs}) == 20, "all work", 30)
        half = [half_upload(server, load.sessions[f"thread-{n}"]) for n in range(20)]
        talker = load.sessions["thread-0"]
        pool.submit(server.execute_and_forget, talker, "echo first; until [ -e /tmp/go ]; do "
                    "sleep 0.05; done; echo last; exit 5")
        pool.submit(load.create, 1)
        wait_until(lambda: any(thread.startswith("more-1-4") for thread in load.sessions),
                   "sessions come and go", 30)
        server.kill9()
    for client in half:
        client.close()
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < 5
    for thread, session in load.sessions.items():
        assert thread_of(server, thread) == session, thread
    for (session, number), (code, text) in load.outputs.items():
        reply = server.get(f"/api/sessions/{session}/processes/{number}")
        if reply.status == 404:  # only the newest are kept
            continue
        assert reply.json["exit_code"] == code
        assert server.output(session, number).decode() == text
    for session in {session for session, _ in load.files}:
        sums = server.stdout(session, "sha256sum f*; ls -A | grep -v '^f[0-9]*$' || true")
        found = dict(reversed(line.split()) for line in sums.splitlines() if " " in line)
        for (owner, name), digest in load.files.items():
            assert owner != session or found[name] == digest, name
        assert [line for line in sums.splitlines() if " " not in line] == [], "half of a file"
    server.stdout(talker, "touch /tmp/go")
    said = wait_until(lambda: [server.output(talker, row["process_id"]) for row in
                               server.processes(talker) if row.get("exit_code") == 5 and
                               row["stdout_bytes"] == 11], "the one that ran has ended")
    assert b"first\nlast\n" in said
    assert not [name for name in os.listdir(f"{server.state_dir}/output")
                if not os.path.isdir(f"{server.state_dir}/output/{name}")]
    sessions = server.health()["active_sessions"]
    assert server.health()["pool"]["allocated"] == sessions
    server.terminate()
    assert len(rows_of(server)) == sessions
    server.start()


def test_FT01_kill_9_of_an_idle_server_costs_nothing(start_server):
    server = start_server()
    sessions = {f"t{n}": server.create(f"t{n}", user_id=f"u{n}") for n in range(5)}
    sums = {}
    for session in sessions.values():
        server.stdout(session, "head -c 300000 /dev/urandom > a; mkdir d; echo b > d/b; ln -s a l")
        sums[session] = server.stdout(session, "find . -type f | sort | xargs sha256sum; ls -l l")
    before = {session: status_of(server, session) for session in sums}
    server.kill9()
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < 5
    for session, status in before.items():
        after = status_of(server, session)
        for field in ("created_at", "last_activity", "expires_at", "thread_id", "policy"):
            assert after[field] == status[field], field
    for thread, session in sessions.items():
        assert thread_of(server, thread) == session
        assert server.stdout(session, "find . -type f | sort | xargs sha256sum; ls -l l") == \
            sums[session]
    assert server.log().count("event=session_adopted") == 5


def rounds_of_creates(server, rounds):
    choose = random.Random(int(os.environ.get("THREADBOX_SEED", "1")))
    for number in range(rounds):
        load = Load(server)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for index in range(4):
                pool.submit(load.create, f"{number}-{index}")
            time.sleep(choose.random() * 0.2)  # the random moment
            server.kill9()
        server.start()
        for thread, session in load.sessions.items():
            assert thread_of(server, thread) == session, (number, thread)
        health = server.health()
        assert health["pool"]["allocated"] == health["active_sessions"]
        for session in recorded(server):
            server.cleanup(session)
        assert server.health()["active_sessions"] == 0


def recorded(server):
    """Of all sandboxes that have an owner: a client that lost its answer could not name them."""
    return [name for name in os.listdir(f"{server.state_dir}/sandboxes") if "." not in name]


def test_FT05_kill_9_while_sessions_are_written_down(start_server):
    rounds_of_creates(start_server(POOL_SIZE=2, POOL_REFILL_DELAY_SECONDS=0), 5)


@pytest.mark.long
def test_FT05_kill_9_a_hundred_times_while_sessions_are_written_down(start_server):
    rounds_of_creates(start_server(POOL_SIZE=2, POOL_REFILL_DELAY_SECONDS=0), 100)


# ---- timers ----

def test_timers_go_on_without_a_server(start_server):
    server = start_server()
    began = time.monotonic()
    first = server.create("first", timeout_minutes=0.02)   # 1.2 s: while no server is there
    second = server.create("second", timeout_minutes=0.1)  # 6 s: after the new one has come
    third = server.create("third", timeout_minutes=5)
    server.kill9()
    wait_until(lambda: not server.sandbox_pids(first), "the keeper has ended it")
    server.start()
    assert thread_of(server, "first") is None and status_of(server, first) is None
    assert f"event=session_expired user=tester thread=first session={first[:12]}" in server.log()
    assert f"event=session_orphan_removed session={first[:12]}" in server.log()
    assert thread_of(server, "second") == second
    wait_until(lambda: not server.exists(second), "it is gone too")
    assert 6 <= time.monotonic() - began < 9
    assert thread_of(server, "third") == third
    server.terminate()
    assert rows_of(server) == {third}
    server.start()


@pytest.mark.parametrize("years", [-10, 10])
def test_FT15_another_time_of_day_ends_no_session(start_server, years):
    """As if the clock had jumped between the two servers."""
    server = start_server()
    session = server.create("t", timeout_minutes=1)
    server.kill9()
    shift = years * 365 * 86400 * 1000
    change(server, ("UPDATE sessions SET created_ms = created_ms + ?1, last_activity_ms = "
                    "last_activity_ms + ?1", shift))
    server.start()
    assert thread_of(server, "t") == session
    assert server.stdout(session, "echo usable") == "usable\n"
    now = time.strftime("%Y-%m-%d", time.gmtime())
    assert status_of(server, session)["last_activity"].startswith(now)


def test_FT08_a_stopped_server_loses_no_session_that_is_at_work(start_server):
    server = start_server()
    session = server.create("t", timeout_minutes=0.02)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.execute, session, "sleep 3; echo done", timeout=60)
        wait_until(lambda: server.processes(session), "it runs")
        os.kill(server.process.pid, 19)
        time.sleep(4)  # the fault itself: a stopped server
        os.kill(server.process.pid, 18)
        assert running.result()["stdout"] == "done\n"
