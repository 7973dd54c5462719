# SPDX-License-Identifier: Apache-2.0
"""Code of local sessions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Sequence

from . import _engine_code as code
from ._engine_code import Cell, CodeEvent, ContextInfo, ContextSpec, Execution
from ._errors import SandboxError
from ._local_base import LocalBase


class LocalCode(LocalBase):
    async def run_code(self, session_id: str, cell: Cell) -> Execution:
        return code.parse_execution(
            json.loads(await self.call("run_code", session_id, *words(cell)))
        )

    async def stream_code(self, session_id: str, cell: Cell) -> AsyncGenerator[CodeEvent, None]:
        handle = await self.call("begin_code", session_id, *words(cell))
        try:
            while lines := await self.call("next_code", handle):
                for line in lines.splitlines():
                    event = code.parse_event(json.loads(line))
                    if event is not None:
                        yield event
        finally:
            # The session may have ended meanwhile.
            with contextlib.suppress(SandboxError):
                await self.call("end_code", handle)

    async def create_context(self, session_id: str, spec: ContextSpec) -> ContextInfo:
        made = await self.call(
            "create_context", session_id, spec.language, spec.cwd, dict(spec.env)
        )
        return code.parse_context(json.loads(made))

    async def contexts(self, session_id: str) -> Sequence[ContextInfo]:
        listed = json.loads(await self.call("contexts", session_id))
        return [code.parse_context(one) for one in listed]

    async def context(self, session_id: str, context_id: str) -> ContextInfo:
        return code.parse_context(json.loads(await self.call("context", session_id, context_id)))

    async def restart_context(self, session_id: str, context_id: str) -> ContextInfo:
        told = await self.call("restart_context", session_id, context_id)
        return code.parse_context(json.loads(told))

    async def interrupt_context(self, session_id: str, context_id: str) -> None:
        await self.call("interrupt_context", session_id, context_id)

    async def remove_context(self, session_id: str, context_id: str) -> None:
        await self.call("remove_context", session_id, context_id)


def words(cell: Cell) -> tuple[object, ...]:
    return cell.code, cell.language, cell.context_id, dict(cell.env), cell.timeout
