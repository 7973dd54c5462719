#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of the keeper, past the server: docs/formats/keeper.md, src/jail/wire.h."""
import os
import socket
import struct
import sys

from server import PATIENCE, Server


class Keeper:
    """Speaks the keeper's protocol as root."""
    HELLO, CREATE, ATTACH, LABEL, DESTROY, LIST, STOP = range(1, 8)
    WELCOME, CREATED, DONE, FAILED, ITEM, GONE = range(64, 70)

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
               programs=(), cpu_quota=25000):
        limits = struct.pack("<QQIII", 256 << 20, disk, cpu_quota, 256, 4096)
        return self.ask(self.CREATE, self.bytes(name) + self.bytes(environment) + limits +
                        struct.pack("<Q", ttl_ms) + self.bytes(label) +
                        struct.pack("<I", fail_at) + self.list(programs))

    def destroy(self, name, keep_files=False):
        return self.ask(self.DESTROY, self.bytes(name) + (b"\1" if keep_files else b"\0"))


class Box:
    """One sandbox, spoken to without a server: docs/formats/guest.md, src/guest/wire.h."""
    START, BY_FILE, RELEASE = 1, 2, 4
    READY, JAIL_FAILED, STARTED, START_FAILED, EXITED = 64, 65, 66, 67, 68
    ENVIRONMENT = ("PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/sandboxuser",
                   "USER=sandboxuser", "LANG=C.UTF-8")

    def __init__(self, keeper, name, **options):
        self.keeper, self.name, self.number = keeper, name, 0
        kind, fields, fds = keeper.create(name, **options)
        assert kind == Keeper.CREATED, fields
        self.control = socket.socket(fileno=fds[0])
        self.control.settimeout(2 * PATIENCE)
        said = self.control.recv(65536)
        assert said[0] == self.READY, said

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

    def run(self, script="", argv=(), stdin=b"", env=(), timeout=30):
        """(exit code, stdout, stderr); a program that can't be started is a shell's 126."""
        self.number += 1
        pack = Keeper.bytes
        self.send(struct.pack("<BIQ", self.START, self.number, timeout * 1000) +
                  pack("/workspace") + Keeper.list(argv) +
                  Keeper.list([*self.ENVIRONMENT, *env]) + pack(script) + pack(stdin))
        texts, code = [b"", b""], None
        while code is None:
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 4)
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
