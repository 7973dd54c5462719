# SPDX-License-Identifier: Apache-2.0
"""Shells that live on between commands, and beyond the server that opened them."""
import pytest

from server import wait_until
from shells import open_shell


@pytest.fixture
def shell(server, session):
    return open_shell(server, session)


@pytest.mark.parametrize("change,look,seen", [
    ("cd /tmp", "pwd", "/tmp\n"),
    ("a=1 b='x  y'; export E=out", "echo \"$a$b\"; bash -c 'echo $E'", "1x  y\nout\n"),
    ("f() { echo \"f $1\"; }; set -o pipefail", "f 5; false | true; echo $?", "f 5\n1\n"),
    ("sleep 300 & echo $!", "kill -0 $! && echo runs", "runs\n")])
def test_what_a_command_changes_stays(shell, change, look, seen):
    assert shell.run(change)["exit_code"] == 0
    assert shell.say(look) == seen


def test_streams_and_codes_are_each_commands_own(shell):
    answer = shell.run("echo out; echo err >&2; (exit 7)")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 7)
    assert shell.say("seq 1 50000") == "".join(f"{n}\n" for n in range(1, 50001))


def test_a_timeout_ends_the_command_and_keeps_the_shell(shell):
    shell.run("kept=yes")
    answer = shell.run("sleep 300 & sleep 300", timeout=1)
    assert answer["timed_out"], answer
    assert shell.say("echo $kept") == "yes\n"


def test_a_shell_that_ends_is_opened_again_with_what_it_knew(shell):
    shell.run("v=1; cd /tmp")
    answer = shell.run("exit 3")
    assert answer["exit_code"] == 3 and answer["shell"]["respawned"], answer
    assert shell.say("echo $v; pwd") == "1\n/tmp\n"


def test_a_closed_shell_takes_what_it_started_along(server, session, shell):
    pid = shell.say("sleep 300 >&- 2>&- & echo $!").strip()
    assert shell.delete().status in (200, 204)
    wait_until(lambda: server.execute(session, f"kill -0 {pid}")["exit_code"] != 0,
               "what the shell left running ends")


def test_a_shell_outlives_the_server(own_server):
    one = own_server()
    session = one.create()
    shell = open_shell(one, session)
    shell.run("v=before; cd /tmp")
    one.kill9()
    one.start()
    assert shell.say("echo $v; pwd") == "before\n/tmp\n"
    one.cleanup(session)
