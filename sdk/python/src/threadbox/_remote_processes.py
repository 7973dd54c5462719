# SPDX-License-Identifier: Apache-2.0
"""Processes of a server's sessions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from urllib.parse import quote, urlencode

from . import _parse as parse
from ._channel import RemoteChannel
from ._engine import Channel, Exited, Output, OutputPage, ProcessInfo, ProcessSpec, Stream
from ._errors import UnreachableError
from ._http import Response, nonsense
from ._remote_base import KILL, RemoteBase, refusal

INPUT = 1 << 20  # bytes of stdin in one request
RETURNS = 5  # attempts to come back to the output of a process


class RemoteProcesses(RemoteBase):
    def _path(self, session_id: str, process_id: int | None = None, more: str = "") -> str:
        base = f"/api/sessions/{quote(session_id, safe='')}/processes"
        return base if process_id is None else f"{base}/{process_id}{more}"

    async def start(self, session_id: str, spec: ProcessSpec) -> ProcessInfo:
        body = parse.render_process(spec)
        response = await self.call("POST", self._path(session_id), body)
        return self._process(response)

    async def processes(self, session_id: str) -> Sequence[ProcessInfo]:
        response = await self.call("GET", self._path(session_id))
        listed = parse.parse_object(response, "processes")["processes"]
        return [parse.parse_process(one) for one in listed]

    async def process(self, session_id: str, process_id: int) -> ProcessInfo:
        return self._process(await self.call("GET", self._path(session_id, process_id)))

    async def output(
        self, session_id: str, process_id: int, stream: Stream, offset: int, limit: int | None
    ) -> OutputPage:
        query = {"stream": stream, "offset": offset}
        if limit is not None:
            query["limit"] = limit
        target = self._path(session_id, process_id, "/output?" + urlencode(query))
        response = await self.call("GET", target)
        try:
            return OutputPage(
                int(response.headers["x-output-offset"]),
                response.body,
                int(response.headers["x-output-total"]),
                response.headers["x-process-state"] == "running",
            )
        except (KeyError, ValueError):
            raise nonsense(response.url, "output without its offsets") from None

    async def follow(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> AsyncGenerator[Output | Exited, None]:
        lost = 0
        while True:
            try:
                opened = self._events(session_id, process_id, stream, offset)
                async with contextlib.aclosing(opened) as events:
                    async for event, after in events:
                        lost = 0
                        yield event
                        if isinstance(event, Exited):
                            return
                        offset = after
                problem = self._cut_off()
            except UnreachableError as caught:
                problem = caught
            # The output waits in the server, also in the next one: come back to where we were.
            lost += 1
            if lost > RETURNS:
                raise problem
            await self.http.io.sleep(0.1 * 2**lost)

    async def _events(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> AsyncGenerator[tuple[Output | Exited, int], None]:
        query = "/output?" + urlencode({"stream": stream, "offset": offset})
        target = self._path(session_id, process_id, query)
        answer = await self.open("GET", target, None, {"Accept": "text/event-stream"})
        try:
            fields: dict[bytes, bytes] = {}
            async with contextlib.aclosing(self._lines(answer)) as lines:
                async for line in lines:
                    name, _, value = line.partition(b":")
                    if line:
                        fields[name] = value.removeprefix(b" ")
                    elif b"data" in fields:
                        yield self._followed(fields, stream)
                        fields = {}
        finally:
            answer.close()

    def _followed(self, fields: dict[bytes, bytes], stream: Stream) -> tuple[Output | Exited, int]:
        try:
            message = json.loads(fields[b"data"])
            if fields.get(b"event") == b"exit":
                return Exited(parse.parse_process(message)), 0
            data = message["data"].encode("utf-8", "surrogatepass")
            piece = Output(stream, message["offset"], data, message.get("dropped", 0))
            return piece, int(fields[b"id"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise nonsense(self.http.url, f"the event {fields}") from None

    async def write_stdin(self, session_id: str, process_id: int, data: bytes) -> int:
        target = self._path(session_id, process_id, "/stdin")
        headers = {"Content-Type": "application/octet-stream"}
        written = 0
        for start in range(0, len(data), INPUT):
            part = data[start : start + INPUT]
            response = await self.call("POST", target, part, None, headers)
            written += parse.parse_object(response, "written")["written"]
        return written

    async def close_stdin(self, session_id: str, process_id: int) -> None:
        await self.call("POST", self._path(session_id, process_id, "/stdin/close"))

    async def signal(
        self, session_id: str, process_id: int, signal: str | int, tree: bool
    ) -> ProcessInfo:
        target = self._path(session_id, process_id, "/signal")
        return self._process(await self.call("POST", target, {"signal": signal, "tree": tree}))

    async def resize(self, session_id: str, process_id: int, rows: int, cols: int) -> ProcessInfo:
        target = self._path(session_id, process_id, "/resize")
        return self._process(await self.call("POST", target, {"rows": rows, "cols": cols}))

    async def kill(self, session_id: str, process_id: int) -> ProcessInfo:
        target = self._path(session_id, process_id)
        return self._process(await self.call("DELETE", target, None, KILL))

    async def attach(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> Channel:
        query = "/attach?" + urlencode({"stream": stream, "offset": offset})
        target = self._path(session_id, process_id, query)
        opened = await RemoteChannel.open(self.http, target, stream)
        if isinstance(opened, Response):
            raise refusal(opened)
        return opened

    def _process(self, response: Response) -> ProcessInfo:
        return parse.parse_process(parse.parse_object(response, "process_id", "state"))
