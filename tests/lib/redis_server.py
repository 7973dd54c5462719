# SPDX-License-Identifier: Apache-2.0
"""A redis-server of a test's own, on a port and in a folder of its own; and a wire to cut."""
import contextlib
import os
import pathlib
import queue
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from server import PLACE, wait_until

CLOCK = pathlib.Path(__file__).resolve().parents[1] / "cluster" / "clock.c"


def need_redis():
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")


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
    """`keep`: what is written survives its end. `clock`: its time of day
    can be stepped."""

    def __init__(self, keep=True, clock=False, **options):
        self.folder = tempfile.mkdtemp(prefix="tb-redis-", dir=PLACE)
        self.port = free_port()
        self.keep, self.options, self.process = keep, options, None
        self.environment = self.config = None
        if clock:
            library = self.folder + "/clock.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, CLOCK], check=True)
            self.environment = {**os.environ, "LD_PRELOAD": library,
                                "TEST_CLOCK": self.folder + "/clock"}
            self.step(0)

    def step(self, seconds):
        """Its clock is that much ahead of all others from now on."""
        fd = os.open(self.folder + "/clock", os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(fd, struct.pack("=q", seconds), 0)
        os.close(fd)

    def start(self):
        words = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder,
                 "--save", "", "--appendonly", "yes" if self.keep else "no",
                 "--appendfsync", "always", "--daemonize", "no"]
        for name, value in self.options.items():
            words += [f"--{name}", *value.split(" ")]
        words = self.config or words
        with open(self.folder + "/log", "ab") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.environment)
        try:
            wait_until(self.answers, "Redis answers")
        except AssertionError:
            self.close()
            raise
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
            if name not in ("log", "clock", "clock.so"):
                path = os.path.join(self.folder, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Wire:
    """Passes a port's connections on to another one, until it is cut; joined again, it passes.
    `delay` is how late all bytes of the far side arrive; without `passing` they wait."""

    def __init__(self, to, delay=0):
        self.to, self.cut_now, self.open, self.delay = to, False, [], delay
        self.passing = threading.Event()
        self.passing.set()
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
            late = queue.Queue()
            for work in ((self.forth, near, far), (self.back, far, late),
                         (self.hand_over, late, near)):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    @staticmethod
    def end(one):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

    def forth(self, near, far):
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)
        self.end(far)

    @staticmethod
    def back(far, late):
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                late.put((time.monotonic(), data))
        late.put((0, b""))

    def hand_over(self, late, near):
        with contextlib.suppress(OSError):
            while (one := late.get())[1]:
                time.sleep(max(0, one[0] + self.delay - time.monotonic()))
                self.passing.wait()
                near.sendall(one[1])
        self.end(near)

    def cut(self):
        self.cut_now = True
        for one in self.open:
            self.end(one)
        self.open = []

    def join(self):
        self.cut_now = False

    def close(self):
        self.passing.set()
        self.cut()
        self.listener.close()
