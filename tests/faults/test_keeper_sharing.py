# SPDX-License-Identifier: Apache-2.0
"""Several programs share a keeper and die while they wait for a sandbox, or have it."""
import os
import socket
import struct

import pytest

from keeper import Keeper

JOIN, RELEASE, WANTED = 9, 10, 72


class Program(Keeper):
    """One that shares, and does not wait for what it asked."""

    def post(self, kind, name):
        self.number += 1
        self.socket.send(struct.pack("<BI", kind, self.number) + self.bytes(name))
        return self.number

    def hear(self):
        """(type, number) of what comes next."""
        data, fds, _, _ = socket.recv_fds(self.socket, 1 << 20, 4)
        for fd in fds:
            os.close(fd)
        return struct.unpack_from("<BI", data)


@pytest.fixture
def program(start_server):
    server = start_server(POOL_SIZE=0)
    programs = []

    def start():
        programs.append(Program(server.state_dir))
        return programs[-1]
    yield start
    for one in programs:
        one.close()


def made(program, *names):
    for name in names:
        kind, fields, fds = program.create(name, label=f"of {name}")
        assert kind == Keeper.CREATED, fields
        os.close(fds[0])


def removed(program, *names):
    for name in names:
        assert program.destroy(name)[0] == Keeper.DONE


def test_what_a_dead_program_waited_for_is_told_to_no_other(program):
    """The next one to come has the number of its connection."""
    first, second = program(), program()
    made(first, "one", "two")
    second.post(JOIN, "one")
    assert first.hear() == (WANTED, 0)
    second.close()
    first.ask(Keeper.HELLO)
    third = program()
    number = third.post(JOIN, "two")
    assert first.hear() == (WANTED, 0)
    removed(first, "one")
    first.post(RELEASE, "two")
    said = [third.hear()]
    while said[-1][1] == 0:  # that "one" is gone
        said.append(third.hear())
    assert said[-1] == (Keeper.CREATED, number)
    removed(first, "two")


def test_a_sandbox_goes_to_the_next_one_alive_when_who_has_it_dies(program):
    first, dead, other = program(), program(), program()
    made(first, "one")
    dead.post(JOIN, "one")
    assert first.hear() == (WANTED, 0)
    number = other.post(JOIN, "one")
    assert first.hear() == (WANTED, 0)
    dead.close()
    first.close()
    assert other.hear() == (Keeper.CREATED, number)
    removed(other, "one")


def test_a_program_lets_go_only_of_what_it_has(program):
    first, second, third = program(), program(), program()
    made(first, "one")
    number = second.post(JOIN, "one")
    assert first.hear() == (WANTED, 0)
    third.post(RELEASE, "one")
    third.post(RELEASE, "nothing")
    third.ask(Keeper.HELLO)
    second.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        second.hear()
    second.socket.settimeout(20)
    first.post(RELEASE, "one")
    assert second.hear() == (Keeper.CREATED, number)
    removed(second, "one")
