# SPDX-License-Identifier: Apache-2.0
"""On timeout everything that a command started dies; after a normal end its background lives on."""
import time

import pytest

from live import people, start
from server import argv_of, wait_until

DAEMON = """
import os, sys, time
def daemon():
    os.setsid()
    if os.fork(): os._exit(0)
    os.close(0), os.close(1), os.close(2)
    time.sleep(600)
    open('/workspace/alive', 'w')
if os.fork() == 0: daemon()
print('started', flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("name,command", [
    ("setsid", 'setsid sleep 600 & sleep 600'),
    ("nohup", 'nohup sh -c "sleep 600; touch alive" >/dev/null 2>&1 & sleep 600'),
    ("setsid nohup", 'setsid nohup sh -c "sleep 600; touch alive" >/dev/null 2>&1 & sleep 600'),
    ("double fork", f"python3 -c \"{DAEMON}\""),
    ("disowned", '( ( sleep 600 & ) & ) ; disown -a; sleep 600'),
    ("many", 'for i in $(seq 50); do setsid sleep 600 & done; sleep 600'),
    ("coproc", 'coproc sleep 600; sleep 600'),
    ("vfork", "python3 -c \"import subprocess,time;"
              "subprocess.Popen(['sleep','600'],start_new_session=True);time.sleep(600)\""),
])
def test_R17_after_a_timeout_nothing_is_left(server, session, name, command):
    answer = server.execute(session, command, timeout=1)
    assert answer["cause"] == "timeout"
    wait_until(lambda: not people(server, session), f"{name}: all are dead", 2)
    assert server.stdout(session, "ls") == ""


LEFT_BEHIND = ("bash -c 'setsid nohup sleep 1000 & (sleep 1000 &) ; "
               'python3 -c "import os; os.fork() or os.fork(); import time; time.sleep({seconds})"'
               "'")


@pytest.mark.parametrize("end", ["timeout", "delete"])
def test_R17_of_a_tree_of_daemons_not_one_process_is_left(server, session, end):
    fields = {"timeout": 1.5} if end == "timeout" else {}
    process = start(server, session, LEFT_BEHIND.format(seconds=1000), **fields)
    if end == "delete":
        # Two sleeps, and three of Python, into which bash has turned.
        wait_until(lambda: len(people(server, session)) == 5, "all of them run")
        assert process.delete().json["cause"] == "killed"
    else:
        assert process.wait_exited()["cause"] == "timeout"
    wait_until(lambda: not people(server, session), "all are dead", 2)


def test_of_a_tree_of_daemons_a_normal_end_leaves_the_background_running(server, session):
    answer = server.execute(session, LEFT_BEHIND.format(seconds=0))
    assert (answer["cause"], answer["exit_code"]) == ("exited", 0)
    wait_until(lambda: [argv_of(pid) for pid in people(server, session)]
               == [["sleep", "1000"]] * 2, "the two sleeps are left")


def test_R17_forking_without_end_does_not_outrun_the_kill(server, session):
    runaway = "import os\nwhile True:\n  if os.fork(): os._exit(0)\n"
    answer = server.execute(session, "python3 - & sleep 600", stdin=runaway, timeout=1)
    assert answer["cause"] == "timeout"
    wait_until(lambda: not people(server, session), "all are dead", 2)


def test_R16_a_child_that_keeps_stdout_does_not_delay_the_answer(server, session):
    began = time.monotonic()
    answer = server.execute(session, "sleep 1000 & echo done")
    assert time.monotonic() - began < 1
    assert (answer["stdout"], answer["cause"]) == ("done\n", "exited")
    assert len(people(server, session)) == 1


def test_what_a_normal_end_left_running_is_seen_by_the_next_command(server, session):
    pid = server.stdout(session, "sleep 1000 & echo $!").strip()
    told = server.stdout(session, f"kill -0 {pid} && tr '\\0' ' ' < /proc/{pid}/cmdline")
    assert told == "sleep 1000 "
    assert server.stdout(session, "pgrep -x sleep").strip() == pid
    assert server.execute(session, f"kill {pid}")["exit_code"] == 0
    wait_until(lambda: not people(server, session), "it is dead")


def test_a_timeout_leaves_other_commands_of_the_session_alone(server, session):
    pid = server.stdout(session, "sleep 1000 & echo $!").strip()
    assert server.execute(session, "sleep 60", timeout=0.5)["cause"] == "timeout"
    assert server.execute(session, f"kill -0 {pid}")["exit_code"] == 0


def test_R18_a_program_that_ignores_signals_is_killed(server, session):
    began = time.monotonic()
    answer = server.execute(session, 'trap "" TERM HUP INT QUIT; while :; do sleep 1; done',
                            timeout=1)
    assert time.monotonic() - began < 3
    assert (answer["cause"], answer["exit_code"]) == ("timeout", 124)


def test_R19_a_stopped_program_is_killed(server, session):
    began = time.monotonic()
    answer = server.execute(session, "kill -STOP $$", timeout=2)
    assert 1.9 < time.monotonic() - began < 4
    assert answer["cause"] == "timeout"
    wait_until(lambda: not people(server, session), "it is dead", 2)


def test_R19_stopped_children_are_killed_too(server, session):
    answer = server.execute(session, "sleep 600 & kill -STOP $!; sleep 600", timeout=1)
    assert answer["cause"] == "timeout"
    wait_until(lambda: not people(server, session), "all are dead", 2)


def test_the_timeout_holds_while_the_cpu_is_busy(start_server):
    server = start_server(CPU_QUOTA=25000)
    session = server.create()
    began = time.monotonic()
    spin = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"
    answer = server.execute(session, spin, timeout=1)
    assert answer["cause"] == "timeout" and "cpu" in answer["limits_hit"]
    assert time.monotonic() - began < 4
    wait_until(lambda: not people(server, session), "all are dead", 3)


def test_no_zombies_stay(server, session):
    for _ in range(5):
        server.execute(session, "for i in 1 2 3 4 5; do setsid true & done; (sleep 0 &) ; true")
    wait_until(lambda: server.sandbox_pids(session) == [server.guest_pid(session)],
               "PID 1 is alone", 3)
