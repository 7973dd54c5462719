# SPDX-License-Identifier: Apache-2.0
"""Rows L of the catalogue that are about what stays: after a session nothing does."""
import concurrent.futures
import os
import re

import pytest

from prestart import COPIED
from server import read_text, tag_of, wait_until


def resources(server):
    """Everything that could grow with the number of sessions that there were."""
    counts = {}
    for name, pid in (("server", server.process.pid), ("keeper", server.keeper_pid())):
        counts[f"{name} descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
        counts[f"{name} mounts"] = read_text(f"/proc/{pid}/mountinfo").count("\n")
        children = read_text(f"/proc/{pid}/task/{pid}/children").split()
        counts[f"{name} children"] = len(children)
    counts["cgroups"] = sum(len(folders) for top in server.cgroups()
                            for _, folders, _ in os.walk(top))
    counts["loop devices"] = len(server.loops())
    counts["processes"] = len(server.sandbox_pids())
    for place in ("sandboxes", "output", "env"):
        counts[place] = len(os.listdir(f"{server.state_dir}/{place}"))
    return counts


def resident(server):
    """KiB of server and keeper."""
    total = 0
    for pid in (server.process.pid, server.keeper_pid()):
        total += int(re.search(r"VmRSS:\s+(\d+)", read_text(f"/proc/{pid}/status"))[1])
    return total


def cycle(server):
    session = server.create()
    assert server.stdout(session, "echo x > f; (sleep 99 &) ; cat f") == "x\n"
    server.cleanup(session)


def check_cycles(server, count):
    wait_until(lambda: server.health()["pool_available"] == 2, "the pool is full")
    for _ in range(5):
        cycle(server)
    wait_until(lambda: server.health()["pool_available"] == 2, "the pool is full again")
    before, memory = resources(server), resident(server)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: cycle(server), range(count)))
    wait_until(lambda: server.health()["pool_available"] == 2, "the pool is full again")
    # Something may have been open for a moment when it was counted first: fewer is fine.
    wait_until(lambda: all(count <= before[what] for what, count in resources(server).items()),
               lambda: f"nothing is left: {before}, not {resources(server)}")
    return resident(server) - memory


def test_L04_a_hundred_cycles_leave_nothing(start_server):
    assert check_cycles(start_server(POOL_SIZE=2), 100) < 4 << 10


@pytest.mark.long
def test_L04_a_thousand_cycles_leave_nothing(start_server):
    assert check_cycles(start_server(POOL_SIZE=2), 1000) < 8 << 10


def test_L04_a_thousand_commands_in_one_session_leave_nothing(server, session):
    server.stdout(session, "true")
    guest = server.guest_pid(session)

    def state():
        tag = tag_of(server.state_dir)
        groups = [f for top in server.cgroups() for f, _, _ in os.walk(f"{top}/{session}")]
        assert all(tag in group for group in groups)
        return len(os.listdir(f"/proc/{guest}/fd")), len(groups)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        # Cgroups stay, two descriptors each, as many as were at work or dying at once; those of
        # the killed go. So it begins as it ends.
        list(pool.map(lambda _: server.execute(session, "sleep 9", timeout=0.05), range(30)))
        list(pool.map(lambda _: server.execute(session, "echo x"), range(400)))
        before = state()
        list(pool.map(lambda _: server.execute(session, "echo x"), range(400)))
        list(pool.map(lambda _: server.execute(session, "sleep 9", timeout=0.05), range(30)))
        list(pool.map(lambda _: server.execute(session, "echo x"), range(50)))
    wait_until(lambda: all(now <= then + 4 for now, then in zip(state(), before)),
               lambda: f"nothing is left: {before}, then {state()}")


def test_L06_a_next_session_finds_nothing_of_a_hostile_one(start_server):
    server = start_server(POOL_SIZE=1, MAX_POOL_SIZE=2)
    hostile = server.create()
    server.stdout(hostile, """
for d in /workspace /tmp /var/tmp ~ /dev/shm; do echo SECRET > $d/.hidden; done
echo 'echo pwned' > ~/.bashrc; cp ~/.bashrc ~/.profile; cp ~/.bashrc ~/.bash_profile
mkdir -p ~/.local/bin; setsid nohup sleep 999 > /dev/null 2>&1 &
python3 -c "
import ctypes
libc = ctypes.CDLL(None)
libc.shmget(77, 4096, 0o1666); libc.msgget(77, 0o1666); libc.semget(77, 1, 0o1666)
libc.mq_open(b'/q', 66, 0o666, None)"
ulimit -n 10; umask 0; true""")
    wait_until(lambda: server.health()["pool_available"] == 1, "the next one is ready")
    server.cleanup(hostile)
    for _ in range(3):
        session = server.create()
        told = server.stdout(session, """
find /workspace /tmp /var/tmp/ ~ /dev/shm -mindepth 1; cat /proc/sysvipc/*; umask
ulimit -n; env | grep -i secret; history""")
        words = [word for word in told.split() if word not in (
            "key", "shmid", "perms", "size", "cpid", "lpid", "nattch", "uid", "gid", "cuid", "cgid",
            "atime", "dtime", "ctime", "rss", "swap", "msqid", "cbytes", "qnum", "lspid", "lrpid",
            "stime", "rtime", "semid", "nsems", "otime")]
        assert words[0] == "0022" and len(words) == 2 and int(words[1]) > 10, told
        processes = server.stdout(session, "ps ax -o args=; true").splitlines()
        assert [line for line in processes[1:] if line != COPIED[0]] == [
            "bash -c ps ax -o args=; true", "ps ax -o args="], processes
        server.cleanup(session)
