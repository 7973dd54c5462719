# SPDX-License-Identifier: Apache-2.0
"""A WebSocket over a connection: what RFC 6455 asks of a client, without extensions."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import ssl
import struct
import time
from collections.abc import Mapping

from ._http import Connection, HttpClient, Response, nonsense

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NO_CODE = 1005
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_MESSAGE = 1 << 26
HANDSHAKE_SECONDS = 30.0


def masked(data: bytes, mask: bytes) -> bytes:
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    mask = os.urandom(4)
    return head + mask + masked(payload, mask)


class WebSocket:
    """Messages both ways. ``receive`` may be abandoned and called again: nothing is lost."""

    def __init__(self, http: HttpClient, connection: Connection) -> None:
        self._http, self._connection = http, connection
        self._parts: list[bytes] = []
        self._kind = 0
        self.closed = False

    @staticmethod
    async def open(
        http: HttpClient, target: str, headers: Mapping[str, str]
    ) -> WebSocket | Response:
        """The socket, or the answer of a server that refuses."""
        key = base64.b64encode(os.urandom(16))
        asked = {
            **headers,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key.decode(),
        }
        connection = await http.connect()
        done = False
        try:
            connection.wire.patience = HANDSHAKE_SECONDS
            await connection.send(http.head("GET", target, asked, None), b"")
            status, reason, answered = await connection.read_head("GET")
            url = http.url + target
            if status != 101:
                body = b""
                async for piece in connection.pieces("GET", status, answered):
                    body += piece
                return Response(status, reason, answered, body, "GET", url)
            wanted = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()  # noqa: S324
            if answered.get("sec-websocket-accept") != wanted:
                raise nonsense(url, "a handshake that is no WebSocket's")
            done = True
            connection.wire.patience = None  # a program may take its time to read its stdin
            return WebSocket(http, connection)
        except (OSError, ssl.SSLError) as problem:
            raise http.failure(problem, HANDSHAKE_SECONDS) from problem
        finally:
            if not done:
                connection.wire.close()

    async def send(self, opcode: int, payload: bytes) -> None:
        try:
            await self._connection.wire.send(frame(opcode, payload))
        except (OSError, ssl.SSLError) as problem:
            raise self._http.failure(problem, self._connection.wire.patience) from problem

    async def receive(self, timeout: float | None) -> tuple[int, bytes]:
        """(TEXT or BINARY, message) or (CLOSE, payload). ``TimeoutError`` when none came."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            one = self._take_frame()
            if one is None:
                await self._fill(deadline)
                continue
            last, opcode, payload = one
            if opcode == PING:
                await self.send(PONG, payload)
            elif opcode == CLOSE:
                self.closed = True
                return CLOSE, payload
            elif opcode != PONG:
                self._kind = opcode or self._kind
                self._parts.append(payload)
                if last:
                    message, self._parts = b"".join(self._parts), []
                    return self._kind, message

    async def _fill(self, deadline: float | None) -> None:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            data = await self._connection.wire.receive_within(left)
        except TimeoutError:
            raise
        except (OSError, ssl.SSLError) as problem:
            raise self._http.failure(problem, None) from problem
        if not data:
            raise self._http.failure(ConnectionResetError("it closed the connection"), None)
        self._connection.buffer += data

    def _take_frame(self) -> tuple[bool, int, bytes] | None:
        """The next whole frame of what has arrived."""
        buffer = self._connection.buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 0x7F, 2
        if size == 126:
            start = 4
        elif size == 127:
            start = 10
        if len(buffer) < start:
            return None
        if start > 2:
            size = int.from_bytes(buffer[2:start], "big")
        if buffer[0] & 0x70 or buffer[1] & 0x80 or size > MAX_MESSAGE:
            raise nonsense(self._http.url, "a frame that no WebSocket server may send")
        if len(buffer) < start + size:
            return None
        first = buffer[0]
        payload = bytes(buffer[start : start + size])
        del buffer[: start + size]
        return bool(first & 0x80), first & 0x0F, payload

    async def close(self) -> None:
        """Says so, and does not wait: whoever attaches again gets all the same bytes."""
        if not self.closed:
            self.closed = True
            self._connection.wire.patience = 1.0
            with contextlib.suppress(OSError, ssl.SSLError):  # gone already
                await self._connection.wire.send(frame(CLOSE, struct.pack(">H", 1000)))
        self._connection.wire.close()
