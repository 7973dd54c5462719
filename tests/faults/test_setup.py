# SPDX-License-Identifier: Apache-2.0
"""Set-up fails at its n-th system call, for every n: nothing is left, and no file is lost."""
import fcntl
import os
import socket
import struct

import pytest

from keeper import Keeper
from server import read_text, wait_until

READY, JAIL_FAILED = 64, 65
MOST = 400  # system calls that set-up could possibly make
FIRST_TENANT = 0x70000000 + 17  # of the slot 0 (src/jail/slots.h)


class Faulty:
    """A keeper that fails where it is told to, and a view of all that it holds."""

    def __init__(self, server):
        self.server = server
        self.pid = server.keeper_pid()
        self.keeper = Keeper(server.state_dir)
        self.trees = f"/proc/{self.pid}/root{server.state_dir}/disk/pool"

    def holds(self):
        children = read_text(f"/proc/{self.pid}/task/{self.pid}/children").split()
        return {"descriptors": len(os.listdir(f"/proc/{self.pid}/fd")),
                "mounts": read_text(f"/proc/{self.pid}/mountinfo").count("\n"),
                "children": len(children),
                "cgroups": sorted(name for top in self.server.cgroups()
                                  for _, names, _ in os.walk(top) for name in names),
                "trees": sorted(os.listdir(self.trees)),
                "records": sorted(os.listdir(self.server.state_dir + "/sandboxes")),
                "processes": len(self.server.sandbox_pids())}

    def is_back_at(self, before):
        """Fewer descriptors are fine: at first one of the warm-up may not have been closed yet."""
        now = self.holds()
        before["descriptors"] = min(before["descriptors"], max(now["descriptors"], 10))
        return now == before

    def create(self, name, n, label="", programs=()):
        """True when it came up; else what failed."""
        kind, fields, fds = self.keeper.create(name, fail_at=n, label=label, programs=programs)
        if kind == Keeper.FAILED:
            assert not fds
            return fields[1:].decode(errors="replace")
        assert kind == Keeper.CREATED and len(fds) == 1
        with socket.socket(fileno=fds[0]) as control:
            control.settimeout(10)
            said = control.recv(65536)
        if said[:1] == bytes([READY]):
            return True
        assert said[:1] == bytes([JAIL_FAILED]), said
        return said[9:].decode(errors="replace")

    def destroy(self, name):
        assert self.keeper.destroy(name)[0] == Keeper.DONE


@pytest.fixture
def faulty(start_server):
    server = start_server(THREADBOX_FAULTS=1, POOL_SIZE=0)
    one = Faulty(server)
    for programs in ((), ("ls",)):
        assert one.create("warm-up", 0, programs=programs) is True
        one.destroy("warm-up")
    yield one
    one.keeper.close()


@pytest.mark.parametrize("programs", [(), ("ls",)], ids=["any program", "confined"])
def test_every_system_call_of_a_set_up_may_fail_and_nothing_is_left(faulty, programs):
    before = faulty.holds()
    steps = []
    for n in range(1, MOST):
        outcome = faulty.create(f"fault-{n}", n, programs=programs)
        if outcome is True:
            faulty.destroy(f"fault-{n}")
            break
        steps.append(outcome)
        wait_until(lambda: faulty.is_back_at(before),
                   lambda: f"nothing is left of {n}, {outcome}: {before} but {faulty.holds()}", 5)
    else:
        pytest.fail(f"it never came up: {steps}")
    wait_until(lambda: faulty.is_back_at(before), "nothing is left after success", 5)
    text = "\n".join(steps)
    assert len(steps) > 40, text
    for part in ("subvolume", "mkdir", "clone3", "uid_map", "pivot_root", "execute the guest"):
        assert part in text, part
    assert all("Input/output error" in step for step in steps), text


def test_a_failed_set_up_does_not_cost_the_files_of_a_session(faulty):
    server = faulty.server
    session = server.create("t")
    server.stdout(session, "echo data > f")
    server.terminate()
    guest = server.guest_pid(session)
    os.kill(guest, 9)
    wait_until(lambda: server.sandbox_pids() == [], "its sandbox is gone")
    label = read_label(server, session)
    kept = f"{faulty.trees}/{session}/workspace/f"
    slot = (os.stat(kept).st_uid - FIRST_TENANT) // 2
    assert is_claimed(slot)
    before = faulty.holds()
    for n in range(1, MOST):
        outcome = faulty.create(session, n, label)
        if outcome is True:
            break
        wait_until(lambda: faulty.is_back_at(before),
                   lambda: f"as before after {n}, {outcome}: {before} but {faulty.holds()}", 5)
        assert open(kept).read() == "data\n", f"lost after {n}, {outcome}"
        assert is_claimed(slot), f"its uids are anybody's after {n}, {outcome}"
    else:
        pytest.fail("it never came up")
    assert n > 30
    server.start()
    assert server.create("t") == session
    assert server.stdout(session, "cat f") == "data\n"


def is_claimed(slot):
    with open("/run/threadbox/slots", "rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except BlockingIOError:
            return True
    return False


def read_label(server, session):
    """A field of a record (src/jail/records.cpp), behind its format, checksum and size."""
    data = open(f"{server.state_dir}/sandboxes/{session}", "rb").read()
    at = 4 + 8 + 4
    size = struct.unpack_from("<I", data, at)[0]
    at += 4 + size + 8 + 8 + 4 + 4 + 4 + 4 + 8
    size = struct.unpack_from("<I", data, at)[0]
    return data[at + 4:at + 4 + size].decode()
