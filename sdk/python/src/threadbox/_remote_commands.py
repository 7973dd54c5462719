# SPDX-License-Identifier: Apache-2.0
"""Commands that somebody waits for, of a server's sessions."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from . import _parse as parse
from ._engine import Command, Event, Executed, Exited, Output, Started
from ._errors import CommandRefusedError, SandboxError
from ._http import Answer, nonsense
from ._remote_base import JSON, NOTHING
from ._remote_processes import RemoteProcesses

MARGIN = 5.0  # beyond the time that a command has


class RemoteCommands(RemoteProcesses):
    def check_command(self, policy: str, command: str) -> None:
        self.checks.check(policy, command)

    def note_refusal(self, policy: str, problem: CommandRefusedError) -> None:
        self.checks.confirm(policy, problem)

    async def execute(self, session_id: str, command: Command) -> Executed:
        tag = new_tag()
        body, headers = command_request(session_id, command, tag, stream=False)
        seconds = command.timeout + MARGIN
        try:
            response = await self.call("POST", "/execute", body, seconds, headers)
        except SandboxError:
            raise
        except BaseException:
            # The caller was interrupted or cancelled: the command has nobody any more.
            await self.end_tagged(session_id, tag)
            raise
        return parse.parse_executed(parse.parse_object(response, "exit_code"), session_id)

    async def end_tagged(self, session_id: str, tag: str, interrupt: bool = False) -> None:
        """By its tag, since the answer with its number may never have come. The request may be on
        its way still, so it is looked for a moment longer."""
        try:
            for attempt in range(5):
                await self.http.io.sleep(0.1 * attempt)
                for process in await self.processes(session_id):
                    if process.tag == tag:
                        if process.state == "running" and interrupt:
                            await self.signal(session_id, process.process_id, 2, True)
                        elif process.state == "running":
                            await self.kill(session_id, process.process_id)
                        return
        except Exception:  # noqa: S110
            pass  # the interruption matters more; the command's own timeout ends it

    async def stream(self, session_id: str, command: Command) -> AsyncGenerator[Event, None]:
        tag = new_tag()
        body, headers = command_request(session_id, command, tag, stream=True)
        sent = json.dumps(body).encode()
        events = self.events_of("/execute", sent, {**JSON, **headers}, session_id, tag)
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    async def events_of(
        self,
        target: str,
        body: bytes,
        headers: Mapping[str, str],
        session_id: str,
        tag: str,
        interrupt: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """The lines that a request with ``stream`` is answered with."""
        ended = False
        answer: Answer | None = None
        try:
            answer = await self.open("POST", target, body, headers)
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
                await self.end_tagged(session_id, tag, interrupt)

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


def new_tag() -> str:
    return "sdk-" + secrets.token_hex(8)


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
