#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of the keeper, past the server: docs/formats/keeper.md, src/jail/wire.h."""
import errno
import fcntl
import os
import re
import select
import socket
import struct
import sys
import termios

from server import PATIENCE, Server


class Keeper:
    """Speaks the keeper's protocol as root."""
    HELLO, CREATE, ATTACH, LABEL, DESTROY, LIST, STOP = range(1, 8)
    MAKE_VOLUME, REMOVE_VOLUME, LIST_VOLUMES = range(11, 14)
    WELCOME, CREATED, DONE, FAILED, ITEM, GONE = range(64, 70)
    VOLUME = 73

    def __init__(self, state_dir):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(2 * PATIENCE)
        self.socket.connect(state_dir + "/keeper.sock")
        self.number = 0

    def close(self):
        self.socket.close()

    @staticmethod
    def bytes(value):
        value = value.encode() if isinstance(value, str) else value
        return struct.pack("<I", len(value)) + value

    def ask(self, kind, payload=b""):
        """(type, fields, descriptors) of the answer; others' news are passed over."""
        self.number += 1
        self.socket.send(struct.pack("<BI", kind, self.number) + payload)
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 1 << 20, 4)
            kind, number = struct.unpack_from("<BI", data)
            if number == self.number:
                return kind, data[5:], fds
            for fd in fds:
                os.close(fd)

    @classmethod
    def list(cls, values):
        return struct.pack("<I", len(values)) + b"".join(map(cls.bytes, values))

    def create(self, name, fail_at=0, environment="host", label="", ttl_ms=0, disk=64 << 20,
               programs=(), cpu_quota=25000, mounts=()):
        """A mount is (kind, read_only, source, target); kind 0 is a volume."""
        limits = struct.pack("<QQIII", 256 << 20, disk, cpu_quota, 256, 4096)
        return self.ask(self.CREATE, self.bytes(name) + self.bytes(environment) + limits +
                        struct.pack("<Q", ttl_ms) + self.bytes(label) +
                        struct.pack("<I", fail_at) + self.list(programs) +
                        struct.pack("<I", len(mounts)) +
                        b"".join(struct.pack("<BB", kind, read_only) + self.bytes(source) +
                                 self.bytes(target)
                                 for kind, read_only, source, target in mounts) +
                        struct.pack("<I", 0))

    def make_volume(self, name, limit=16 << 20, label=""):
        return self.ask(self.MAKE_VOLUME, self.bytes(name) + struct.pack("<Q", limit) +
                        self.bytes(label))

    def remove_volume(self, name):
        return self.ask(self.REMOVE_VOLUME, self.bytes(name))

    def destroy(self, name, keep_files=False):
        return self.ask(self.DESTROY, self.bytes(name) + (b"\1" if keep_files else b"\0"))


class Box:
    """One sandbox, spoken to without a server: docs/formats/guest.md, src/guest/wire.h."""
    START, BY_FILE, SIGNAL, RELEASE, FILES, CLOSE_INPUT = range(1, 7)
    READY, JAIL_FAILED, STARTED, START_FAILED, EXITED, BOTH = 64, 65, 66, 67, 68, 71
    ENVIRONMENT = ("PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/sandboxuser",
                   "USER=sandboxuser", "LANG=C.UTF-8")

    def __init__(self, keeper, name, **options):
        self.keeper, self.name, self.number, self.told = keeper, name, 0, []
        kind, fields, fds = keeper.create(name, **options)
        assert kind == Keeper.CREATED, fields
        self.listen(fds[0])

    def listen(self, control):
        """How many commands will be told again."""
        self.control = socket.socket(fileno=control)
        self.control.settimeout(2 * PATIENCE)
        said = self.control.recv(65536)
        assert said[0] == self.READY, said
        return struct.unpack_from("<I", said, 5)[0]

    def hear(self):
        """The next message, and its descriptors."""
        if self.told:
            return self.told.pop()
        data, fds, _, _ = socket.recv_fds(self.control, 65536, 4)
        if data[:1] != bytes([self.BOTH]):
            return data, fds
        size, = struct.unpack_from("<I", data, 1)
        self.told.append((data[9 + size:], []))
        return data[5:5 + size], fds

    def replace_server(self):
        """As if the server had died and another had come: the live commands, by their number."""
        self.control.close()
        self.told = []
        kind, fields, fds = self.keeper.ask(Keeper.ATTACH, Keeper.bytes(self.name))
        assert kind == Keeper.CREATED, fields
        told = [Live(self) for _ in range(self.listen(fds[0]))]
        return {live.number: live for live in told}

    def close(self, keep_files=False):
        self.control.close()
        assert self.keeper.destroy(self.name, keep_files)[0] == Keeper.DONE

    def send(self, message):
        if len(message) <= 48 << 10:
            self.control.send(message)
            return
        with os.fdopen(os.memfd_create("message"), "wb", buffering=0) as file:
            file.write(message)
            socket.send_fds(self.control, [bytes([self.BY_FILE])], [file.fileno()])

    def start(self, script="", argv=(), stdin=b"", env=(), timeout=30, keep_open=False,
              terminal=None, ahead=0, note=b""):
        """Tells PID 1 to start a command; `terminal` is (rows, columns), and for
        `ahead` ms a shell waits for the next one."""
        self.number += 1
        pack = Keeper.bytes
        self.send(struct.pack("<BIBIQ", self.START, self.number, 0, 0, int(timeout * 1000)) +
                  pack("/workspace") + Keeper.list(argv) +
                  Keeper.list([*self.ENVIRONMENT, *env]) + pack(script) + pack(stdin) +
                  struct.pack("<BBIII", keep_open, terminal is not None, *(terminal or (0, 0)),
                              ahead) + pack(note))
        return self.number

    def live(self, *words, **options):
        """A running command, to talk with."""
        self.start(*words, **options)
        return Live(self)

    def run(self, script="", **options):
        """(exit code, stdout, stderr); a program that can't be started is a shell's 126."""
        self.start(script, **options)
        texts, code = [b"", b""], None
        while code is None:
            data, fds = self.hear()
            kind, number = struct.unpack_from("<BI", data)
            assert number == self.number, data
            if kind == self.STARTED:
                texts = [self.read_all(fd) for fd in fds]
            elif kind == self.START_FAILED:
                error, = struct.unpack_from("<i", data, 5)
                return 126, "", os.strerror(error)
            elif kind == self.EXITED:
                code, signal = struct.unpack_from("<ii", data, 5)
                code = 128 + signal if signal else code
        self.control.send(struct.pack("<BIB", self.RELEASE, self.number, 3))
        return code, *(text.decode(errors="replace") for text in texts)

    @staticmethod
    def read_all(fd):
        with os.fdopen(fd, "rb") as pipe:
            return pipe.read()


class Live:
    """A command whose streams are ours: one that was just told of by PID 1."""
    OUTPUT, OPEN, TERMINAL = range(3)

    def __init__(self, box):
        self.box, self.seen, self.stdin = box, b"", None
        data, fds = box.hear()
        kind, self.number = struct.unpack_from("<BI", data)
        assert kind == Box.STARTED, data
        self.pid, self.age_us, self.streams, size = struct.unpack_from("<iQBI", data, 5)
        self.note, taken = data[22:22 + size], struct.unpack_from("<QQ", data, 22 + size)
        assert len(data) == 38 + size and taken == (0, 0), data
        assert len(fds) == (2 if self.streams == self.OUTPUT else 3)
        self.fds = fds
        self.stdin = {self.OUTPUT: None, self.OPEN: fds[-1], self.TERMINAL: fds[0]}[self.streams]

    def write(self, data):
        """All of it: it waits while the pipe is full."""
        data = data.encode() if isinstance(data, str) else data
        while data:
            try:
                data = data[os.write(self.stdin, data):]
            except BlockingIOError:
                assert select.select([], [self.stdin], [], PATIENCE)[1], "nobody reads"

    def close_stdin(self):
        os.close(self.fds.pop())
        self.stdin = None
        self.box.send(struct.pack("<BI", Box.CLOSE_INPUT, self.number))

    def read(self):
        """What came next; empty at the end."""
        assert select.select([self.fds[0]], [], [], PATIENCE)[0], self.seen
        try:
            text = os.read(self.fds[0], 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            return b""
        self.seen += text
        return text

    def expect(self, pattern):
        """Reads until it was printed, once more than in earlier calls."""
        while not (found := re.search(pattern.encode(), self.seen, re.DOTALL)):
            assert self.read(), self.seen
        before, self.seen = self.seen[:found.start()], self.seen[found.end():]
        return before, found

    def rest(self):
        while self.read():
            pass
        return self.seen

    def resize(self, rows, columns):
        fcntl.ioctl(self.fds[0], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number, tree=True):
        self.box.send(struct.pack("<BIiB", Box.SIGNAL, self.number, number, tree))

    def wait(self):
        """(exit code, signal, cause)."""
        data = self.box.control.recv(65536)
        kind, number = struct.unpack_from("<BI", data)
        assert (kind, number) == (Box.EXITED, self.number), data
        return struct.unpack_from("<iiB", data, 5)

    def close(self):
        """Our copies alone: PID 1 has its own."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def release(self):
        self.close()
        self.box.send(struct.pack("<BIB", Box.RELEASE, self.number, 3))


def main():
    server = Server().start()
    keeper = Keeper(server.state_dir)
    box = Box(keeper, "by-hand")
    assert box.run("id -un") == (0, "sandboxuser\n", "")
    box.close()
    keeper.close()
    server.close()


if __name__ == "__main__":
    sys.exit(main())
