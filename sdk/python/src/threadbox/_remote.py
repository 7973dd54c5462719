# SPDX-License-Identifier: Apache-2.0
"""The engine behind an HTTP server. One text serves blocking and asynchronous clients: only how it
waits (``Io``) differs."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from . import _parse as parse
from ._engine import Command, Event, Executed, Exited, Output, SessionInfo, SessionSpec, Started
from ._errors import SandboxError
from ._http import Answer, nonsense
from ._policy import check_command
from ._remote_base import CLEANUP, CREATE, FIND, LIST, NOTHING
from ._remote_files import RemoteFiles
from ._remote_processes import RemoteProcesses

MARGIN = 5.0  # beyond the time that a command has


class RemoteEngine(RemoteProcesses, RemoteFiles):
    """See ``Engine``. ``server_url`` may have a path, when a proxy serves it below one."""

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
            async with contextlib.aclosing(self._lines(answer)) as lines:
                async for line in lines:
                    if not line:
                        continue
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
            raise nonsense(self.http.url, f"the line {line[:80]!r}") from None

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
