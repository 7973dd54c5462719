# SPDX-License-Identifier: Apache-2.0
"""Bytes to and from a server: a connection that blocks, and one that suspends, behind one face."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
import threading
import time
from typing import Protocol

from ._errors import UnsupportedError

CHUNK = 1 << 18


class Wire(Protocol):
    """A connection. ``TimeoutError`` when a wait takes longer than ``patience``."""

    patience: float | None

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes:
        """What has arrived; empty at the end."""
        ...

    async def receive_within(self, seconds: float | None) -> bytes:
        """The same with another patience, after whose end the connection can still be used."""
        ...

    def idle(self) -> bool:
        """Whether it may carry another request: open, nothing unread, and of this process."""
        ...

    def close(self) -> None: ...


class Io(Protocol):
    """How an engine waits."""

    blocking: bool

    async def connect(
        self, host: str, port: int, tls: ssl.SSLContext | None, seconds: float
    ) -> Wire: ...

    async def sleep(self, seconds: float) -> None: ...

    def place(self) -> object:
        """Connections made at one place are no good at another: the process, or the loop."""
        ...


# Small messages go at once; a server that vanished is noticed, also while nothing is awaited of it.
OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
]


def set_up(connected: socket.socket) -> None:
    for level, name, value in OPTIONS:
        connected.setsockopt(level, name, value)


class BlockingWire:
    """A socket. One thread may send while another one receives."""

    def __init__(self, connected: socket.socket) -> None:
        self.patience: float | None = None
        self._socket = connected
        self._set = connected.gettimeout()
        self._sending = threading.Lock()
        self._pid = os.getpid()

    async def send(self, data: bytes) -> None:
        self._check()
        with self._sending:
            self._be_patient()
            self._socket.sendall(data)

    async def receive(self) -> bytes:
        self._check()
        self._be_patient()
        return self._socket.recv(CHUNK)

    async def receive_within(self, seconds: float | None) -> bytes:
        self._check()
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        if not pending and not self._readable(None if seconds is None else seconds * 1000):
            raise TimeoutError("nothing came in time")
        return self._socket.recv(CHUNK)

    def idle(self) -> bool:
        if self._pid != os.getpid() or self._socket.fileno() < 0:
            return False
        return not self._readable(0)

    def close(self) -> None:
        # In a forked child only its own descriptor goes; the parent's connection lives on.
        if self._pid == os.getpid():
            self._socket.close()
        else:
            os.close(self._socket.detach())

    def _be_patient(self) -> None:
        if self.patience != self._set:  # it costs a system call
            self._socket.settimeout(self.patience)
            self._set = self.patience

    def _readable(self, milliseconds: float | None) -> bool:
        poll = select.poll()  # not select(), which knows only 1024 descriptors
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(milliseconds))

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise UnsupportedError("a stream belongs to the process that opened it; open a new one")


class BlockingIo:
    blocking = True

    async def connect(
        self, host: str, port: int, tls: ssl.SSLContext | None, seconds: float
    ) -> Wire:
        connected = socket.create_connection((host, port), timeout=seconds)
        try:
            set_up(connected)
            if tls is not None:
                connected = tls.wrap_socket(connected, server_hostname=host)
            return BlockingWire(connected)
        except BaseException:
            connected.close()
            raise

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  (to block is what it is for)

    def place(self) -> object:
        return os.getpid()


class AsyncWire:
    """A pair of asyncio streams. The end of patience aborts the connection: cheaper than a task for
    each wait, and nobody would use it any more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.patience: float | None = None
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self._expired = False

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        timer = self._arm()
        try:
            await self._writer.drain()
        except OSError:
            self._raise_expiry()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def receive(self) -> bytes:
        timer = self._arm()
        try:
            data = await self._reader.read(CHUNK)
        except OSError:
            self._raise_expiry()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if not data:
            self._raise_expiry()
        return data

    async def receive_within(self, seconds: float | None) -> bytes:
        if seconds is None:
            return await self._reader.read(CHUNK)
        try:
            return await asyncio.wait_for(self._reader.read(CHUNK), seconds)
        except asyncio.TimeoutError:
            raise TimeoutError("nothing came in time") from None

    def idle(self) -> bool:
        unread = self._reader._buffer  # type: ignore[attr-defined]
        return not (self._writer.is_closing() or self._reader.at_eof() or unread)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._writer.close()

    def _arm(self) -> asyncio.TimerHandle | None:
        if self.patience is None:
            return None
        return self._loop.call_later(self.patience, self._expire)

    def _expire(self) -> None:
        self._expired = True
        self._writer.transport.abort()

    def _raise_expiry(self) -> None:
        if self._expired:
            raise TimeoutError("nothing came in time")


class AsyncIo:
    blocking = False

    async def connect(
        self, host: str, port: int, tls: ssl.SSLContext | None, seconds: float
    ) -> Wire:
        opening = asyncio.open_connection(host, port, ssl=tls, limit=4 * CHUNK)
        try:
            reader, writer = await asyncio.wait_for(opening, seconds)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no connection in {seconds:g} s") from None
        set_up(writer.get_extra_info("socket"))
        return AsyncWire(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def place(self) -> object:
        return asyncio.get_running_loop()
