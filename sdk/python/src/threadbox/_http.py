# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as far as a Threadbox server speaks it: one request at a time on kept connections."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ._errors import ProtocolError, SandboxError, ServerTimeoutError, UnreachableError
from ._wire import Io, Wire

MAX_HEAD = 1 << 16
MAX_ANSWER = 1 << 30  # of an answer that is kept in memory
KEPT = 64  # connections
KEPT_SECONDS = 60.0  # the server closes after 75
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Response:
    status: int
    reason: str
    headers: Mapping[str, str]  # by lower-case name
    body: bytes
    method: str
    url: str

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise nonsense(self.url, f"no JSON but {self.body[:80]!r}") from None


def nonsense(url: str, what: str) -> SandboxError:
    return remote(ProtocolError(f"{url} answered {what}; is it the URL of a Threadbox server?"))


def remote(problem: SandboxError) -> SandboxError:
    """The error as one of ``requests`` too."""
    from ._remote_errors import without_answer  # noqa: PLC0415  (it imports requests)

    return without_answer(problem)


class Connection:
    """Requests and answers in turns."""

    def __init__(self, wire: Wire, url: str, place: object) -> None:
        self.wire, self.url, self.place = wire, url, place
        self.buffer = bytearray()
        self.last_used = time.monotonic()
        self.began = False  # of the answer to the last request something has arrived
        self.reusable = False  # the last answer was read to its end

    async def send(self, head: bytes, body: bytes) -> None:
        self.began = self.reusable = False
        if len(body) < 1 << 16:
            await self.wire.send(head + body)
        else:
            await self.wire.send(head)
            await self.wire.send(body)

    async def read_head(self, method: str) -> tuple[int, str, dict[str, str]]:
        patience = self.wire.patience
        deadline = None if patience is None else time.monotonic() + patience
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end >= 0:
                status, reason, headers = self._parse_head(bytes(self.buffer[:end]))
                del self.buffer[: end + 4]
                if status >= 200 or status == 101:
                    return status, reason, headers
                continue  # 100 Continue and the like
            if len(self.buffer) > MAX_HEAD:
                raise nonsense(self.url, "a head without an end")
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError("the answer comes too slowly")
            await self.fill()

    def _parse_head(self, head: bytes) -> tuple[int, str, dict[str, str]]:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdigit():
            raise nonsense(self.url, f"{first[:80]!r}, which is no HTTP/1.1")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise nonsense(self.url, f"the header {line[:80]!r}")
            headers[name.strip().lower()] = value.strip()
        return int(code), reason, headers

    async def pieces(
        self, method: str, status: int, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Read to its end, the connection is free again."""
        keep = headers.get("connection", "").lower() != "close"
        size = headers.get("content-length")
        if method == "HEAD" or status in (204, 304):
            pass
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            async for piece in self._chunks():
                yield piece
        elif size is not None:
            if not size.isdigit():
                raise nonsense(self.url, f"Content-Length: {size[:80]}")
            async for piece in self._counted(int(size)):
                yield piece
        else:
            keep = False
            async for piece in self._rest():
                yield piece
        self.reusable = keep

    def take_whole(self, method: str, status: int, headers: Mapping[str, str]) -> bytes | None:
        """The body, if all of it came with the head: the way of most answers."""
        size = headers.get("content-length", "")
        if not size.isdigit() or int(size) != len(self.buffer) or method == "HEAD":
            return None
        self.reusable = headers.get("connection", "").lower() != "close"
        whole = bytes(self.buffer)
        self.buffer.clear()
        return whole

    async def _counted(self, left: int) -> AsyncGenerator[bytes, None]:
        while left > 0:
            if not self.buffer:
                await self.fill()
            piece = bytes(self.buffer[:left])
            del self.buffer[:left]
            left -= len(piece)
            yield piece

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            line = (await self._line()).partition(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                raise nonsense(self.url, f"a chunk of size {line[:80]!r}") from None
            async for piece in self._counted(size):
                yield piece
            if size == 0:
                while await self._line():
                    pass  # trailers
                return
            await self._line()

    async def _rest(self) -> AsyncGenerator[bytes, None]:
        while True:
            if self.buffer:
                yield bytes(self.buffer)
                self.buffer.clear()
            data = await self.wire.receive()
            if not data:
                return
            self.buffer += data

    async def _line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n")) < 0:
            if len(self.buffer) > MAX_HEAD:
                raise nonsense(self.url, "a line without an end")
            await self.fill()
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    async def fill(self) -> None:
        data = await self.wire.receive()
        if not data:
            raise ConnectionResetError("the server closed the connection before its answer's end")
        self.began = True
        self.buffer += data


class Kept:
    """Connections that wait for their next request. A forked child begins with none of them."""

    def __init__(self, io: Io) -> None:
        self._io = io
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._free: list[Connection] = []

    def take(self) -> Connection | None:
        if self._pid != os.getpid():
            self._drop_inherited()
        place = self._io.place()
        now = time.monotonic()
        while True:
            with self._lock:
                if not self._free:
                    return None
                connection = self._free.pop()
            usable = connection.place == place and now - connection.last_used < KEPT_SECONDS
            if usable and connection.wire.idle():
                return connection
            connection.wire.close()

    def give_back(self, connection: Connection) -> None:
        connection.last_used = time.monotonic()
        if connection.reusable and not connection.buffer and self._pid == os.getpid():
            with self._lock:
                if len(self._free) < KEPT:
                    self._free.append(connection)
                    return
        connection.wire.close()

    def close(self) -> None:
        if self._pid != os.getpid():
            self._drop_inherited()
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.wire.close()

    def _drop_inherited(self) -> None:
        # The old lock may be held by a thread that was not forked: it is never taken here.
        inherited = self._free
        self._begin()
        for connection in inherited:
            connection.wire.close()


class Answer:
    """An answer whose body is still to come; ``close`` must follow."""

    def __init__(self, client: HttpClient, connection: Connection, head: Any, method: str) -> None:
        self.status, self.reason, self.headers = head
        self._client, self._connection, self._method = client, connection, method
        self._closed = False

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        connection = self._connection
        try:
            opened = connection.pieces(self._method, self.status, self.headers)
            async with contextlib.aclosing(opened) as pieces:
                async for piece in pieces:
                    yield piece
        except (OSError, ssl.SSLError) as problem:
            raise self._client.failure(problem, connection.wire.patience) from problem

    async def read(self, limit: int = MAX_ANSWER) -> bytes:
        connection = self._connection
        whole = connection.take_whole(self._method, self.status, self.headers)
        if whole is not None:
            return whole
        parts, size = [], 0
        async for piece in self.pieces():
            parts.append(piece)
            size += len(piece)
            if size > limit:
                raise nonsense(connection.url, f"more than {limit} bytes")
        return b"".join(parts)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.kept.give_back(self._connection)


class HttpClient:
    """Requests to one server. Errors are ``UnreachableError``, ``ServerTimeoutError`` and
    ``ProtocolError``; a status is never one here."""

    def __init__(
        self, url: str, io: Io, headers: Mapping[str, str], tls: ssl.SSLContext | None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"server_url must look like http://host:port, not {url!r}")
        self.url = url.rstrip("/")
        self.io = io
        self.kept = Kept(io)
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        lines = {"Host": parts.netloc.rpartition("@")[2], **headers}
        for name, value in lines.items():
            if any(ord(letter) < 32 or ord(letter) > 255 for letter in value):
                raise ValueError(f"{name} contains letters that no header can hold")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def head(self, method: str, target: str, headers: Mapping[str, str], size: int | None) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if size is not None:
            lines += f"Content-Length: {size}\r\n"
        text = f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._headers}{lines}\r\n"
        return text.encode("latin-1")

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float | None,
    ) -> Response:
        """The whole answer. ``seconds`` is how long the server may be silent."""
        answer = await self.open(method, target, headers, body, seconds)
        try:
            content = await answer.read()
        finally:
            answer.close()
        return Response(
            answer.status, answer.reason, answer.headers, content, method, self.url + target
        )

    async def open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float | None,
    ) -> Answer:
        """The head of the answer; its body is read piece by piece."""
        size = len(body) if body is not None else None if method in ("GET", "DELETE") else 0
        head = self.head(method, target, headers, size)
        connection = self.kept.take()
        if connection is not None:
            try:
                return await self._exchange(connection, method, head, body, seconds)
            except UnreachableError:
                # It may have been closed while it waited. Whether a request was carried out nobody
                # knows then, so only one that changes nothing is repeated.
                if connection.began or method not in ("GET", "HEAD"):
                    raise
        connection = await self.connect()
        return await self._exchange(connection, method, head, body, seconds)

    async def connect(self) -> Connection:
        try:
            wire = await self.io.connect(self._host, self._port, self._tls, CONNECT_SECONDS)
        except (OSError, ssl.SSLError) as problem:
            raise self.failure(problem, CONNECT_SECONDS, connecting=True) from problem
        return Connection(wire, self.url, self.io.place())

    async def _exchange(
        self, connection: Connection, method: str, head: bytes, body: bytes | None, seconds: Any
    ) -> Answer:
        connection.wire.patience = seconds
        try:
            await connection.send(head, body or b"")
            return Answer(self, connection, await connection.read_head(method), method)
        except (OSError, ssl.SSLError) as problem:
            connection.wire.close()
            if isinstance(problem, SandboxError):
                raise
            raise self.failure(problem, seconds) from problem
        except BaseException:
            connection.wire.close()
            raise

    def failure(
        self, problem: OSError, seconds: float | None, connecting: bool = False
    ) -> SandboxError:
        if isinstance(problem, SandboxError):
            return problem
        if isinstance(problem, TimeoutError):
            doing = "could not be reached" if connecting else "did not answer"
            return remote(ServerTimeoutError(f"{self.url} {doing} within {seconds or 0:g} s"))
        if connecting:
            text = f"{self.url} can't be reached: {problem}; does a server run?"
            return remote(UnreachableError(text))
        return remote(UnreachableError(f"{self.url} went away: {problem}"))

    def close(self) -> None:
        self.kept.close()
