# SPDX-License-Identifier: Apache-2.0
"""What a hostile review tried against the limits: descriptors, output, disk, processes."""
import os
import pathlib
import signal
import socket

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# ---- A07: what the server keeps for a session ----

HOLDER = """
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int count, char** words) {
  struct sockaddr_un at = {AF_UNIX, "/workspace/s"};
  int s = socket(AF_UNIX, SOCK_DGRAM, 0);
  char control[CMSG_SPACE(8)] = {0}, byte = 1;
  struct iovec part = {&byte, 1};
  struct msghdr m = {0};
  m.msg_iov = &part; m.msg_iovlen = 1; m.msg_control = control; m.msg_controllen = sizeof control;
  if (count > 1) {
    bind(s, (void*)&at, sizeof at);
    if (fork()) return 0;
    setsid(); close(0); close(1); close(2);
    for (;;) { m.msg_controllen = sizeof control; recvmsg(s, &m, 0); }
  }
  struct cmsghdr* h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(8);
  int fds[2] = {1, 2};
  memcpy(CMSG_DATA(h), fds, 8);
  write(1, "a", 1); write(2, "b", 1);
  return connect(s, (void*)&at, sizeof at) || sendmsg(s, &m, 0) < 0;
}
"""


def test_held_pipes_do_not_use_up_the_servers_descriptors(box):
    # A07
    session = box.create("t")
    box.build(session, HOLDER)
    box.run(session, "./a keep")
    before = len(os.listdir(f"/proc/{box.process.pid}/fd"))
    for _ in range(400):
        if box.run(session, "exec ./a").get("exit_code") != 0:
            break
    assert len(os.listdir(f"/proc/{box.process.pid}/fd")) - before < 512


def test_output_is_never_lost_without_descriptors(make_box):
    # A07
    for files in (120, 121, 122, 123):  # one of them leaves room for the pipes but not for a file
        box = make_box()
        box.process.kill()
        box.process.wait()
        assert box.serve(files=files)
        bad, good = box.create("bad"), box.create("good")
        box.build(bad, HOLDER)
        box.run(bad, "./a keep")
        try:
            for _ in range(60):
                if box.run(bad, "exec ./a", wait=5).get("exit_code") != 0:
                    break
        except OSError:
            pass  # what the attacker gets does not matter
        for _ in range(3):
            answer = box.run(good, "echo x", wait=5)
            assert answer.get("exit_code") != 0 or answer["stdout"] == "x\n", answer


def test_output_counts_against_a_limit_of_the_session(make_box):
    # A08
    box = make_box(OUTPUT_LIMIT_MB="4", MAX_WORKSPACE_SIZE_MB="16")
    session = box.create("t")
    for _ in range(20):
        box.run(session, "head -c 4M /dev/zero; head -c 4M /dev/zero >&2")
    stored = sum(file.stat().st_size for file in pathlib.Path(box.state, "output").rglob("*.*"))
    assert stored <= 64 << 20, f"{stored >> 20} MiB for a session of 16 MiB"


def test_alternating_output_is_not_amplified(box):
    # A09
    session = box.create("t")
    box.build(session, "int main() { for (;;) { write(1, \"a\", 1); write(2, \"b\", 1); "
                       "usleep(20); } }")

    def written():
        text = pathlib.Path(f"/proc/{box.process.pid}/io").read_text()
        return int(text.split("wchar: ")[1].split()[0])
    before = written()
    answer = box.run(session, "./a", timeout=6)
    printed = answer["stdout_bytes"] + answer["stderr_bytes"]
    assert written() - before < 200 * printed + (16 << 20), f"{printed} bytes were printed"


def test_compression_can_not_be_switched_on(make_box):
    # A15
    box = make_box(MAX_WORKSPACE_SIZE_MB="16")
    session = box.create("t")
    if "Disk quota" not in box.run(session, "for i in 1 2 3; do head -c 10M /dev/zero > $i; done; "
                                            "rm -f 1 2 3")["stderr"]:
        pytest.skip("no quotas here")
    box.run(session, "mkdir z; python3 -c \"import os; "
                     "os.setxattr('z', 'btrfs.compression', b'zstd')\"")
    # More than fits, unless somebody compresses it.
    answer = box.run(session, "for i in 1 2 3 4; do head -c 10M /dev/zero > z/$i; sync z/$i; done")
    assert "Disk quota" in answer["stderr"]


def test_no_way_round_the_disk_quota(make_box):
    box = make_box(MAX_WORKSPACE_SIZE_MB="64")
    session = box.create("t")

    def python(code):
        answer = box.run(session, "cat > /dev/shm/p.py; python3 /dev/shm/p.py", stdin=code,
                         timeout=60)
        return int((answer["stdout"].split() or ["0"])[-1])
    if "Disk quota" not in box.run(session, "head -c 70M /dev/zero > f")["stderr"]:
        pytest.skip("no quotas here")
    box.run(session, "rm f")
    # Files without a name.
    assert python("""
import os
keep = []; n = 0
try:
    for i in range(100):
        keep.append(os.open('/tmp', os.O_TMPFILE | os.O_RDWR))
        n += os.write(keep[-1], b'x' * (1 << 20))
except OSError: pass
print(n >> 20)""") <= 64
    # Extended attributes.
    assert python("""
import os
n = 0
try:
    for i in range(10000):
        f = 'x%d' % i; open(f, 'w').close()
        for j in range(4): os.setxattr(f, 'user.%d' % j, b'v' * 3900); n += 3900
except OSError: pass
os.system('rm -f x*')
print(n >> 20)""") <= 64
    # Extents of which one block is still used.
    assert python("""
import os
n = 0
try:
    for i in range(200):
        fd = os.open('p%d' % i, os.O_CREAT | os.O_RDWR)
        os.write(fd, b'y' * (1 << 20)); os.fsync(fd)
        os.ftruncate(fd, 4096); os.close(fd); n += 1
except OSError: pass
os.system('rm -f p*')
print(n)""") <= 200
    # Full, then room again.
    box.run(session, "cat /dev/zero > f")
    assert box.run(session, "rm f && echo x > g && cat g")["stdout"] == "x\n"


def test_subvolumes_and_clones_are_refused_whatever_the_upper_half(box):
    answer = box.run(box.create("t"), """python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('.', 0); buffer = ctypes.create_string_buffer(4096)
for number in 0x5000940e, 0x50009418, 0x40049409, 0xc0189436, 0x15000940e:
    ctypes.set_errno(0)
    result = libc.syscall(16, fd, ctypes.c_long(number), buffer)
    print(result, ctypes.get_errno())" """)
    assert set(answer["stdout"].splitlines()) == {"-1 25"}, answer


def test_everything_that_a_runaway_started_dies_at_its_timeout(box):
    session = box.create("t")
    box.build(session, """
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
  for (int i = 0; i < 50; i++)
    if (fork() == 0) {
      setsid(); if (fork()) _exit(0);
      setsid(); signal(15, SIG_IGN);
      for (;;) if (fork()) _exit(0);  // a pid of its own every moment
    }
  if (syscall(SYS_clone, CLONE_PARENT | 17, 0, 0, 0, 0) == 0) { setsid(); for (;;) pause(); }
  kill(getpid(), SIGSTOP);
  for (;;) pause();
}
""")
    answer = box.run(session, "exec ./a", timeout=2, wait=15)
    assert answer["cause"] == "timeout"
    answer = box.run(session, "cat /proc/[0-9]*/comm 2>/dev/null")
    assert "a" not in answer["stdout"].split()
