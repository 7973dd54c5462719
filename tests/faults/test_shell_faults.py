# SPDX-License-Identifier: Apache-2.0
"""Shells when something dies: the server, the shell itself, or its sandbox."""
import concurrent.futures
import os

import pytest

from live import people
from server import wait_until
from shells import Shell, open_shell, try_open


def test_a_shell_outlives_the_server_with_all_that_it_knows(start_server):
    server = start_server()
    session = server.create("t")
    some = [open_shell(server, session, tag=f"s{n}") for n in range(2)]
    for n, one in enumerate(some):
        one.say(f"v={n}; mkdir d{n}; cd d{n}; f() {{ echo f{n}; }}; sleep 300 &")
    before = [one.show() for one in some]
    server.kill9()
    server.start()
    assert [one.show() for one in some] == before
    for n, one in enumerate(some):
        assert one.say("echo $v; pwd; f; kill -0 $! && echo runs") == (
            f"{n}\n/workspace/d{n}\nf{n}\nruns\n")
    assert open_shell(server, session).number not in [one.number for one in some]


def test_a_run_goes_on_while_the_server_is_dead_and_its_end_is_found(start_server):
    server = start_server()
    session = server.create("t")
    shell = open_shell(server, session)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(shell.run_and_forget, "v=1; echo before; echo err >&2; touch begun; "
                    "until [ -e go ]; do sleep 0.02; done; echo after; cd /tmp; (exit 7)")
        wait_until(lambda: server.stdout(session, "ls begun 2>/dev/null; true"), "it has begun")
        number = shell.show()["running"]
        server.kill9()
    server.start()
    shown = shell.show()
    assert (shown["state"], shown["running"]) == ("running", number)
    assert server.output(session, number) == b"before\n"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(shell.run, "echo $v; pwd")
        server.stdout(session, "touch go")
        answer = waiting.result()
    assert answer["stdout"] == "1\n/tmp\n", "it waited for the one before"
    ended = server.process_of(session, number)
    assert (ended["exit_code"], ended["cause"], ended["shell_id"]) == (7, "exited", shell.number)
    assert server.output(session, number) == b"before\nafter\n"
    assert server.output(session, number, "stderr") == b"err\n"


def test_a_timeout_is_kept_while_no_server_is_there(start_server):
    server = start_server()
    session = server.create("t")
    shell = open_shell(server, session)
    shell.say("v=kept")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(shell.run_and_forget, "echo begun; sleep 300; touch after", timeout=1.5)
        number = shell.wait_running()
        wait_until(lambda: server.output(session, number), "it prints")
        server.kill9()
    wait_until(lambda: len(people(server, session)) == 1, "only the shell is left")
    server.start()
    ended = server.wait_exited(session, number)
    assert (ended["cause"], ended["exit_code"]) == ("timeout", 124)
    assert shell.say("echo $v; ls after 2>/dev/null | wc -l") == "kept\n0\n"


def test_what_ended_a_shell_while_no_server_was_there_is_said(start_server):
    server = start_server()
    session = server.create("t")
    shell = open_shell(server, session)
    shell.say("v=kept; cd /tmp")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(shell.run_and_forget, "touch /workspace/begun; "
                                          "until [ -e go ]; do sleep 0.02; done; exit 3")
        wait_until(lambda: server.stdout(session, "ls begun 2>/dev/null; true"), "it has begun")
        server.kill9()
    server.start()
    server.stdout(session, "touch /tmp/go")
    wait_until(lambda: shell.show()["generation"] == 2, "it was opened again")
    assert shell.show()["last_end"] == {"exit_code": 3, "cause": "exited", "signal": None}
    assert shell.say("echo $v; pwd") == "kept\n/tmp\n"


@pytest.mark.parametrize("times", [3])
def test_restarts_in_a_row_lose_no_line(start_server, times):
    server = start_server()
    session = server.create("t")
    shell = open_shell(server, session)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(shell.run_and_forget, "for ((i = 0; i < 3000; i++)); do echo line $i; "
                                          "((i % 100)) || sleep 0.05; done; exit 9")
        number = shell.wait_running()
        for _ in range(times):
            wait_until(lambda: server.process_of(session, number)["stdout_bytes"] > 0, "it talks")
            server.kill9()
            server.start()
    assert server.wait_exited(session, number, 30)["exit_code"] == 9
    assert server.output(session, number) == b"".join(b"line %d\n" % i for i in range(3000))
    assert shell.show()["generation"] == 2


def test_a_shell_that_runs_out_of_memory_is_said_and_opened_again(start_server):
    server = start_server(MEMORY_LIMIT="64m")
    session = server.create("t")
    shell = open_shell(server, session)
    shell.say("v=kept")
    answer = shell.run("x=$(head -c 30000000 /dev/zero | tr '\\0' x); y=$x$x$x$x; echo never")
    assert answer["cause"] == "oom" and "memory" in answer["limits_hit"], answer
    assert answer["shell"]["respawned"] and answer["shell"]["exited"]
    assert shell.say("echo $v") == "kept\n"
    child = shell.run("python3 -c 'print(len(bytes([1]) * (100 << 20)))'; echo $?")
    assert "137" in child["stdout"] and not child["shell"]["respawned"]
    assert "memory" in child["limits_hit"]


def test_with_its_sandbox_a_shell_is_gone_and_the_session_can_open_another(start_server):
    server = start_server()
    session = server.create("t")
    shell = open_shell(server, session)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell.try_run, "echo begun; sleep 300")
        number = shell.wait_running()
        wait_until(lambda: server.output(session, number), "it prints")
        os.kill(server.guest_pid(session), 9)
        answer = future.result()
        assert answer.status == 200 and answer.json["cause"] == "lost", answer
    wait_until(lambda: server.get(shell.path).status == 404, "the shell is gone")
    assert server.stdout(session, "echo back") == "back\n"
    assert Shell(server, session, shell.number).try_run("true").status == 404
    assert open_shell(server, session).say("echo new") == "new\n"


def test_a_full_dev_shm_is_an_error_that_says_so_and_passes(start_server):
    server = start_server()
    session = server.create("t")
    shell = open_shell(server, session)
    shell.say("v=kept")
    server.execute(session, "dd if=/dev/zero of=/dev/shm/big bs=1M 2>/dev/null; true")
    reply = shell.try_run("echo x # " + "y" * 8000)
    assert reply.status == 429 and "/dev/shm" in reply.json["error"], reply
    assert try_open(server, session).status == 429
    server.stdout(session, "rm /dev/shm/big")
    assert shell.say("echo $v") == "kept\n"


# ---- without root, and so without cgroups ----

def sleeping(server, session):
    return server.execute(session, "pgrep -xc sleep")["stdout"].strip()


def test_without_root_a_shell_lives_on_too(rootless):
    session = rootless.create()
    shell = open_shell(rootless, session)
    shell.say("v=kept; cd /tmp; sleep 301 & :")
    timed_out = shell.run("w=new; sleep 302 & (setsid sleep 303 &); sleep 304; touch after",
                          timeout=0.5)
    assert (timed_out["cause"], timed_out["shell"]["respawned"]) == ("timeout", False)
    assert shell.say("echo $v $w; pwd; ls after 2>/dev/null | wc -l") == "kept new\n/tmp\n0\n"
    wait_until(lambda: sleeping(rootless, session) == "1", "the older one is left alone")
    stuck = shell.run("trap '' RTMAX INT; while :; do :; done", timeout=0.3)
    assert stuck["shell"]["respawned"] and stuck["cause"] == "timeout"
    assert shell.say("echo $v $w") == "kept new\n"
    left = shell.run("sleep 305 & exit 4")
    assert (left["exit_code"], left["shell"]["exited"]) == (4, True)
    assert shell.say("echo $v; pwd") == "kept\n/tmp\n"
    assert shell.delete().status == 200
    wait_until(lambda: sleeping(rootless, session) == "0", "all that it started is gone")
    assert rootless.stdout(session, "ls -A /dev/shm") == ""
