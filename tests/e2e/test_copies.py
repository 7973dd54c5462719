# SPDX-License-Identifier: Apache-2.0
"""One shell is started ahead, and every command gets a copy of it: what they share, what they must
not, and what happens to commands when something happens to the original."""
import concurrent.futures
import os
import resource
import signal

import pytest

from prestart import (inside, last_pid, original, serving, wait_for_original, wait_for_shell,
                      waiting, warm)
from server import alive, wait_until


@pytest.fixture(scope="module")
def server(binary):
    with serving(PRESTART_SECONDS=60, PIDS_LIMIT=64) as one:
        yield one


@pytest.fixture
def session(server):
    made = warm(server)
    wait_for_original(server, made)
    wait_for_shell(server, made)
    yield made
    server.cleanup(made)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_many_commands_need_one_start(server, session):
    pid = wait_for_original(server, session)
    for number in range(20):
        shell = inside(wait_for_shell(server, session))
        assert server.stdout(session, f"echo {number}") == f"{number}\n"
        assert last_pid(server, session) == shell
    assert original(server, session) == pid


def test_copies_have_their_own_numbers(server, session):
    told = []
    for _ in range(6):
        wait_for_shell(server, session)
        told.append(server.stdout(session, "echo $$ $BASHPID $PPID $RANDOM$RANDOM $SRANDOM; "
                                           "(echo $$); cut -d' ' -f1,4,5,6 /proc/$$/stat"))
    for text in told:
        (own, bashpid, parent, *_), (of_subshell,), numbers = (
            line.split() for line in text.splitlines())
        assert own == bashpid == of_subshell and parent == "1"
        assert numbers == [own, "1", own, own]  # leads its group and its session
    for column in (0, 3, 4):
        assert len({text.split()[column] for text in told}) == len(told), told


def test_what_one_sets_the_next_has_not(server, session):
    wait_for_shell(server, session)
    server.execute(session, "x=1; f() { :; }; alias a=b; trap : USR1; umask 077; set -f; cd /; "
                            "ulimit -n 9; hash cat; exec 7>/dev/null; shopt -s extglob; true")
    wait_for_shell(server, session)
    assert server.stdout(session, "echo [$x] $(type -t f a) [$(trap -p)] $(umask) $PWD $-; "
                                  "ulimit -n; ls /proc/$$/fd; shopt extglob; true"
                         ).split() == ["[]", "[]", "0022", "/workspace", "hBc", "1024", "0", "1",
                                       "2", "extglob", "off"]


def test_several_at_once_are_copies_too(server, session):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        texts = list(pool.map(lambda n: server.stdout(session, f"echo {n} $$; sleep 0.2"),
                              range(6)))
    assert [text.split()[0] for text in texts] == [str(n) for n in range(6)]
    assert len({text.split()[1] for text in texts}) == 6


def test_the_original_can_neither_be_read_nor_written_to(server, session):
    pid = inside(wait_for_original(server, session))
    shell = inside(wait_for_shell(server, session))
    script = f"""
for who in {pid} {shell}; do
  for what in mem environ maps fd/5 cwd/x map_files exe auxv; do
    cat /proc/$who/$what > /dev/null 2>&1 && echo read $who $what
  done
  (echo x > /proc/$who/mem) 2>/dev/null && echo wrote $who
  (echo 500 > /proc/$who/oom_score_adj) 2>/dev/null && echo changed $who
done
kill -0 {pid} && echo there"""
    # Not by the copy that is looked at itself.
    assert server.stdout(session, "true\n" + script.replace(f" {shell};", f" {pid};")) == "there\n"
    made = server.post(f"/api/sessions/{session}/processes", {"command": "sleep 100"})
    server.execute(session, "true")
    shell = inside(wait_for_shell(server, session))
    answer = server.stdout(session, script, env={"OTHER": "1"})
    assert answer == "there\n"
    server.request("DELETE", f"/api/sessions/{session}/processes/{made.json['process_id']}")


def test_copies_can_not_do_what_the_original_can(server, session):
    """clone3 is how it gets into another cgroup; its flags no filter sees."""
    program = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for number in (435, 101):
    print(libc.syscall(number, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
"""
    wait_for_shell(server, session)
    assert server.python(session, program) == "-1 ENOSYS\n-1 EPERM\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGHUP])
def test_an_original_that_was_hit_is_replaced(server, session, number):
    for turn in range(4):  # more often than one that can't be copied would be tried
        pid = wait_for_original(server, session)
        copy = wait_for_shell(server, session)
        os.kill(pid, number)
        assert server.stdout(session, f"echo {turn} >> ran; echo here") == "here\n"
        wait_until(lambda: not alive(copy), "the copy of before has run")
        assert server.stdout(session, "echo again") == "again\n"
        wait_until(lambda: original(server, session) not in (None, pid), "another one is there")
    assert server.stdout(session, "cat ran") == "0\n1\n2\n3\n"


def test_one_that_others_changed_is_not_copied(server, session):
    limits = server.stdout(session, "ulimit -n; nice")
    for change in (lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (77, 77)),
                   lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 5)):
        pid = wait_for_original(server, session)
        change(pid)
        server.execute(session, "true")  # takes the copy of before
        wait_for_shell(server, session)
        assert server.stdout(session, "ulimit -n; nice") == limits
        wait_until(lambda: original(server, session) not in (None, pid), "another one is there")


def test_it_is_not_started_beside_what_runs(server):
    """What runs could write to it while it starts."""
    session = warm(server)
    pid = wait_for_original(server, session)
    server.execute(session, "sleep 100 > /dev/null 2>&1 &")
    os.kill(pid, signal.SIGKILL)
    for _ in range(3):
        server.execute(session, "true")
        wait_for_shell(server, session)
        assert original(server, session) is None
    assert server.stdout(session, "pkill sleep; echo here") == "here\n"
    wait_for_shell(server, session)
    server.execute(session, "true")  # takes the last that was not copied
    wait_for_original(server, session)
    server.cleanup(session)


def test_nothing_is_left_of_many(server, session):
    guest = server.guest_pid(session)
    pid = wait_for_original(server, session)

    def run(times):
        for number in range(times):
            server.execute(session, "true" if number % 3 else "cat /dev/null; echo x | cat")
        wait_for_shell(server, session)
        return descriptors(guest)
    before, of_original = run(60), descriptors(pid)
    assert run(300) <= before + 4  # two cgroups more: they are used again
    assert (descriptors(pid), original(server, session)) == (of_original, pid)
    assert len(server.sandbox_pids(session, True)) == 3


def test_one_that_stops_itself_goes_on_when_it_is_told_to(server, session):
    wait_for_shell(server, session)
    made = server.post(f"/api/sessions/{session}/processes",
                       {"command": "echo a; kill -STOP $$; echo b"}).json
    place = f"/api/sessions/{session}/processes/{made['process_id']}"
    pid = wait_until(lambda: next((p for p in server.sandbox_pids(session)
                                   if inside(p) == made["pid"]), None), "it runs")
    wait_until(lambda: f"State:\tT" in open(f"/proc/{pid}/status").read(), "it has stopped")
    assert server.post(f"{place}/signal", {"signal": "SIGCONT"}).status == 200
    server.wait_exited(session, made["process_id"])
    assert server.request("GET", place).json["exit_code"] == 0


def test_its_own_time_is_told_not_the_original_s(server, session):
    wait_for_shell(server, session)
    made = server.post(f"/api/sessions/{session}/processes",
                       {"command": "for ((i = 0; i < 200000; i++)); do :; done"}).json
    server.wait_exited(session, made["process_id"])
    told = server.request("GET", f"/api/sessions/{session}/processes/{made['process_id']}").json
    assert told["cpu_time_ms"] > 20 and told["peak_memory_bytes"] > 1 << 20, told


def test_a_waiting_copy_is_one_process_more(server, session):
    """Beside PID 1 and the original; while a command runs there is none."""
    assert waiting(server, session)
    assert len(server.sandbox_pids(session, True)) == 3
    assert server.stdout(session, "set -- /proc/[0-9]*; echo $#") == "3\n"  # the third is itself
