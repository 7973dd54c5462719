# SPDX-License-Identifier: Apache-2.0
"""A command's end is answered first and stored later; and a shell of the pool waits for nobody for
ever. Whatever comes in between, nothing is lost and nothing stays behind."""
import os

import pytest

from prestart import waiting
from server import AHEAD, read_text, wait_until


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def shells(server, session):
    return [pid for pid in server.sandbox_pids(session, ahead=True)
            if AHEAD.match(read_text(f"/proc/{pid}/cmdline"))]


@pytest.mark.parametrize("end", ["terminate", "kill9"])
def test_what_lingers_is_not_forgotten_by_a_restart(start_server, end):
    server = start_server(POOL_SIZE=1)
    session = server.create("t")
    number = server.execute(session, "(until [ -e go ]; do sleep 0.1; done; echo late) & "
                                     "echo early; echo wrong >&2")["process_id"]
    for _ in range(66):
        server.execute(session, "true")
    assert server.output(session, number) == b"early\n"
    getattr(server, end)()
    server.start()
    assert server.output(session, number) == b"early\n"
    assert server.output(session, number, "stderr") == b"wrong\n"
    server.upload(session, "go", b"")
    wait_until(lambda: server.output(session, number) == b"early\nlate\n",
               lambda: server.output(session, number))


def test_short_commands_beside_many_long_ones_are_all_released(start_server):
    server = start_server(POOL_SIZE=1, PIDS_LIMIT=400)
    session = server.create("t")
    for _ in range(90):
        server.post(f"/api/sessions/{session}/processes", {"command": "sleep 500"})
    guest = server.guest_pid(session)
    assert server.stdout(session, "echo hi") == "hi\n"
    before = descriptors(guest)
    for _ in range(100):
        assert server.stdout(session, "echo hi") == "hi\n"
    wait_until(lambda: descriptors(guest) <= before + 3,
               lambda: f"{descriptors(guest)} descriptors, {before} before")


def test_ended_streams_are_closed_though_the_other_one_lingers(start_server):
    server = start_server(POOL_SIZE=1)
    session = server.create("t")
    server.execute(session, "echo hi; echo w >&2")
    wait_until(lambda: shells(server, session), "it is at rest")
    before = descriptors(server.process.pid)
    for _ in range(40):
        server.execute(session, "(read -t 0.03 <> <(:) > /dev/null) & echo hi; echo w >&2")
    wait_until(lambda: descriptors(server.process.pid) <= before + 2,
               lambda: f"{descriptors(server.process.pid)} descriptors, {before} before")


@pytest.mark.parametrize("then", [{}, {"PRESTART_SECONDS": 0}])
def test_a_shell_of_the_pool_keeps_no_session_awake_after_a_restart(start_server, then):
    server = start_server(POOL_SIZE=1, PRESTART_SECONDS=1, SLEEP_SECONDS=2)
    wait_until(lambda: server.health()["pool_available"] == 1 and shells(server, ""),
               "a shell waits in the pool")
    server.restart(**then)
    session = server.create("t")
    wait_until(lambda: not server.sandbox_pids(session, True), "it sleeps")


def test_a_shell_of_the_pool_beside_an_interpreter_goes_in_time(start_server):
    server = start_server(POOL_SIZE=1, PRESTART_SECONDS=1, WARM_LANGUAGES="python")
    wait_until(lambda: server.health()["pool_available"] == 1 and shells(server, ""),
               "a shell waits in the pool")
    session = server.create("t")
    wait_until(lambda: not shells(server, session), "it has waited for long enough")


def test_who_creates_and_commands_finds_a_shell(start_server):
    server = start_server(POOL_SIZE=1)
    wait_until(lambda: server.health()["pool_available"] == 1 and shells(server, ""),
               "a shell waits in the pool")
    shell = wait_until(lambda: waiting(server, ""), "it does")
    session = server.create("t")
    inside = read_text(f"/proc/{shell}/status").split("NSpid:")[1].split("\n")[0].split()[-1]
    assert server.stdout(session, "echo $$") == inside + "\n"
