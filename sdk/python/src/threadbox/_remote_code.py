# SPDX-License-Identifier: Apache-2.0
"""Code of a server's sessions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import quote

from . import _engine_code as code
from . import _parse as parse
from ._engine_code import Cell, CodeEvent, ContextInfo, ContextSpec, Execution
from ._errors import SandboxError
from ._http import Answer, nonsense
from ._remote_base import CREATE, JSON, KILL, RemoteBase
from ._remote_commands import MARGIN

START = 60.0  # of an interpreter


class RemoteCode(RemoteBase):
    def _contexts(self, session_id: str, context_id: str | None = None, more: str = "") -> str:
        base = f"/api/sessions/{quote(session_id, safe='')}/contexts"
        return base if context_id is None else f"{base}/{quote(context_id, safe='')}{more}"

    async def run_code(self, session_id: str, cell: Cell) -> Execution:
        target = f"/api/sessions/{quote(session_id, safe='')}/code"
        try:
            # No limit of ours: it may wait for its turn behind others.
            response = await self.call("POST", target, request_of(cell), None)
        except SandboxError:
            raise
        except BaseException:
            await self._give_up(session_id, cell)
            raise
        return code.parse_execution(parse.parse_object(response, "stdout", "stderr", "results"))

    async def _give_up(self, session_id: str, cell: Cell) -> None:
        """The caller was interrupted or cancelled: the code has nobody any more."""
        usual = {"py": "python", "js": "javascript", "sh": "bash"}
        language = cell.language or "python"
        # The interruption matters more; the code's own timeout ends it.
        with contextlib.suppress(Exception):
            named = cell.context_id or usual.get(language, language)
            await self.interrupt_context(session_id, named)

    async def stream_code(self, session_id: str, cell: Cell) -> AsyncGenerator[CodeEvent, None]:
        """Who closes it interrupts the code: the server notices."""
        target = f"/api/sessions/{quote(session_id, safe='')}/code"
        body = json.dumps({**request_of(cell), "stream": True}).encode()
        answer: Answer = await self.open("POST", target, body, JSON)
        ended = False
        try:
            async with contextlib.aclosing(self._lines(answer)) as lines:
                async for line in lines:
                    event = self._code_event(line) if line else None
                    ended = isinstance(event, Execution)
                    if event is not None:
                        yield event
            if not ended:
                raise self._cut_off()
        finally:
            answer.close()

    def _code_event(self, line: bytes) -> CodeEvent | None:
        try:
            return code.parse_event(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise nonsense(self.http.url, f"the line {line[:80]!r}") from None

    async def create_context(self, session_id: str, spec: ContextSpec) -> ContextInfo:
        body: dict[str, Any] = {"language": spec.language, "env": dict(spec.env)}
        if spec.cwd is not None:
            body["cwd"] = spec.cwd
        response = await self.call("POST", self._contexts(session_id), body, START + CREATE)
        return code.parse_context(parse.parse_object(response, "context_id"))

    async def contexts(self, session_id: str) -> Sequence[ContextInfo]:
        response = await self.call("GET", self._contexts(session_id))
        listed = parse.parse_object(response, "contexts")["contexts"]
        return [code.parse_context(one) for one in listed]

    async def context(self, session_id: str, context_id: str) -> ContextInfo:
        response = await self.call("GET", self._contexts(session_id, context_id))
        return code.parse_context(parse.parse_object(response, "context_id"))

    async def restart_context(self, session_id: str, context_id: str) -> ContextInfo:
        target = self._contexts(session_id, context_id, "/restart")
        response = await self.call("POST", target, None, START + CREATE)
        return code.parse_context(parse.parse_object(response, "context_id"))

    async def interrupt_context(self, session_id: str, context_id: str) -> None:
        await self.call("POST", self._contexts(session_id, context_id, "/interrupt"))

    async def remove_context(self, session_id: str, context_id: str) -> None:
        await self.call("DELETE", self._contexts(session_id, context_id), None, KILL + MARGIN)


def request_of(cell: Cell) -> dict[str, Any]:
    body: dict[str, Any] = {"code": cell.code, "timeout": cell.timeout}
    if cell.language is not None:
        body["language"] = cell.language
    if cell.context_id is not None:
        body["context_id"] = cell.context_id
    if cell.env:
        body["env"] = dict(cell.env)
    return body
