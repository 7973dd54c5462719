# SPDX-License-Identifier: Apache-2.0
"""A redis-server of a test's own, on a port and in a folder of its own; and a wire to cut."""
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading

from server import PLACE, wait_until


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def encode(*words):
    parts = [str(word).encode() if not isinstance(word, bytes) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def read_reply(stream):
    line = stream.readline()
    if not line:
        raise OSError("Redis has closed")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise RuntimeError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        if int(rest) < 0:
            return None
        return stream.read(int(rest) + 2)[:-2].decode()
    return [read_reply(stream) for _ in range(int(rest))]


class Redis:
    """`keep`: what is written survives its end."""

    def __init__(self, keep=True, **options):
        self.folder = tempfile.mkdtemp(prefix="tb-redis-", dir=PLACE)
        self.port = free_port()
        self.keep, self.options, self.process = keep, options, None

    def start(self):
        words = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder,
                 "--save", "", "--appendonly", "yes" if self.keep else "no",
                 "--appendfsync", "always", "--daemonize", "no"]
        for name, value in self.options.items():
            words += [f"--{name}", *value.split(" ")]
        with open(self.folder + "/log", "ab") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        wait_until(self.answers, "Redis answers")
        return self

    def answers(self):
        with contextlib.suppress(OSError, RuntimeError):
            return self.call("PING") == "PONG"

    def call(self, *words):
        """One command over a connection of its own; an error is raised."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as wire:
            with wire.makefile("rb") as stream:
                if "requirepass" in self.options:
                    wire.sendall(encode("AUTH", self.options["requirepass"]))
                    read_reply(stream)
                wire.sendall(encode(*words))
                return read_reply(stream)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def forget(self):
        """While it is dead: all that it has written."""
        for name in os.listdir(self.folder):
            if name != "log":
                path = os.path.join(self.folder, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Wire:
    """Passes a port's connections on to another one, until it is cut; joined again, it passes."""

    def __init__(self, to):
        self.to, self.cut_now, self.open = to, False, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.cut_now:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.to), 5)
            except OSError:
                near.close()
                continue
            self.open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    @staticmethod
    def pump(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.cut_now = True
        for end in self.open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.open = []

    def join(self):
        self.cut_now = False

    def close(self):
        self.cut()
        self.listener.close()
