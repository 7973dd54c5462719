# SPDX-License-Identifier: Apache-2.0
"""Requests of the engine behind an HTTP server, and what their failures are called."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ._errors import ProtocolError, SandboxError, UnreachableError
from ._http import Answer, HttpClient, Response, remote
from ._policy import PolicyChecks
from ._wire import Io

# How long a server may be silent, in seconds.
FIND, CREATE, CLEANUP, FILES, LIST = 5.0, 30.0, 10.0, 60.0, 10.0
PROCESS = 30.0
KILL = 10.0
SIGN_OF_LIFE = 60.0  # while output is followed; the server says something every 15 s
JSON = {"Content-Type": "application/json"}
NOTHING: Mapping[str, str] = {}


class RemoteBase:
    def __init__(
        self,
        server_url: str,
        io: Io,
        api_key: str | None = None,
        tls: ssl.SSLContext | None = None,
        user_agent: str = "threadbox-python",
    ) -> None:
        headers = {"User-Agent": user_agent}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self.blocking = io.blocking
        self.checks = PolicyChecks()
        self.http = HttpClient(server_url, io, headers, tls)

    # ---- requests ----

    async def call(
        self,
        method: str,
        target: str,
        body: Mapping[str, Any] | bytes | None = None,
        seconds: float | None = PROCESS,
        headers: Mapping[str, str] = NOTHING,
        accept: tuple[int, ...] = (),
    ) -> Response:
        """The answer, if its status is 2xx or in ``accept``; an error otherwise."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = {**JSON, **headers}
        response = await self.http.request(method, target, headers, body, seconds)
        if 200 <= response.status < 300 or response.status in accept:
            return response
        raise refusal(response)

    async def open(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        answer = await self.http.open(method, target, headers, body, SIGN_OF_LIFE)
        if answer.status == 200:
            return answer
        try:
            content = await answer.read()
        finally:
            answer.close()
        url = self.http.url + target
        raise refusal(Response(answer.status, answer.reason, answer.headers, content, method, url))

    async def _lines(self, answer: Answer) -> AsyncGenerator[bytes, None]:
        """Lines of a body; empty ones are signs of life."""
        buffer = bytearray()
        async with contextlib.aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                buffer += piece
                if b"\n" not in piece:
                    continue
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    yield line.rstrip(b"\r")

    def _cut_off(self) -> SandboxError:
        return remote(UnreachableError(f"{self.http.url} went away in the middle of output"))


def refusal(response: Response) -> SandboxError:
    from ._remote_errors import from_response  # noqa: PLC0415  (it imports requests)

    if 300 <= response.status < 400:
        where = response.headers.get("location", "somewhere else")
        return remote(
            ProtocolError(f"{response.url} redirects to {where}; give that as server_url")
        )
    return from_response(response)
