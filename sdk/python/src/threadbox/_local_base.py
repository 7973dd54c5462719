# SPDX-License-Identifier: Apache-2.0
"""Calls of the native library, and what their failures are called."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

from . import _local_values as values
from ._engine import Event, Exited, Started
from ._errors import SandboxError
from ._local_calls import LoopCalls
from ._local_output import Cutter
from ._native import Engine as NativeEngine
from ._native import EngineError

HALF = 1.0  # seconds that half a character waits for its other half

_ending = threading.Event()  # the interpreter


def interpreter_ends() -> None:
    """Only daemon threads are left beside the main one. Their calls fail as the engines close, and
    nobody wants to read of that."""
    _ending.set()


def _leave_quietly() -> None:
    if _ending.is_set() and threading.current_thread() is not threading.main_thread():
        raise SystemExit


class LocalBase:
    def __init__(self, native: NativeEngine, calls: LoopCalls | None) -> None:
        self.blocking = calls is None
        self._native = native
        self._calls = calls
        self._facts: dict[str, Any] = native.facts()

    async def call(
        self,
        operation: str,
        *arguments: object,
        name: str = "",
        translate: Callable[[EngineError, str], SandboxError] = values.translate,
    ) -> Any:
        """``name`` is the file that an error is about."""
        try:
            if self._calls is None:
                # Sleeps without the GIL. Not by way of a coroutine of its own: a command is short.
                return self._native.call(operation, *arguments)
            return await self._calls(operation, *arguments)
        except EngineError as problem:
            _leave_quietly()
            raise translate(problem, name) from None

    async def events_of(self, session_id: str, number: int) -> AsyncGenerator[Event, None]:
        """A process that has just been started, to its end."""
        cutters = [Cutter("stdout"), Cutter("stderr")]
        yield Started(number)
        ended = False
        while not ended:
            wait = HALF if any(cutter.half for cutter in cutters) else None
            offsets = [cutter.offset for cutter in cutters]
            *pages, ended, view = await self.call("follow", session_id, number, *offsets, wait)
            idle = not any(page[1] for page in pages)
            for cutter, page in zip(cutters, pages, strict=True):
                piece = cutter.cut(page, all=ended or idle)
                if piece is not None:
                    yield piece
        yield Exited(values.process_info(view))
