# SPDX-License-Identifier: Apache-2.0
"""Sessions that nobody uses: their sandboxes go (SLEEP_SECONDS), and nobody can tell."""
import concurrent.futures
import os
import time

import pytest

from server import wait_until


def sandbox_of(server, session):
    return server.get(f"/status/{session}").json["sandbox"]


def wait_asleep(server, session):
    wait_until(lambda: sandbox_of(server, session) == "asleep", "it sleeps", 60)
    # A sandbox that does not answer any more because it is being ended counts as asleep as well.
    wait_until(lambda: not server.sandbox_pids(session, True), "its processes are gone")


@pytest.fixture
def sleepy(start_server):
    return start_server(SLEEP_SECONDS=1, PRESTART_SECONDS=1, POOL_SIZE=1)


def test_a_session_that_slept_is_as_it_was(sleepy):
    session = sleepy.create("t")
    sleepy.execute(session, "echo work > w; echo tmp > /tmp/t; echo home > ~/h; umask 077; "
                            "mkfifo p; ln -s w l; chmod 751 w; touch -d 2001-02-03 w")
    look = "id; hostname; pwd; stat -c '%n %a %U %Y %F' *; cat /tmp/t ~/h; env"
    seen = sleepy.stdout(session, look)
    wait_asleep(sleepy, session)
    assert sleepy.stdout(session, look) == seen
    assert sleepy.create("t") == session
    assert sandbox_of(sleepy, session) == "running"


def test_what_ran_before_is_still_known(sleepy):
    session = sleepy.create()
    path = f"/api/sessions/{session}/processes"
    number = sleepy.post(path, {"command": "echo printed; echo wrong >&2; exit 3",
                                "tag": "mine"}).json["process_id"]
    sleepy.wait_exited(session, number)
    before = sleepy.get(f"{path}/{number}").json
    wait_asleep(sleepy, session)
    assert sleepy.get(f"{path}/{number}").json == before
    assert [row["process_id"] for row in sleepy.get(path).json["processes"]] == [number]
    assert sandbox_of(sleepy, session) == "asleep"
    assert sleepy.execute(session, "echo more")["stdout"] == "more\n"
    after = sleepy.get(f"{path}/{number}").json
    assert {**after, "pid": before["pid"]} == before
    assert sleepy.output(session, number) == b"printed\n"
    again = sleepy.post(path, {"command": "true"}).json["process_id"]
    assert again > number


def test_it_is_known_after_a_restart_too(sleepy):
    session = sleepy.create("t")
    path = f"/api/sessions/{session}/processes"
    number = sleepy.post(path, {"command": "echo printed > f; cat f"}).json["process_id"]
    sleepy.wait_exited(session, number)
    wait_asleep(sleepy, session)
    sleepy.kill9()
    sleepy.restart()
    assert sandbox_of(sleepy, session) == "asleep"
    assert sleepy.output(session, number) == b"printed\n"
    assert sleepy.create("t") == session
    assert sleepy.stdout(session, "cat f") == "printed\n"


@pytest.mark.parametrize("keeps", [
    "sleep 1000 > /dev/null 2>&1 &",              # a daemon
    "setsid sleep 1000 < /dev/null > /dev/null 2>&1 & disown",
    "echo x > /dev/shm/f",                        # what only memory has
    ": > /dev/shm/empty",
    "python3 -c 'from multiprocessing import shared_memory as s, resource_tracker as r; "
    "m = s.SharedMemory(create=True, size=10000); r.unregister(m._name, \"shared_memory\")'",
])
def test_what_would_be_lost_keeps_it_awake(start_server, keeps):
    server = start_server(SLEEP_SECONDS=1, PRESTART_SECONDS=0, POOL_SIZE=1)
    session, other = server.create(), server.create()
    server.execute(session, keeps)
    guest = server.guest_pid(session)
    wait_asleep(server, other)
    wait_again = server.create()
    wait_asleep(server, wait_again)  # more than one look at it later
    assert server.guest_pid(session) == guest


def test_shells_and_contexts_keep_it_awake(sleepy):
    shell, context, plain = sleepy.create(), sleepy.create(), sleepy.create()
    assert sleepy.post(f"/api/sessions/{shell}/shells", {}).status == 201
    assert sleepy.post(f"/api/sessions/{context}/code", {"code": "x = 1"}).status == 200
    wait_asleep(sleepy, plain)
    again = sleepy.create()
    wait_asleep(sleepy, again)
    assert sandbox_of(sleepy, shell) == sandbox_of(sleepy, context) == "running"
    assert sleepy.post(f"/api/sessions/{context}/code", {"code": "x"}).json["results"][0]["text"] \
        == "1"


def test_a_running_command_keeps_it_awake(sleepy):
    busy, idle = sleepy.create(), sleepy.create()
    number = sleepy.post(f"/api/sessions/{busy}/processes", {"command": "cat", "stdin_open": True}
                         ).json["process_id"]
    wait_asleep(sleepy, idle)
    assert sandbox_of(sleepy, busy) == "running"
    sleepy.post(f"/api/sessions/{busy}/processes/{number}/stdin/close")
    wait_asleep(sleepy, busy)


def test_many_wake_it_at_once(sleepy):
    session = sleepy.create()
    sleepy.execute(session, "echo here > f")
    for _ in range(3):
        wait_asleep(sleepy, session)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda _: sleepy.stdout(session, "cat f"), range(16)))
        assert said == ["here\n"] * 16


def test_files_are_there_while_it_sleeps(sleepy):
    session = sleepy.create("t")
    sleepy.upload(session, "f", b"bytes")
    wait_asleep(sleepy, session)
    assert sleepy.download(session, "f").body == b"bytes"
    wait_asleep(sleepy, session)
    assert sleepy.get("/get_session?thread_id=t").json["files_count"] == 1


def test_it_keeps_its_place(start_server):
    server = start_server(SLEEP_SECONDS=1, PRESTART_SECONDS=0, POOL_SIZE=0, MAX_POOL_SIZE=2)
    first, second = server.create(), server.create()
    wait_asleep(server, first)
    wait_asleep(server, second)
    assert server.post("/create_session").status == 503
    server.cleanup(second)
    third = server.create()
    assert server.stdout(first, "echo on") == server.stdout(third, "echo on") == "on\n"
    wait_asleep(server, first)
    server.cleanup(first)
    assert server.health()["pool"]["allocated"] == 1
    assert not server.exists(first)
    assert server.stdout(server.create(), "ls") == ""


def test_looking_does_not_lengthen_its_life(start_server):
    server = start_server(SLEEP_SECONDS=1, PRESTART_SECONDS=0)
    session = server.create(timeout_minutes=0.15)
    expires = server.get(f"/status/{session}").json["expires_at"]
    wait_asleep(server, session)
    server.get(f"/list_files?session_id={session}")  # wakes it, and is no activity
    assert server.get(f"/status/{session}").json["expires_at"] == expires
    server.wait_gone(session, 60)


def test_one_that_expires_asleep_leaves_nothing(start_server):
    server = start_server(SLEEP_SECONDS=1, PRESTART_SECONDS=0, POOL_SIZE=0)
    session = server.create(timeout_minutes=0.07)
    server.execute(session, "echo x | tee f")
    wait_asleep(server, session)
    server.wait_gone(session, 60)
    wait_until(lambda: os.listdir(f"{server.state_dir}/output") == [], "its output is gone")
    assert os.listdir(f"{server.state_dir}/sandboxes") == []
    assert server.health()["pool"]["allocated"] == 0


def test_never_when_told_so(start_server):
    never = start_server(SLEEP_SECONDS=0, PRESTART_SECONDS=0)
    session = never.create()
    guest = never.guest_pid(session)
    time.sleep(3)
    assert never.guest_pid(session) == guest
