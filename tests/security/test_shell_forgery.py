# SPDX-License-Identifier: Apache-2.0
"""Shells against those who run in them: ends are not forged, and no policy is left behind."""
import concurrent.futures

import pytest

from live import people
from server import wait_until
from shells import open_shell

# Everything that a process could write to or read from in the shell that started it.
FORGER = r"""
import glob, os, sys, time
shell = int(sys.argv[1])
until = time.time() + float(sys.argv[2])
word = sys.argv[3].encode()
got = []
while time.time() < until:
    for path in glob.glob(f"/proc/{shell}/fd/*") + glob.glob("/proc/self/fd/*"):
        for mode in (os.O_WRONLY | os.O_NONBLOCK, os.O_RDONLY | os.O_NONBLOCK):
            try:
                if os.path.basename(path) in "012" and "self" in path:
                    continue
                fd = os.open(path, mode)
            except OSError:
                continue
            try:
                if mode & os.O_WRONLY:
                    os.write(fd, word)
                else:
                    data = os.read(fd, 65536)
                    if b"builtin printf" in data:
                        got.append(data)
            except OSError:
                pass
            os.close(fd)
    for path in glob.glob("/dev/shm/.shell-*") + glob.glob("/dev/shm/.shell-*/*"):
        got.append(path.encode()) if os.path.isfile(path) else None
    time.sleep(0.01)
print(len(got), got[:3])
"""


@pytest.fixture
def shell(server, session):
    server.stdout(session, "cat > forge.py", stdin=FORGER)
    return open_shell(server, session)


def test_a_program_can_t_end_its_run_early_nor_give_it_a_status(shell):
    word = "a" * 32 + " 0 h /tmp\\0snapshot 0\\0"
    answer = shell.run(f"python3 forge.py $$ 1 $'{word}' > forged; echo end; cat forged; (exit 9)")
    # What one process writes to the stdout of another one is printed, of course.
    assert answer["stdout"].endswith("end\n0 []\n"), answer
    assert (answer["exit_code"], answer["shell"]["respawned"]) == (9, False)


def test_nor_that_of_a_later_run(shell):
    shell.run("python3 forge.py $$ 3 $'0 h /tmp\\0' > forged & :")
    for n in range(20):
        answer = shell.run(f"sleep 0.05; echo {n}; (exit {n})")
        assert answer["stdout"].replace("0 h /tmp", "") == f"{n}\n", answer
        assert (answer["exit_code"], answer["shell"]["respawned"]) == (n, False)
    assert shell.run("wait; cat forged")["stdout"].endswith("0 []\n")


def test_a_subshell_that_has_the_shell_s_own_descriptors_is_not_believed(server, session, shell):
    """It is a copy of bash, with all that bash has open, and knows every word that was said."""
    shell.run("(while :; do for fd in {3..30}; do { printf '%s 0 h /tmp\\0' "
              "0123456789abcdef0123456789abcdef >&$fd; } 2>/dev/null; done; sleep 0.01; done) & :")
    for n in range(10):
        answer = shell.run(f"sleep 0.05; echo {n}; (exit {n})")
        assert (answer["stdout"], answer["exit_code"]) == (f"{n}\n", n), answer
    shell.delete()
    wait_until(lambda: people(server, session) == [], "it is gone")


def test_who_takes_the_shell_s_input_away_wedges_nothing(server, session, shell):
    """A subshell that reads what is meant for its parent: the run ends all the same."""
    shell.say("v=kept")
    shell.run("(while :; do for fd in {3..30}; do read -t 0.01 -u $fd line; done; done) "
              "2>/dev/null & :")
    for n in range(3):
        answer = shell.run(f"sleep 0.2; echo {n}", timeout=20)
        assert answer["stdout"] in (f"{n}\n", "") and answer["cause"] in ("exited", "killed")
    shell.delete()
    wait_until(lambda: people(server, session) == [], "it is gone")


def test_the_shell_s_files_can_t_be_changed_by_the_tenant(server, session, shell):
    place = server.stdout(session, "ls -A /dev/shm").strip()
    for command in (f"mv /dev/shm/{place} /dev/shm/x", f"rm -rf /dev/shm/{place}",
                    f"touch /dev/shm/{place}/new", f"ls /dev/shm/{place}",
                    f"echo 'touch hacked' > /dev/shm/{place}/i", f"chmod 777 /dev/shm/{place}"):
        assert server.execute(session, command)["exit_code"] != 0, command
    assert shell.say("echo fine") == "fine\n"


def test_nothing_of_one_session_is_in_another_s_reach(server, session, shell):
    other = server.create()
    assert server.get(f"/api/sessions/{other}/shells/{shell.number}").status == 404
    assert server.stdout(other, "ls -A /dev/shm") == ""
    server.cleanup(other)


# ---- the strict policy ----

@pytest.fixture
def strict(server):
    session = server.create(policy="strict")
    yield session
    server.cleanup(session)


def test_every_run_is_checked_as_a_command_is(server, strict):
    shell = open_shell(server, strict)
    before = len(server.processes(strict))
    for command in ("rm -rf x", "ls; nmap", "eval 'r''m x'", "$(echo rm) x", "bash -c 'rm x'"):
        refused = shell.try_run(command)
        assert refused.status == 400, (command, refused)
        assert refused.json["error"] == server.try_execute(strict, command).json["error"]
    assert len(server.processes(strict)) == before
    assert shell.say("cd /tmp; pwd") == "/tmp\n"
    assert shell.say("pwd; echo fine | cat") == "/tmp\nfine\n"


def test_a_refused_run_does_not_wait_for_its_turn(server, strict):
    shell = open_shell(server, strict)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell.run, "sleep 3")
        shell.wait_running()
        assert shell.try_run("rm x").status == 400
        assert not future.done()
        shell.interrupt()
        future.result()


@pytest.mark.parametrize("env", [{"BASH_ENV": "/workspace/x"}, {"LD_PRELOAD": "/workspace/x.so"},
                                 {"BASH_FUNC_ls%%": "() { nmap; }"}])
def test_variables_that_the_policy_refuses_open_no_shell(server, strict, env):
    reply = server.post(f"/api/sessions/{strict}/shells", {"env": env})
    assert reply.status == 400, reply


def test_the_kernel_confines_what_a_shell_runs(server, strict):
    """Past the reader of commands, by what an earlier run left behind, there is still the wall."""
    shell = open_shell(server, strict)
    server.upload(strict, "tool", b"#!/bin/sh\necho ran\n")
    plain = server.try_execute(strict, "python3 -c 'import os; os.system(\"/usr/bin/perl -v\")'")
    within = shell.try_run("python3 -c 'import os; os.system(\"/usr/bin/perl -v\")'")
    assert plain.status == within.status
    if within.status == 200:
        assert "perl" not in within.json["stdout"]
        assert (plain.json["stdout"], plain.json["exit_code"]) == (
            within.json["stdout"], within.json["exit_code"])
    shell.run("X='a[$(/usr/bin/perl -v > got)]'")
    reply = shell.try_run("echo $((X))")
    got = server.execute(strict, "cat got")
    assert "perl" not in got["stdout"], reply
