# SPDX-License-Identifier: Apache-2.0
"""Shells of a server's sessions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from . import _parse as parse
from ._engine import Event
from ._engine_shells import ShellInfo, ShellRun, ShellSpec
from ._errors import SandboxError
from ._remote_base import JSON, KILL
from ._remote_commands import MARGIN, RemoteCommands, new_tag


class RemoteShells(RemoteCommands):
    def _shells(self, session_id: str, shell_id: int | None = None, more: str = "") -> str:
        base = f"/api/sessions/{quote(session_id, safe='')}/shells"
        return base if shell_id is None else f"{base}/{shell_id}{more}"

    async def open_shell(self, session_id: str, spec: ShellSpec) -> ShellInfo:
        body: dict[str, Any] = {"env": dict(spec.env), "tag": spec.tag}
        if spec.cwd is not None:
            body["cwd"] = spec.cwd
        response = await self.call("POST", self._shells(session_id), body)
        return parse_shell(parse.parse_object(response, "shell_id"))

    async def shells(self, session_id: str) -> Sequence[ShellInfo]:
        response = await self.call("GET", self._shells(session_id))
        return [parse_shell(one) for one in parse.parse_object(response, "shells")["shells"]]

    async def shell(self, session_id: str, shell_id: int) -> ShellInfo:
        response = await self.call("GET", self._shells(session_id, shell_id))
        return parse_shell(parse.parse_object(response, "shell_id"))

    async def run_in_shell(
        self, session_id: str, shell_id: int, command: str, timeout: float
    ) -> ShellRun:
        tag = new_tag()
        asked = {"command": command, "timeout": timeout, "tag": tag}
        target = self._shells(session_id, shell_id, "/run")
        try:
            # No limit of ours: it may wait for its turn behind others.
            response = await self.call("POST", target, asked, None)
        except SandboxError:
            raise
        except BaseException:
            await self.end_tagged(session_id, tag, interrupt=True)
            raise
        body = parse.parse_object(response, "exit_code", "shell")
        return parse_run(body, session_id)

    async def stream_in_shell(
        self, session_id: str, shell_id: int, command: str, timeout: float
    ) -> AsyncGenerator[Event, None]:
        tag = new_tag()
        asked = {"command": command, "timeout": timeout, "tag": tag, "stream": True}
        target = self._shells(session_id, shell_id, "/run")
        events = self.events_of(
            target, json.dumps(asked).encode(), JSON, session_id, tag, interrupt=True
        )
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    async def interrupt_shell(self, session_id: str, shell_id: int) -> None:
        await self.call("POST", self._shells(session_id, shell_id, "/interrupt"))

    async def close_shell(self, session_id: str, shell_id: int) -> None:
        await self.call("DELETE", self._shells(session_id, shell_id), None, KILL + MARGIN)


def parse_shell(body: Mapping[str, Any]) -> ShellInfo:
    return ShellInfo(
        shell_id=body["shell_id"],
        state=body.get("state", ""),
        cwd=body.get("cwd", ""),
        tag=body.get("tag", ""),
        generation=body.get("generation", 0),
        running=body.get("running"),
        waiting_runs=body.get("waiting_runs", 0),
        opened_at=body.get("opened_at", ""),
        pid=body.get("pid"),
    )


def parse_run(body: Mapping[str, Any], session_id: str) -> ShellRun:
    facts = body["shell"]
    return ShellRun(
        executed=parse.parse_executed(body, session_id),
        cwd=facts.get("cwd", ""),
        generation=facts.get("generation", 0),
        exited=facts.get("exited", False),
        respawned=facts.get("respawned", False),
        restored=facts.get("restored", ()),
    )
