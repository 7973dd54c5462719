# SPDX-License-Identifier: Apache-2.0
"""The engine behind an HTTP server. One text serves blocking and asynchronous clients: only how it
waits (``Io``) differs."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from . import _parse as parse
from ._channel import RemoteChannel
from ._engine import (
    Channel,
    Command,
    Event,
    Executed,
    Exited,
    FileList,
    Output,
    OutputPage,
    ProcessInfo,
    ProcessSpec,
    SessionInfo,
    SessionSpec,
    Started,
    Stream,
    Uploaded,
)
from ._errors import ProtocolError, SandboxError, UnreachableError
from ._http import Answer, HttpClient, Response, nonsense
from ._policy import check_command
from ._wire import Io

T = TypeVar("T")

# How long a server may be silent, in seconds.
FIND, CREATE, CLEANUP, FILES, LIST = 5.0, 30.0, 10.0, 60.0, 10.0
MARGIN = 5.0  # beyond the time that a command has
SIGN_OF_LIFE = 60.0  # while output is followed; the server says something every 15 s
PROCESS = 30.0
KILL = 10.0
RETURNS = 5  # attempts to come back to the output of a process
JSON = {"Content-Type": "application/json"}
NOTHING: Mapping[str, str] = {}


class RemoteEngine:
    """See ``Engine``. ``server_url`` may have a path, when a proxy serves it below one."""

    def __init__(
        self,
        server_url: str,
        io: Io,
        api_key: str | None = None,
        tls: ssl.SSLContext | None = None,
        user_agent: str = "threadbox-python",
    ) -> None:
        headers = {"User-Agent": user_agent, "Accept": "*/*"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self.blocking = io.blocking
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
        try:
            response = await self.http.request(method, target, headers, body, seconds)
        except SandboxError as problem:
            raise translated(problem) from problem.__cause__
        if 200 <= response.status < 300 or response.status in accept:
            return response
        raise refusal(response)

    async def open(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        try:
            answer = await self.http.open(method, target, headers, body, SIGN_OF_LIFE)
            if answer.status == 200:
                return answer
            try:
                content = await answer.read()
            finally:
                answer.close()
        except SandboxError as problem:
            raise translated(problem) from problem.__cause__
        url = self.http.url + target
        raise refusal(Response(answer.status, answer.reason, answer.headers, content, method, url))

    # ---- sessions ----

    async def find_session(self, thread_id: str) -> SessionInfo | None:
        target = "/get_session?" + urlencode({"thread_id": thread_id})
        response = await self.call("GET", target, None, FIND, accept=(404,))
        if response.status == 404:
            parse.parse_object(response)  # of a Threadbox server, not of somebody else's
            return None
        return parse.parse_session(parse.parse_object(response, "session_id"))

    async def create_session(self, spec: SessionSpec) -> SessionInfo:
        body: dict[str, Any] = {"timeout_minutes": spec.timeout_minutes}
        if spec.user_id:
            body["user_id"] = spec.user_id
        if spec.thread_id:
            body["thread_id"] = spec.thread_id
        if spec.policy:
            body["policy"] = spec.policy
        response = await self.call("POST", "/create_session", body, CREATE, accept=(409,))
        return parse.parse_session(parse.parse_object(response, "session_id"))

    async def session_status(self, session_id: str) -> SessionInfo:
        response = await self.call("GET", f"/status/{quote(session_id, safe='')}", None, LIST)
        return parse.parse_session(parse.parse_object(response, "session_id"))

    async def close_session(self, session_id: str) -> None:
        await self.call("POST", "/cleanup", {"session_id": session_id}, CLEANUP)

    # ---- commands ----

    def check_command(self, policy: str, command: str) -> None:
        check_command(policy, command)

    async def execute(self, session_id: str, command: Command) -> Executed:
        tag = "sdk-" + secrets.token_hex(8)
        body, headers = command_request(session_id, command, tag, stream=False)
        seconds = command.timeout + MARGIN
        try:
            response = await self.call("POST", "/execute", body, seconds, headers)
        except SandboxError:
            raise
        except BaseException:
            # The caller was interrupted or cancelled: the command has nobody any more.
            await self._kill_tagged(session_id, tag)
            raise
        return parse.parse_executed(parse.parse_object(response, "exit_code"), session_id)

    async def _kill_tagged(self, session_id: str, tag: str) -> None:
        """By its tag, since the answer with its number never came. The request may be on its way
        still, so it is looked for a moment longer."""
        try:
            for attempt in range(5):
                await self.http.io.sleep(0.1 * attempt)
                for process in await self.processes(session_id):
                    if process.tag == tag:
                        if process.state == "running":
                            await self.kill(session_id, process.process_id)
                        return
        except Exception:  # noqa: S110
            pass  # the interruption matters more; the command's own timeout ends it

    async def stream(self, session_id: str, command: Command) -> AsyncGenerator[Event, None]:
        tag = "sdk-" + secrets.token_hex(8)
        body, headers = command_request(session_id, command, tag, stream=True)
        ended = False
        answer: Answer | None = None
        try:
            answer = await self.open("POST", "/execute", json.dumps(body).encode(), headers)
            async for line in self._lines(answer):
                event = self._event(line)
                ended = isinstance(event, Exited)
                yield event
            if not ended:
                raise self._cut_off()
        except SandboxError:
            ended = True  # there is nobody to ask, or nothing to kill
            raise
        finally:
            if answer is not None:
                answer.close()
            if not ended:
                await self._kill_tagged(session_id, tag)

    def _event(self, line: bytes) -> Event:
        try:
            message = json.loads(line)
            kind = message["type"]
            if kind == "start":
                return Started(message["process_id"])
            if kind == "exit":
                return Exited(parse.parse_process(message))
            data = message["data"].encode("utf-8", "surrogatepass")
            return Output(kind, message["offset"], data, message.get("dropped", 0))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise translated(nonsense(self.http.url, f"the line {line[:80]!r}")) from None

    async def _lines(self, answer: Answer) -> AsyncGenerator[bytes, None]:
        """Lines of a body; empty ones are signs of life."""
        buffer = bytearray()
        try:
            async for piece in answer.pieces():
                buffer += piece
                *lines, rest = bytes(buffer).split(b"\n") if b"\n" in piece else [bytes(buffer)]
                buffer = bytearray(rest)
                for line in lines:
                    yield line.rstrip(b"\r")
        except SandboxError as problem:
            raise translated(problem) from problem.__cause__

    def _cut_off(self) -> SandboxError:
        return translated(UnreachableError(f"{self.http.url} went away in the middle of output"))

    # ---- processes ----

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
            raise translated(nonsense(response.url, "output without its offsets")) from None

    async def follow(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> AsyncGenerator[Output | Exited, None]:
        lost = 0
        while True:
            try:
                async for event, after in self._events(session_id, process_id, stream, offset):
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
            async for line in self._lines(answer):
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
            raise translated(nonsense(self.http.url, f"the event {fields}")) from None

    async def write_stdin(self, session_id: str, process_id: int, data: bytes) -> int:
        target = self._path(session_id, process_id, "/stdin")
        headers = {"Content-Type": "application/octet-stream"}
        response = await self.call("POST", target, data, None, headers)
        written: int = parse.parse_object(response, "written")["written"]
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

    # ---- files ----

    async def upload_file(self, session_id: str, name: str, data: bytes) -> Uploaded:
        boundary = "threadbox-" + secrets.token_hex(16)
        fields = {"session_id": session_id, "filename": name}
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
            for key, value in fields.items()
        ]
        # The name goes as a field: a header would have to escape some of its letters.
        file_head = 'Content-Disposition: form-data; name="file"; filename="upload"'
        head = f"{''.join(parts)}--{boundary}\r\n{file_head}\r\n\r\n"
        body = b"".join([head.encode(), data, f"\r\n--{boundary}--\r\n".encode()])
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        response = await self.call("POST", "/upload_file", body, FILES, headers)
        return parse.parse_uploaded(parse.parse_object(response, "filename", "path"))

    async def download_file(self, session_id: str, name: str) -> bytes:
        body = {"session_id": session_id, "filename": name}
        return (await self.call("POST", "/download_file", body, FILES)).body

    async def list_files(
        self, session_id: str, path: str, limit: int | None, offset: int
    ) -> FileList:
        query: dict[str, Any] = {"session_id": session_id}
        if path:
            query["path"] = path
        if limit is not None:
            query["limit"] = limit
        if offset:
            query["offset"] = offset
        response = await self.call("GET", "/list_files?" + urlencode(query), None, LIST)
        return parse.parse_files(parse.parse_object(response, "files"), session_id)

    # ---- itself ----

    async def health(self) -> Mapping[str, Any]:
        return parse.parse_object(await self.call("GET", "/health", None, FIND))

    async def close(self) -> None:
        self.http.close()


def command_request(
    session_id: str, command: Command, tag: str, stream: bool
) -> tuple[dict[str, Any], Mapping[str, str]]:
    body: dict[str, Any] = {
        "session_id": session_id,
        "command": command.command,
        "timeout": command.timeout,
        "tag": tag,
    }
    if command.cwd is not None:
        body["cwd"] = command.cwd
    if command.env:
        body["env"] = dict(command.env)
    if command.stdin:
        body["stdin"] = command.stdin
    if stream:
        body["stream"] = True
    return body, {"X-Threadbox-Retry": "1"} if command.retry else NOTHING


def refusal(response: Response) -> SandboxError:
    from ._remote_errors import from_response  # noqa: PLC0415  (it imports requests)

    if 300 <= response.status < 400:
        where = response.headers.get("location", "somewhere else")
        return translated(
            ProtocolError(f"{response.url} redirects to {where}; give that as server_url")
        )
    return from_response(response)


def translated(problem: SandboxError) -> SandboxError:
    from ._remote_errors import without_answer  # noqa: PLC0415  (it imports requests)

    return without_answer(problem)
