# SPDX-License-Identifier: Apache-2.0
"""Commands: what they are given, what they print, how they end."""
import hashlib
import os
import time

import pytest

from live import start, try_start
from server import wait_until

MIB = 1 << 20


def test_streams_exit_code_and_cause(server, session):
    answer = server.execute(session, "echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"]) == ("out\n", "err\n")
    assert (answer["exit_code"], answer["cause"], answer["signal"]) == (3, "exited", None)


def test_who_and_where_a_command_is(server, session):
    assert server.stdout(session, "id -un; id -u; pwd; hostname") == (
        f"sandboxuser\n1000\n/workspace\nbox-{session[:8]}\n")


def test_a_signal_is_told_as_a_shell_tells_it(server, session):
    answer = server.execute(session, "kill -9 $$")
    assert (answer["exit_code"], answer["signal"], answer["cause"]) == (137, 9, "signal")


def test_cwd_environment_and_stdin(server, session):
    answer = server.execute(session, "mkdir -p d")
    answer = server.execute(session, "pwd; echo $A; cat", cwd="/workspace/d", env={"A": "b c"},
                            stdin="given")
    assert answer["stdout"] == "/workspace/d\nb c\ngiven"


@pytest.mark.parametrize("size", [1, 60 << 10, 5 * MIB])
def test_stdin_of_any_size_arrives_whole(server, session, size):
    text = ("x" * 1023 + "\n") * (size // 1024) + "y"
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert server.stdout(session, "sha256sum", stdin=text).split()[0] == digest


def test_a_script_longer_than_an_argument_may_be(server, session):
    script = "x='" + "a" * 200_000 + "'; echo ${#x}"
    assert server.stdout(session, script) == "200000\n"


def test_what_cannot_run_is_400_with_the_reason(server, session):
    reply = try_start(server, session, argv=["/nowhere/program"])
    assert reply.status == 400 and "can't be executed" in reply.json["error"], reply
    reply = try_start(server, session, "true", cwd="/nowhere")
    assert reply.status == 400 and "cwd" in reply.json["error"], reply


def test_much_output_comes_whole_and_in_order(server, session):
    live = start(server, session, "seq 1 1000000")
    live.wait_exited(60)
    text = "".join(f"{n}\n" for n in range(1, 1000001)).encode()
    assert live.output() == text


def test_bytes_are_bytes(server, session):
    data = bytes(range(256)) * 100
    assert server.upload(session, "b", data).status == 200
    live = start(server, session, "cat b; cat b >&2")
    live.wait_exited()
    assert live.output() == data and live.output("stderr") == data


def test_both_streams_at_once_lose_nothing(server, session):
    command = "for i in $(seq 2000); do echo out $i; echo err $i >&2; done"
    live = start(server, session, command)
    live.wait_exited(60)
    assert live.output() == "".join(f"out {i}\n" for i in range(1, 2001)).encode()
    assert live.output("stderr") == "".join(f"err {i}\n" for i in range(1, 2001)).encode()


def test_output_is_there_while_it_is_printed(server, session):
    live = start(server, session, "echo first; read x; echo got $x", stdin_open=True)
    live.wait_said(b"first\n")
    assert live.show()["state"] == "running"
    assert live.write("more\n").status == 200
    live.wait_said(b"got more\n")
    assert live.wait_exited()["exit_code"] == 0


def test_what_a_command_left_running_still_prints(server, session):
    server.execute(session, "mkfifo go")
    live = start(server, session, "(read x < go; echo late) & echo early; exit 0")
    assert live.wait_exited()["exit_code"] == 0
    assert live.output() == b"early\n"
    server.execute(session, "echo > go")
    live.wait_said(b"late\n")


def test_a_timeout_ends_the_whole_tree(server, session):
    began = time.monotonic()
    answer = server.execute(session, "setsid sleep 1000 & nohup sleep 1000 & sleep 1000", timeout=1)
    assert (answer["exit_code"], answer["cause"], answer["timed_out"]) == (124, "timeout", True)
    assert time.monotonic() - began < 20
    assert server.execute(session, "ps -eo args | grep '[s]leep 1000'")["exit_code"] == 1


def test_a_kill_ends_the_whole_tree(server, session):
    live = start(server, session, "setsid sleep 2000 & (sleep 2000 &) ; echo up; sleep 2000")
    live.wait_said(b"up\n")
    assert live.delete().status == 200
    assert live.show()["cause"] == "killed"
    gone = lambda: server.execute(session, "ps -eo args | grep '[s]leep 2000'")["exit_code"] == 1
    wait_until(gone, "all are gone")


def test_what_is_not_killed_goes_on(server, session):
    server.execute(session, "sleep 3000 > /dev/null 2>&1 &")
    assert server.execute(session, "ps -eo args | grep '[s]leep 3000'")["exit_code"] == 0


def test_signals_reach_the_leader_or_the_tree(server, session):
    live = start(server, session, "trap 'echo caught; exit 5' TERM; echo up; "
                                  "while :; do sleep 0.05; done")
    live.wait_said(b"up\n")
    assert live.signal("TERM", tree=False).status == 200
    live.wait_said(b"caught\n")
    assert live.wait_exited()["exit_code"] == 5


def test_many_commands_at_once(server, session):
    lives = [start(server, session, f"echo {n}; exit {n}") for n in range(20)]
    for n, live in enumerate(lives):
        assert live.wait_exited()["exit_code"] == n
        assert live.output() == f"{n}\n".encode()


def test_too_many_processes_are_refused_and_the_rest_goes_on(server, session):
    answer = server.execute(session, "for i in $(seq 200); do sleep 60 & done; wait", timeout=5)
    assert "pids" in answer["limits_hit"] or "Resource temporarily" in answer["stderr"], answer
    assert server.stdout(session, "echo fine") == "fine\n"


def test_too_much_memory_ends_the_command_alone(own_server):
    server = own_server(POOL_SIZE=0, MEMORY_LIMIT="64m")
    session = server.create()
    answer = server.execute(session, "x=$(tr '\\0' 'a' < /dev/zero | head -c 300000000); echo $?",
                            timeout=60)
    assert answer["cause"] == "oom" or "memory" in answer["limits_hit"], answer
    assert server.stdout(session, "echo fine") == "fine\n"


def test_the_root_is_read_only_and_there_is_no_way_up(server, session):
    assert server.execute(session, "touch /usr/x")["exit_code"] != 0
    status = server.stdout(session, "cat /proc/self/status")
    assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status


def test_there_is_no_network(server, session):
    names = server.stdout(session, "ls /sys/class/net 2>/dev/null || cut -d: -f1 /proc/net/dev")
    assert "eth" not in names
    assert server.execute(session, "exec 3<>/dev/tcp/1.1.1.1/53", timeout=10)["exit_code"] != 0


def test_a_session_sees_nothing_of_another(server, session):
    other = server.create()
    server.execute(other, "echo secret > mine; sleep 4000 > /dev/null 2>&1 &")
    assert server.execute(session, "cat mine")["exit_code"] != 0
    assert server.execute(session, "ps -eo args | grep '[s]leep 4000'")["exit_code"] == 1
    server.cleanup(other)


def test_random_bytes_through_a_pipe_come_back(server, session):
    data = os.urandom(3 * MIB)
    live = start(server, session, "cat", stdin_open=True)
    for at in range(0, len(data), MIB):
        assert live.write(data[at:at + MIB]).status == 200
    assert live.post("stdin/close").status == 200
    assert live.wait_exited(60)["exit_code"] == 0
    assert live.output() == data


def test_a_closed_stdin_is_told(server, session):
    never = start(server, session, "sleep 1000")
    assert never.write(b"x").status == 409
    closed = start(server, session, "cat; sleep 1000", stdin_open=True)
    assert closed.post("stdin/close").status == 200
    wait_until(lambda: closed.write(b"x").status == 409, "writes are refused")
    deaf = start(server, session, "exec 0<&-; echo deaf; sleep 1000", stdin_open=True)
    deaf.wait_said(b"deaf\n")
    wait_until(lambda: deaf.write(b"x" * 1000).status == 409, "writes are refused")
    for live in (never, closed, deaf):
        live.delete()


def test_a_program_that_does_not_read_can_still_be_ended(server, session):
    live = start(server, session, "sleep 1000", stdin_open=True, stdin="x" * MIB)
    assert live.delete().status == 200
    assert live.show()["cause"] == "killed"
