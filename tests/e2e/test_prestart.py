# SPDX-License-Identifier: Apache-2.0
"""A shell that was started ahead runs a command as a new one would; and whatever happens to it, the
command runs, once. `plain` is a server that starts every command anew."""
import os
import resource
import signal
import threading

import pytest

from keeper import Box, Keeper
from prestart import (COMMANDS, TITLE, end_of, inside, last_pid, same_for_all, serving,
                      wait_for_shell, waiting, warm)
from server import alive, argv_of, read_text, wait_until


@pytest.fixture(scope="module")
def ahead(binary):
    with serving(PRESTART_SECONDS=60) as server:
        yield server


@pytest.fixture(scope="module")
def plain(binary):
    with serving(PRESTART_SECONDS=0) as server:
        yield server


@pytest.fixture(scope="module")
def pair(ahead, plain):
    return warm(ahead), warm(plain)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_can_not_tell(ahead, plain, pair, name):
    command = COMMANDS[name]
    shell = inside(wait_for_shell(ahead, pair[0]))
    answer = ahead.execute(pair[0], command)
    taken = last_pid(ahead, pair[0]) == shell
    assert taken == (name != "too long")
    assert same_for_all(str(end_of(answer))) == same_for_all(
        str(end_of(plain.execute(pair[1], command))))


def test_stdin_is_the_command_s_own(ahead, plain, pair):
    for fields in ({"stdin": "first\nsecond\n"}, {"stdin": "z" * 200_000}, {}):
        shell = inside(wait_for_shell(ahead, pair[0]))
        command = "read x; echo \"$x\" | tail -c 10; wc -c; readlink /proc/$$/fd/0 | tr -d 0-9"
        answers = [end_of(server.execute(session, command, **fields))
                   for server, session in ((ahead, pair[0]), (plain, pair[1]))]
        assert last_pid(ahead, pair[0]) == shell
        assert same_for_all(str(answers[0])) == same_for_all(str(answers[1]))


def test_its_time_begins_with_the_command(ahead):
    session = warm(ahead)
    wait_for_shell(ahead, session)
    answer = ahead.execute(session, "sleep 60", timeout=1)
    assert (answer["exit_code"], answer["cause"]) == (124, "timeout")
    ahead.execute(session, "sleep 1.2")  # then one that waits for longer than a second
    pid = wait_for_shell(ahead, session)
    ahead.execute(ahead.create(), "sleep 1.2")
    assert ahead.stdout(session, "echo $SECONDS") == "0\n"
    wait_until(lambda: not alive(pid), "it was that one")
    ahead.cleanup(session)


def test_too_much_memory_is_told_as_such(ahead):
    session = warm(ahead)
    wait_for_shell(ahead, session)
    answer = ahead.execute(session, "exec python3 -c 'x = bytearray(400 << 20)'")
    assert (answer["exit_code"], answer["cause"]) == (137, "oom")
    ahead.cleanup(session)


def test_another_directory_or_environment_is_the_command_s_own(ahead):
    session = warm(ahead)
    for fields, told in (({"cwd": "/tmp"}, "/tmp \n"), ({"env": {"A": "1"}}, "/workspace 1\n")):
        for _ in range(4):
            wait_for_shell(ahead, session)
            assert ahead.stdout(session, 'echo "$PWD $A"', **fields) == told
        shell = inside(wait_for_shell(ahead, session))
        ahead.execute(session, "true", **fields)
        assert last_pid(ahead, session) == shell  # by then one waits for such commands
        wait_for_shell(ahead, session)
    assert ahead.stdout(session, 'echo "$PWD $A"') == "/workspace \n"
    ahead.cleanup(session)


def test_a_directory_that_was_replaced_is_the_new_one(ahead):
    session = ahead.create()
    ahead.execute(session, "mkdir d; echo old > d/f")
    ahead.execute(session, "(sleep 0.5; cd ..; mv d e; mkdir d; echo new > d/g) >/dev/null 2>&1 &",
                  cwd="/workspace/d")
    pid = wait_for_shell(ahead, session)
    wait_until(lambda: read_text(f"/proc/{pid}/root/workspace/d/g"), "it was replaced")
    assert ahead.stdout(session, "pwd; ls", cwd="/workspace/d") == "/workspace/d\ng\n"
    ahead.execute(session, "(sleep 0.5; rm -r /workspace/d) >/dev/null 2>&1 &", cwd="/workspace/d")
    pid = wait_for_shell(ahead, session)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}/root/workspace/d"), "it was removed")
    assert ahead.try_execute(session, "pwd", cwd="/workspace/d").status == 400
    ahead.cleanup(session)


def test_a_bash_that_was_put_into_PATH_meanwhile_is_the_one(ahead):
    session = ahead.create()
    env = {"PATH": "/workspace/bin:/usr/bin:/bin"}
    ahead.execute(session, "(sleep 0.5; mkdir bin; printf '#!/bin/sh\\necho mine' > bin/t; "
                           "chmod +x bin/t; mv bin/t bin/bash) >/dev/null 2>&1 &", env=env)
    pid = wait_for_shell(ahead, session)
    wait_until(lambda: os.path.exists(f"/proc/{pid}/root/workspace/bin/bash"), "it is there")
    assert ahead.stdout(session, "echo theirs", env=env) == "mine\n"
    ahead.cleanup(session)


def test_one_that_was_killed_is_not_missed(ahead):
    session = warm(ahead)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
        pid = wait_for_shell(ahead, session)
        os.kill(pid, number)
        assert ahead.stdout(session, "echo here") == "here\n"
    ahead.cleanup(session)


def test_a_command_that_goes_on_is_told_of_at_once(ahead):
    session = warm(ahead)
    for _ in range(5):
        wait_for_shell(ahead, session)
        made = ahead.post(f"/api/sessions/{session}/processes",
                          {"command": "cat", "stdin_open": True})
        assert made.status == 201, made
        place = f"/api/sessions/{session}/processes/{made.json['process_id']}"
        assert ahead.request("DELETE", place).status == 200
        assert ahead.stdout(session, "echo here") == "here\n"
    ahead.cleanup(session)


def test_one_that_is_stopped_is_not_waited_for(ahead):
    session = warm(ahead)
    for _ in range(4):  # none of them says that bash can't be started ahead
        pid = wait_for_shell(ahead, session)
        os.kill(pid, signal.SIGSTOP)
        assert ahead.stdout(session, "echo x >> ran; echo here") == "here\n"
        wait_until(lambda: not alive(pid), "the stopped one is gone")
    assert ahead.stdout(session, "cat ran") == "x\n" * 4
    ahead.cleanup(session)


def test_whatever_stops_it_a_command_runs_once(ahead):
    session = warm(ahead)
    over = threading.Event()

    def torment():
        while not over.is_set():
            for pid in ahead.sandbox_pids(session, True):
                if argv_of(pid)[:1] != ["threadbox-guest"]:
                    for number in (signal.SIGSTOP, signal.SIGCONT):
                        try:
                            os.kill(pid, number)
                        except ProcessLookupError:
                            break

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        for i in range(40):
            ahead.execute(session, f"echo {i} >> ran", timeout=20)
    finally:
        over.set()
        thread.join()
    assert ahead.stdout(session, "cat ran") == "".join(f"{i}\n" for i in range(40))
    ahead.cleanup(session)


def test_one_that_others_changed_is_not_used(ahead):
    session = warm(ahead)
    limit = ahead.stdout(session, "ulimit -n; nice; cat /proc/self/oom_score_adj")
    changes = [lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (77, 77)),
               lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 5),
               lambda pid: os.sched_setaffinity(pid, {0}),
               lambda pid: open(f"/proc/{pid}/oom_score_adj", "w").write("500")]
    for change in changes:
        pid = wait_for_shell(ahead, session)
        change(pid)
        shell = inside(pid)
        assert ahead.stdout(session, "ulimit -n; nice; cat /proc/self/oom_score_adj") == limit
        assert last_pid(ahead, session) != shell
    ahead.cleanup(session)


def test_ending_another_command_does_not_end_it(ahead):
    session = ahead.create()
    started = ahead.post(f"/api/sessions/{session}/processes", {"command": "sleep 100 & sleep 100"})
    number = started.json["process_id"]
    ahead.execute(session, "true")
    pid = wait_for_shell(ahead, session)
    shell = inside(pid)
    ahead.request("DELETE", f"/api/sessions/{session}/processes/{number}")
    ahead.wait_exited(session, number)
    assert waiting(ahead, session) == pid
    ahead.execute(session, "true")
    assert last_pid(ahead, session) == shell
    ahead.cleanup(session)


def test_it_outlives_the_server_and_serves_the_next(start_server):
    server = start_server()
    session = warm(server)
    pid = wait_for_shell(server, session)
    shell = inside(pid)
    server.restart()
    assert server.stdout(session, "echo here") == "here\n"
    assert last_pid(server, session) == shell


def test_it_goes_when_nothing_comes_and_comes_back(start_server):
    server = start_server(PRESTART_SECONDS=1)
    session = warm(server)
    pid = wait_for_shell(server, session)
    wait_until(lambda: not alive(pid), "it has waited for long enough")
    wait_until(lambda: len(server.sandbox_pids(session, True)) == 1, "PID 1 is alone")
    assert server.stdout(session, "echo here") == "here\n"
    wait_for_shell(server, session)


def test_it_takes_no_place_from_a_command(start_server):
    many = """
import os, signal
children = []
try:
    while True:
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
except OSError:
    print(len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
"""
    told = []
    for seconds in (0, 60):
        server = start_server(PIDS_LIMIT=16, PRESTART_SECONDS=seconds)
        session = warm(server)
        if seconds:
            wait_for_shell(server, session)
        told.append(server.python(session, many))
        wait_until(lambda: len(server.sandbox_pids(session)) < 3, "its processes have ended")
        assert server.execute(session, "true")["limits_hit"] == []
    assert told[0] == told[1]


def test_without_root_it_is_the_same(rootless):
    session = rootless.create()
    assert rootless.stdout(session, "echo one") == "one\n"

    def shells():
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if argv_of(pid) == TITLE and os.stat(f"/proc/{pid}").st_uid == 65534]
    wait_until(shells, "a shell waits")
    shell = inside(shells()[0])
    answer = rootless.execute(session, "echo $PPID $0; echo err >&2; exit 3")
    assert (answer["stderr"], answer["exit_code"]) == ("err\n", 3)
    assert last_pid(rootless, session) == shell


def test_in_a_confined_sandbox_it_is_as_confined(ahead):
    keeper = Keeper(ahead.state_dir)
    box = Box(keeper, "confined-ahead", programs=["cat", "cp", "env", "tr", "true"])
    tries = "cp /usr/bin/env x; ./x true; unshare -U true; cat /usr/bin/unshare; tr '\\0' '|'"
    for first_words in ("bash|-c|", "bash -c "):  # one that was started ahead has one word
        code, out, err = box.run(f"{tries} < /proc/$$/cmdline; :", ahead=60000)
        assert out.startswith(first_words)
        assert code == 0 and len(err.splitlines()) == 3, (out, err)
        assert all("denied" in line or "not found" in line for line in err.splitlines()), err
        wait_for_shell(ahead, box.name)
    box.close()
    keeper.close()
