# SPDX-License-Identifier: Apache-2.0
"""Shells that are started ahead of their command, in containers: nobody can tell, and whatever
happens to one, the command runs, once."""
import os
import re
import signal

import pytest

import engine as lib
from prestart import COMMANDS, TITLE, end_of, inside, last_pid, same_for_all, warm
from server import alive, argv_of, read_text, wait_until


def waiting(server, session):
    return next((pid for pid in server.box_pids(session) if argv_of(pid) == TITLE), None)


def wait_for_shell(server, session):
    return wait_until(lambda: waiting(server, session), "a shell waits")


def run(binary, engine, seconds):
    server = lib.DockerServer(engine, POOL_SIZE=0, PRESTART_SECONDS=seconds)
    try:
        yield server.start()
        server.close()
    finally:
        server.remove()


@pytest.fixture(scope="module")
def ahead(binary, engine):
    yield from run(binary, engine, 60)


@pytest.fixture(scope="module")
def plain(binary, engine):
    yield from run(binary, engine, 0)


@pytest.fixture(scope="module")
def pair(ahead, plain):
    return warm(ahead), warm(plain)


def told(answer, name):
    text = same_for_all(str(end_of(answer)))
    # Which process is the parent differs by nature: here it is not PID 1.
    by_parent = name in ("special", "identity", "last is executed")
    text = re.sub(r"(line 1: +)\d+ ", r"\1N ", text)  # which number a child got is chance
    return re.sub(r"\d+", "N", text) if by_parent else text


def test_a_command_can_not_tell(ahead, plain, pair):
    for name, command in COMMANDS.items():
        shell = inside(wait_for_shell(ahead, pair[0]))
        answer = ahead.execute(pair[0], command)
        assert (last_pid(ahead, pair[0]) == shell) == (name != "too long"), name
        assert told(answer, name) == told(plain.execute(pair[1], command), name), name


def test_stdin_is_the_command_s_own(ahead, pair):
    for text in ("first\nsecond\n", "z" * 200_000):
        shell = inside(wait_for_shell(ahead, pair[0]))
        assert ahead.stdout(pair[0], "cat", stdin=text) == text
        assert last_pid(ahead, pair[0]) == shell


def test_a_time_out_ends_all_that_it_started(ahead, pair):
    wait_for_shell(ahead, pair[0])
    answer = ahead.execute(pair[0], "sleep 61 & setsid sleep 61 & sleep 61", timeout=1)
    assert (answer["exit_code"], answer["cause"]) == (124, "timeout")
    wait_until(lambda: not any(argv_of(pid)[:1] == ["sleep"] for pid in ahead.box_pids(pair[0])),
               "all of it is gone")


def test_one_that_was_killed_or_stopped_is_not_missed(ahead):
    session = warm(ahead)
    numbers = (signal.SIGKILL, signal.SIGTERM) + 3 * (signal.SIGSTOP,)
    for number in numbers:
        pid = wait_for_shell(ahead, session)
        os.kill(pid, number)
        assert ahead.stdout(session, "echo x >> ran; echo here") == "here\n"
        wait_until(lambda pid=pid: not alive(pid), "that one is gone")
    assert ahead.stdout(session, "cat ran") == "x\n" * len(numbers)
    ahead.cleanup(session)


def test_one_whose_minder_was_killed_is_not_missed(ahead):
    session = warm(ahead)
    shell = wait_for_shell(ahead, session)
    minder = int(read_text(f"/proc/{shell}/stat").rsplit(")", 1)[1].split()[1])
    assert inside(minder) != 1
    os.kill(minder, signal.SIGKILL)
    wait_until(lambda: not alive(shell), "it has gone, too")
    assert ahead.stdout(session, "echo here") == "here\n"
    ahead.cleanup(session)


# As of an image with a bash of another kind: this one does not read what it should load.
def test_a_bash_that_can_not_wait_is_tried_twice(ahead):
    session = ahead.create()
    # No shell is started ahead after a command with such a variable: one that waits would be kept.
    ahead.execute(session, "mkdir bin; printf '%s\\n' '#!/usr/bin/bash -p' 'echo >> /workspace/ran'"
                           " 'exec /usr/bin/bash -p \"$@\"' > bin/bash; chmod +x bin/bash",
                  env={"MALLOC_ARENA_MAX": "1"})
    env = {"PATH": "/workspace/bin:/usr/bin:/bin"}

    def starts():
        return len(ahead.download(session, "ran").body)

    for commands in range(1, 6):
        assert ahead.stdout(session, "echo here", env=env) == "here\n"
        wait_until(lambda n=commands: starts() == n + min(n, 2),
                   lambda n=commands: f"it was tried, if it has to be: {starts()} of {n}")
    ahead.cleanup(session)


def test_it_outlives_the_server_and_goes_when_nothing_comes(start_server):
    server = start_server(PRESTART_SECONDS=5)
    session = warm(server)
    shell = inside(wait_for_shell(server, session))
    server.restart()
    assert server.stdout(session, "echo here") == "here\n"
    assert last_pid(server, session) == shell
    pid = wait_for_shell(server, session)
    wait_until(lambda: not alive(pid), "it has waited for long enough")
    wait_until(lambda: len(server.box_pids(session)) == 2, "PID 1 and its carrier are alone")
