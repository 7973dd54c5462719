# SPDX-License-Identifier: Apache-2.0
"""PID 1 follows shells to tell their end before they are gone: whatever signals come, an end is
told, once, and the next command finds nothing that the last one had."""
import signal
import subprocess

import pytest

from prestart import serving, warm
from server import wait_until


AT_OTHERS = """
import os, signal, time
end = time.time() + 2
while time.time() < end:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid in (1, os.getpid()):
            continue
        try:
            os.kill(pid, signal.SIG{name})
            os.kill(pid, signal.SIGCONT)
        except OSError:
            pass
"""


@pytest.fixture(scope="module", params=[60, 0], ids=["copies", "new shells"])
def server(binary, request):
    with serving(PRESTART_SECONDS=request.param, CPU_QUOTA=100000) as one:
        yield one


@pytest.fixture
def session(server):
    made = warm(server)
    yield made
    server.cleanup(made)


@pytest.mark.parametrize("name", ["URG", "WINCH", "CONT", "CHLD", "STOP", "TRAP"])
def test_an_end_is_told_whatever_signals_come(server, session, name):
    """A copy that was hit before it had said who it is had no end."""
    storm = (f"(trap '' {name}; end=$((SECONDS+2)); while ((SECONDS<end)); do kill -{name} -1; "
             "done) >/dev/null 2>&1 &")
    if name in ("STOP", "TRAP"):  # it would hit itself
        storm = f"python3 -c '{AT_OTHERS.format(name=name)}' > /dev/null 2>&1 &"
    server.execute(session, storm)
    for number in range(60):
        told = server.execute(session, f"echo {number}", timeout=10)
        if name == "TRAP" and told["cause"] == "signal":
            assert told["signal"] in (signal.SIGTRAP, "SIGTRAP"), told
        else:
            assert (told["stdout"], told["exit_code"]) == (f"{number}\n", 0), told
    wait_until(lambda: server.execute(session, "echo over")["stdout"] == "over\n", "it is over")


@pytest.mark.parametrize("size", [0, 30_000_000])
def test_the_last_one_is_gone_when_the_next_begins(server, session, size):
    """To take down much memory takes long."""
    script = ("read -r p < pid && kill -0 $p 2>/dev/null && echo still; echo $$ > pid; "
              f"printf -v x '%*s' {size} ''")
    server.execute(session, "echo 999999 > pid")
    for _ in range(40):
        assert server.stdout(session, script) == ""


def test_what_it_had_open_is_closed_when_the_next_begins(server, session):
    server.execute(session, "mkfifo ff")
    probe = ("import os\ntry: os.open('ff', os.O_WRONLY | os.O_NONBLOCK); print('a reader')\n"
             "except OSError: print('none')")
    for _ in range(10):
        server.execute(session, "exec 8<>ff; printf -v x '%*s' 30000000 ''")
        assert server.python(session, probe) == "none\n"


def test_exit_codes_and_signals_are_those_of_wait(server, session):
    for script, code, number in (
            ("exit 0", 0, None), ("exit 255", 255, None), ("exit 256", 0, None),
            ("kill -9 $$", 137, 9), ("kill -SEGV $$", 139, 11),
            ("trap 'exit 5' TERM; kill $$", 5, None), ("exec /nowhere", 127, None),
            ("trap 'echo bye; exit 6' EXIT; exit 1", 6, None), ("exec true", 0, None),
            ("true & wait; exit 9", 9, None), ("set -m; true & fg; exit 4", 4, None)):
        told = server.execute(session, script)
        assert told["exit_code"] == code, (script, told)
        assert bool(told["signal"]) == bool(number), (script, told)


def test_what_is_left_in_the_background_prints_on(server, session):
    made = server.post(f"/api/sessions/{session}/processes",
                       {"command": "(sleep 0.3; echo later) & echo now"}).json
    server.wait_exited(session, made["process_id"])
    wait_until(lambda: server.output(session, made["process_id"]) == b"now\nlater\n", "both came")


def test_it_is_followed_by_nobody_else(server, session):
    """Who executes a program of his own, or has had a child, is left alone."""
    server.execute(session, "cp /usr/bin/grep look")
    assert server.stdout(session, "./look TracerPid /proc/self/status").split()[1] == "0"
    told = server.stdout(session, "/bin/true; while read -r a b; do "
                                  "[ $a = TracerPid: ] && echo $b; done < /proc/$$/status; true")
    assert told == "0\n"


def test_a_kill_that_comes_with_the_start_is_not_lost(server, session):
    for _ in range(20):
        server.execute(session, "printf -v x '%*s' 30000000 ''")
        made = server.post(f"/api/sessions/{session}/processes", {"command": "sleep 100"}).json
        place = f"/api/sessions/{session}/processes/{made['process_id']}"
        assert server.request("DELETE", place).status == 200
        server.wait_exited(session, made["process_id"])


FIRST_THREAD_ENDS = """
import ctypes, os, threading, time
def work():
    time.sleep(0.2)
    os.write(1, b"later\\n")
    os._exit(3)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""
ANOTHER_THREAD_EXECUTES = """
import os, threading, time
threading.Thread(target=os.execv, args=("/bin/sh", ["sh", "-c", "sleep 0.2; echo later; exit 3"])
                 ).start()
time.sleep(100)
"""


@pytest.mark.parametrize("program", [FIRST_THREAD_ENDS, ANOTHER_THREAD_EXECUTES],
                         ids=["ends", "executes"])
def test_a_thread_that_ends_is_no_end(server, session, program):
    server.upload(session, "p.py", program.encode())
    for _ in range(5):
        told = server.execute(session, "exec python3 p.py", timeout=10)
        assert (told["stdout"], told["exit_code"]) == ("later\n", 3), told


def test_programs_of_the_system_are_followed_and_end_as_they_do(server, session):
    server.upload(session, "f", b"x" * 100)
    for command, code, out in [("cat f", 0, "x" * 100), ("cat /none 2>/dev/null", 1, ""),
                               ("exec env env cat f", 0, "x" * 100), ("true", 0, ""),
                               ("exec python3 -c 'import os; os.abort()'", 134, ""),
                               ("exec python3 -c 'import os; os.kill(os.getpid(), 9)'", 137, "")]:
        for _ in range(3):
            told = server.execute(session, command, timeout=10)
            assert (told["stdout"], told["exit_code"]) == (out, code), (command, told)


def test_the_next_program_has_the_memory_of_the_last_one(server, session):
    """Its end is told when it is gone if it had much: two of them at once would be killed."""
    command = "exec python3 -c 'x = bytearray(160 << 20)'"  # of 256 MiB
    for _ in range(5):
        assert server.execute(session, command, timeout=20)["exit_code"] == 0


# Its first thread ends; the other waits until that is being followed, and crashes.
CRASH_AFTER_THE_FIRST = """
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void* work(void* unused) {
  char path[64], text[256];
  sprintf(path, "/proc/self/task/%d/stat", getpid());
  for (;;) {
    const int fd = open(path, O_RDONLY);
    const ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    const char* state = strrchr(text, ')');
    if (!state || !strchr("RSD", state[2])) abort();
  }
}
int main() {
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  pthread_exit(0);
}
"""


def test_the_end_of_several_threads_is_that_of_the_last(server, session, tmp_path):
    """Its code was told of the first one's end, when the others had ended by then."""
    (tmp_path / "p.c").write_text(CRASH_AFTER_THE_FIRST)
    subprocess.run(["cc", "-pthread", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    server.upload(session, "cat", (tmp_path / "p").read_bytes())
    server.execute(session, "chmod +x cat")
    for _ in range(60):
        told = server.execute(session, "exec ./cat", timeout=10)
        assert told["exit_code"] == 134, told


# Little memory of its own, but much to be freed after it.
SLOW_TO_END = """
import fcntl, os
lock = os.open("lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
rest = os.memfd_create("rest")
for _ in range(150):
    os.write(rest, bytes(1 << 20))
"""


def test_the_next_one_finds_no_lock_of_the_last(server, session):
    server.upload(session, "slow.py", SLOW_TO_END.encode())
    for _ in range(10):
        told = server.execute(session, "exec python3 slow.py", timeout=20)
        assert told["exit_code"] == 0, told
