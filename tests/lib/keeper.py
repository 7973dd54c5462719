# SPDX-License-Identifier: Apache-2.0
"""A client of the keeper, past the server: docs/formats/keeper.md, src/jail/wire.h."""
import os
import socket
import struct

from server import PATIENCE


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

    def create(self, name, fail_at=0, environment="host", label="", ttl_ms=0, disk=64 << 20):
        limits = struct.pack("<QQIII", 256 << 20, disk, 25000, 256, 4096)
        return self.ask(self.CREATE, self.bytes(name) + self.bytes(environment) + limits +
                        struct.pack("<Q", ttl_ms) + self.bytes(label) +
                        struct.pack("<I", fail_at))

    def destroy(self, name):
        return self.ask(self.DESTROY, self.bytes(name) + b"\0")
