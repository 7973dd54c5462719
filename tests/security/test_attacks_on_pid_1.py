# SPDX-License-Identifier: Apache-2.0
"""What a hostile review tried as a tenant: to stop, starve or reach PID 1 of a sandbox."""
import contextlib
import os
import signal
import socket
import threading
import time

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# ---- A01: a start that is stopped half-way ----

STORM = """
#include <signal.h>
#include <unistd.h>
int main() {
  if (fork()) return 0;
  setsid(); close(0); close(1); close(2);
  for (;;) kill(-1, SIGSTOP);
}
"""


def test_a_stopped_start_does_not_stop_pid_1(box):
    # A01
    session = box.create("t")
    box.build(session, STORM)
    box.run(session, "./a")
    for _ in range(60):
        box.run(session, "echo x", timeout=1, wait=8)  # its timeout must end it, whatever stops it


def test_a_silent_sandbox_does_not_stop_the_server(box):
    # A01
    bad, good = box.create("bad"), box.create("good")
    guest = box.guest_of(bad)
    os.kill(guest, signal.SIGSTOP)
    try:
        def flood():
            try:
                box.run(bad, "true " + "x" * 45000, wait=3)
            except OSError:
                pass
        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert box.run(good, "echo x", wait=5).get("stdout") == "x\n"
    finally:
        os.kill(guest, signal.SIGCONT)


def test_a_silent_sandbox_does_not_keep_the_next_server_from_starting(box):
    # A01
    session = box.create("bad")
    guest = box.guest_of(session)
    os.kill(guest, signal.SIGSTOP)
    try:
        box.process.kill()
        box.process.wait()
        assert box.serve(seconds=10)
        assert box.run(session, "echo back", wait=8).get("stdout") == "back\n"
    finally:
        with contextlib.suppress(ProcessLookupError):  # ended: its files were worth more
            os.kill(guest, signal.SIGCONT)


def test_a_lease_does_not_block_pid_1(box):
    # A01
    session = box.create("t")
    box.run(session, """mkdir bin; cp /bin/bash bin/; python3 -c "
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open('bin/bash', os.O_RDWR), 1024, 1)
if os.fork(): os._exit(0)
os.setsid()
for fd in 0, 1, 2: os.close(fd)
time.sleep(100)" """)
    slow = threading.Thread(target=lambda: box.run(session, "true", timeout=1,
                                                   env={"PATH": "/workspace/bin"}))
    slow.start()
    time.sleep(0.5)
    try:
        assert box.run(session, "echo x", timeout=2, wait=8).get("stdout") == "x\n"
    finally:
        os.kill(box.guest_of(session), signal.SIGKILL)
        slow.join()


# ---- A02: PID 1 writes stdin into a pipe that is smaller than it thinks ----

def test_small_pipes_do_not_block_pid_1(box):
    # A02
    session = box.create("t")
    grow = """import fcntl, os, time
for fd in 1, 2: fcntl.fcntl(fd, 1031, 1 << 20)
if os.fork(): os._exit(0)
time.sleep(600)"""
    box.run(session, "cat > grow.py", stdin=grow)
    for _ in range(40):
        if box.run(session, "python3 grow.py").get("exit_code") != 0:
            break  # the guest's uid has used up its pages for pipes
    answer = box.run(session, "wc -c", stdin="a" * 50000, timeout=2, wait=8)
    assert answer.get("stdout") == "50000\n"


# ---- A10: memory ----

TINY = r"""
#include <sys/syscall.h>
static long call(long n, long a, long b, long c, long d) {
  long r; register long r10 asm("r10") = d;
  asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
               : "rcx", "r11", "memory");
  return r;
}
static char name[] = "x";
void _start(void) {
  long fd = call(SYS_memfd_create, (long)name, 0, 0, 0);
  if (call(SYS_fork, 0, 0, 0, 0)) call(SYS_exit, 0, 0, 0, 0);
  call(SYS_setsid, 0, 0, 0, 0); call(SYS_close, 1, 0, 0, 0); call(SYS_close, 2, 0, 0, 0);
  for (long at = 0;; at += 65536) call(SYS_fallocate, fd, 0, at, 65536);
}
"""


def test_a_sandbox_whose_pid_1_ran_out_of_memory_comes_back_with_its_files(box):
    """A10: a tiny process that fills a memfd makes PID 1 the largest one; see docs/security.md."""
    session = box.create("t")
    box.build(session, TINY, options="-nostdlib -static")
    box.run(session, "echo data > f")
    box.run(session, "exec ./a", timeout=5)
    deadline = time.monotonic() + 20
    while box.run(session, "cat f", timeout=5).get("stdout") != "data\n":
        assert time.monotonic() < deadline, "the session does not come back"
        time.sleep(0.2)


def test_socket_buffers_are_charged(box):
    # A11
    if not os.path.exists("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"):
        pytest.skip("not a v1 memory hierarchy")
    session = box.create("t")
    answer = box.run(session, """python3 -c "
import socket, time
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(4096); keep = []; total = 0
end = time.time() + 6
while total < 600 << 20 and time.time() < end:
    c = socket.socket(); c.setsockopt(1, 7, 4 << 20); c.connect(l.getsockname())
    keep += [c, l.accept()[0]]; c.setblocking(False)
    try:
        while True: total += c.send(b'x' * 65536)
    except BlockingIOError: pass
print(total >> 20)" """, timeout=20)
    assert answer.get("cause") == "oom" or int(answer.get("stdout") or 0) < 300, answer


def test_pid_1_is_out_of_reach(box):
    answer = box.run(box.create("t"), """python3 -c "
import os
for name in os.listdir('/proc/1'):
    for mode in os.O_WRONLY, os.O_RDWR:
        try: os.write(os.open('/proc/1/' + name, mode), b'1'); print('write', name)
        except OSError: pass
names = 'mem maps smaps environ fd fdinfo ns map_files auxv io stack syscall timers pagemap'
for name in names.split():
    path = '/proc/1/' + name
    try:
        os.listdir(path) if os.path.isdir(path) else os.read(os.open(path, 0), 10)
        print('read', name)
    except OSError: pass
for number in 9, 19, 11, 0:
    try: os.kill(1, number); print('kill', number)
    except OSError: pass
try: os.sched_setaffinity(1, [0]); print('affinity')
except OSError: pass" """)
    assert answer["stdout"] == "", answer


def test_nothing_crosses_from_one_sandbox_to_another(box):
    a, b = box.create("a"), box.create("b")
    paths = "'/usr/bin/env', '/etc/passwd', '/dev/null', '/var/empty'"
    box.run(a, f"""python3 -c "
import fcntl, os, socket, time
x = socket.socket(socket.AF_UNIX); x.bind('\\0tb'); x.listen()
l = socket.socket(); l.bind(('127.0.0.1', 5555)); l.listen()
open('/dev/shm/canary', 'w'); open('/tmp/canary', 'w')
for path in ({paths}):
    if os.path.exists(path): fcntl.flock(os.open(path, 0), fcntl.LOCK_EX)
if os.fork(): os._exit(0)
os.setsid()
for fd in 0, 1, 2: os.close(fd)
time.sleep(60)" """)
    answer = box.run(b, f"""python3 -c "
import fcntl, os, socket
for address, family in (('\\0tb', socket.AF_UNIX), (('127.0.0.1', 5555), socket.AF_INET)):
    try: socket.socket(family).connect(address); print('connected', address)
    except OSError: pass
for path in ({paths}):
    if not os.path.exists(path): continue
    try: fcntl.flock(os.open(path, 0), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: print('locked', path)
print(*os.listdir('/tmp'), *os.listdir('/dev/shm'))" """)
    assert answer["stdout"] == "\n", answer
