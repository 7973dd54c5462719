# SPDX-License-Identifier: Apache-2.0
"""Attached to a process of a server, over a WebSocket."""

from __future__ import annotations

import json
from typing import Any

from ._engine import Exited, Output, ProcessInfo, Stream
from ._errors import ConflictError, UnreachableError
from ._http import HttpClient, Response, nonsense, remote
from ._parse import parse_process
from ._websocket import BINARY, CLOSE, TEXT, WebSocket

FIRST_SECONDS = 30.0
MESSAGE = 1 << 16  # far below what a server takes at once


class RemoteChannel:
    """See ``Channel``. One thread may receive while another one sends."""

    def __init__(self, socket: WebSocket, stream: Stream, attached: dict[str, Any]) -> None:
        self.process: ProcessInfo = parse_process(attached)
        self.offset: int = attached["offset"]
        self._dropped = 0
        self._stream = stream
        self._socket = socket
        self._over = False

    @staticmethod
    async def open(http: HttpClient, target: str, stream: Stream) -> RemoteChannel | Response:
        socket = await WebSocket.open(http, target, {})
        if isinstance(socket, Response):
            return socket
        try:
            kind, message = await socket.receive(FIRST_SECONDS)
            return RemoteChannel(socket, stream, _first(http.url, kind, message))
        except BaseException:
            await socket.close()
            raise

    async def receive(self, timeout: float | None = None) -> Output | Exited | None:
        while not self._over:
            kind, message = await self._socket.receive(timeout)
            if kind == BINARY:
                piece = Output(self._stream, self.offset, message, self._dropped)
                self.offset += len(message)
                self._dropped = 0
                return piece
            if kind == CLOSE:
                self._over = True
                await self._socket.close()
                text = f"the server closed the channel: {_reason(message)}"
                raise remote(UnreachableError(text))
            told = self._told(json.loads(message))
            if told is not None:
                return told
        return None

    def _told(self, message: dict[str, Any]) -> Exited | None:
        kind = message.get("type")
        if kind == "exit":
            self._over = True
            return Exited(parse_process(message))
        if kind == "offset":
            self.offset = message["offset"]
            self._dropped = message.get("dropped", 0)
        elif kind == "error":
            raise ConflictError(message.get("error", "refused"))
        return None

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), MESSAGE):
            await self._socket.send(BINARY, data[start : start + MESSAGE])

    async def close_stdin(self) -> None:
        await self._tell(type="stdin_close")

    async def resize(self, rows: int, cols: int) -> None:
        await self._tell(type="resize", rows=rows, cols=cols)

    async def signal(self, signal: str | int, tree: bool = True) -> None:
        await self._tell(type="signal", signal=signal, tree=tree)

    async def close(self) -> None:
        self._over = True
        await self._socket.close()

    async def _tell(self, **message: Any) -> None:
        await self._socket.send(TEXT, json.dumps(message).encode())


def _first(url: str, kind: int, message: bytes) -> dict[str, Any]:
    if kind == TEXT:
        attached = json.loads(message)
        if isinstance(attached, dict) and attached.get("type") == "attached":
            return attached
    raise nonsense(url, f"the start of a channel with {message[:80]!r}")


def _reason(payload: bytes) -> str:
    code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
    return f"{code} {payload[2:].decode('utf-8', 'replace')}".strip()
