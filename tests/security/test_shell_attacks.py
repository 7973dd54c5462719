# SPDX-License-Identifier: Apache-2.0
"""Shells against who floods, stops or hammers them: each run ends, with the status that it has."""
import concurrent.futures
import os
import signal
import threading

import pytest

from live import people
from server import wait_until
from shells import open_shell, try_open

# The socket on which bash tells how a run ended; in a run it is the copy of its stderr.
WORDS = ("for fd in /proc/$$/fd/*; do fd=${fd##*/}; "
         "[ $fd -gt 9 -a $fd -lt 200 ] && [ -S /proc/$$/fd/$fd ] && words=$fd; done; ")


@pytest.fixture
def shell(server, session):
    return open_shell(server, session)


def begun(server, session, shell, command):
    """The number of the run, once it has printed something."""
    number = shell.wait_running(command)
    wait_until(lambda: server.process_of(session, number)["stdout_bytes"], "it has begun")
    return number


def test_who_floods_the_words_of_a_shell_holds_up_nothing(server, session, shell):
    """PID 1 reads them: it must go on with deadlines and with everybody else."""
    flood = WORDS + "for i in {1..20}; do yes >&$words & done; echo; "
    answer = shell.run(flood + "while :; do printf '%05000d' 0 >&$words; done", timeout=1)
    assert (answer["cause"], answer["stdout"]) == ("timeout", "\n"), answer
    assert shell.run(flood + "(exit 7)")["exit_code"] == 7
    assert server.stdout(session, "echo fine") == "fine\n"
    assert shell.run("echo fine; (exit 8)")["exit_code"] == 8
    assert shell.delete().status == 200
    wait_until(lambda: people(server, session) == [], "the flood is over")


def test_a_shell_that_stopped_itself_is_interrupted(server, session, shell):
    command = "v=kept; echo; kill -STOP $$; touch after"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell.run, command, timeout=30)
        begun(server, session, shell, command)
        # Before it has stopped an interrupt ends it just as well.
        assert shell.interrupt().status == 200
        answer = future.result()
    assert (answer["exit_code"], answer["cause"]) == (130, "exited"), answer
    assert shell.say("echo $v; ls after 2>/dev/null | wc -l") == "kept\n0\n"


def test_an_interrupt_ends_a_pipeline_with_130_whoever_dies_first(server, session, shell):
    """Its last program has its status, and would end well if the first one were ended before."""
    command = "echo; sleep 300 | cat"
    for _ in range(30):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(shell.run, command)
            begun(server, session, shell, command)
            assert shell.interrupt().status == 200
            answer = future.result()
        assert (answer["exit_code"], answer["cause"]) == (130, "exited"), answer


@pytest.mark.parametrize("command", ["echo; sleep 300 | cat", "echo; sleep 300",
                                     "echo; while :; do /bin/true; done"])
def test_hammering_interrupts_end_a_run_once_with_130(server, session, shell, command):
    shell.say("v=kept")
    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            future = pool.submit(shell.run, command)
            begun(server, session, shell, command)

            def hammer(run=future):
                while not run.done():
                    assert shell.interrupt().status in (200, 409)
            hammers = [pool.submit(hammer) for _ in range(3)]
            answer = future.result()
            for one in hammers:
                one.result()
        assert (answer["exit_code"], answer["cause"]) == (130, "exited"), answer
        assert shell.say("echo $v") == "kept\n", "none of them hit the next one"


def test_interrupts_that_nobody_takes_do_not_end_the_sandbox(server, session, shell):
    """PID 1 may have no CPU for a while: what piles up meanwhile is one interrupt."""
    shell.say("v=kept")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell.run, "echo; sleep 300")
        begun(server, session, shell, "echo; sleep 300")
        guest = server.guest_pid(session)
        os.kill(guest, signal.SIGSTOP)
        try:
            assert {shell.interrupt().status for _ in range(2000)} == {200}
        finally:
            os.kill(guest, signal.SIGCONT)
        answer = future.result()
    assert (answer["exit_code"], answer["cause"]) == (130, "exited"), answer
    assert shell.say("echo $v") == "kept\n"


def test_clients_that_run_interrupt_and_close_at_once_leave_nothing(server, session):
    over = threading.Event()
    seen = []

    def runs(shell, n):
        while not over.is_set():
            reply = shell.try_run(f"echo {n}; sleep 0.0{n}; (exit {n})", timeout=5)
            seen.append(reply.status)
            if reply.status == 200 and reply.json["cause"] == "exited":
                begun = reply.json["stdout"]
                assert begun in (f"{n}\n", ""), reply
                # Of a line that an interrupt has cut bash may say that it is none: 2.
                assert reply.json["exit_code"] in ((n, 130) if begun else (n, 130, 2)), reply
            if reply.status != 200:
                return

    def interrupts(shell):
        while not over.is_set():
            if shell.interrupt().status == 404:
                return

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(6):
            shell = open_shell(server, session)
            over.clear()
            work = [pool.submit(runs, shell, n) for n in range(1, 4)]
            work += [pool.submit(interrupts, shell)]
            before = len(seen)
            wait_until(lambda start=before: len(seen) > start + 5, "some runs have ended")
            assert {one.result().status for one in [pool.submit(shell.delete) for _ in range(2)]} \
                <= {200, 404}
            over.set()
            for one in work:
                one.result()
            assert shell.try_run("echo").status == 404
    assert set(seen) <= {200, 404, 409}, set(seen)
    wait_until(lambda: people(server, session) == [], "all of them are gone")
    assert server.stdout(session, "ls -A /dev/shm") == ""
    assert try_open(server, session).status == 201


def test_a_directory_with_an_endless_name_costs_only_its_shell(server, session, shell):
    """$PWD is the tenant's to set, and part of what a shell tells."""
    shell.say("v=kept")
    assert shell.run("PWD=/$(printf %010000d 0); echo x")["stdout"] == "x\n"
    assert len(shell.show()["cwd"]) == 10001
    answer = shell.run("PWD=/$(printf %0100000d 0); echo x")
    assert answer["shell"]["respawned"] and answer["cause"] == "killed", answer
    assert shell.say("echo $v") == "kept\n"


def test_a_snapshot_that_was_tampered_with_runs_behind_the_same_wall(server):
    """Who writes into the file that the next shell reads is past the reader of commands, as with
    python3 -c, and not past the kernel."""
    session = server.create(policy="strict")
    shell = open_shell(server, session)
    shell.say("v=kept")
    place = shell.say("echo /dev/shm/.shell-*").strip()
    evil = ("echo begun > got; /usr/bin/perl -v >> got; "
            "echo 'echo ran' > s; /bin/chmod +x s; ./s >> got")
    answer = shell.run("for n in 0 1; do echo \"" + evil + f"\" > {place}/$n; done; exit 3")
    assert answer["shell"]["respawned"], answer
    shell.run(":")
    assert server.stdout(session, "cat got") == "begun\n"
    server.cleanup(session)
