# SPDX-License-Identifier: Apache-2.0
"""Shells of local sessions."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncGenerator, Sequence

from . import _local_values as values
from ._engine import Event, Exited
from ._engine_shells import ShellInfo, ShellRun, ShellSpec
from ._errors import SandboxError
from ._local_base import LocalBase


class LocalShells(LocalBase):
    async def open_shell(self, session_id: str, spec: ShellSpec) -> ShellInfo:
        view = await self.call("open_shell", session_id, spec.cwd, dict(spec.env), spec.tag)
        return values.shell_info(view)

    async def shells(self, session_id: str) -> Sequence[ShellInfo]:
        return [values.shell_info(view) for view in await self.call("shells", session_id)]

    async def shell(self, session_id: str, shell_id: int) -> ShellInfo:
        return values.shell_info(await self.call("shell", session_id, shell_id))

    async def run_in_shell(
        self, session_id: str, shell_id: int, command: str, timeout: float
    ) -> ShellRun:
        answer = await self.call("run_in_shell", session_id, shell_id, command, timeout)
        return values.shell_run(answer, session_id, timeout)

    async def stream_in_shell(
        self, session_id: str, shell_id: int, command: str, timeout: float
    ) -> AsyncGenerator[Event, None]:
        view = await self.call("start_in_shell", session_id, shell_id, command, timeout)
        ended = False
        async with contextlib.aclosing(self.events_of(session_id, view[0])) as events:
            try:
                async for event in events:
                    ended = isinstance(event, Exited)
                    yield event
            finally:
                if not ended:
                    # It may have ended meanwhile, and its session too.
                    with contextlib.suppress(SandboxError):
                        await self.call("signal", session_id, view[0], int(signal.SIGINT), True)

    async def interrupt_shell(self, session_id: str, shell_id: int) -> None:
        await self.call("interrupt_shell", session_id, shell_id)

    async def close_shell(self, session_id: str, shell_id: int) -> None:
        await self.call("close_shell", session_id, shell_id)
