# SPDX-License-Identifier: Apache-2.0
"""Local mode: the engine of the server in this process. No HTTP, no JSON; a keeper program beside
us builds the sandboxes, and serves every process that names the same state directory."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from . import _local_values as values
from ._engine import (
    Channel,
    Command,
    Event,
    Executed,
    Exited,
    Output,
    OutputPage,
    ProcessInfo,
    ProcessSpec,
    SessionInfo,
    SessionSpec,
    Stream,
)
from ._local_base import HALF, interpreter_ends
from ._local_calls import LoopCalls
from ._local_code import LocalCode
from ._local_files import PIECE, LocalFiles
from ._local_output import Cutter, LocalChannel
from ._local_shells import LocalShells
from ._native import Engine as NativeEngine
from ._native import EngineError
from ._program import find_program
from ._validate import check_signal

SIGN = 15.0  # seconds after which a wait for output begins anew


class LocalEngine(LocalFiles, LocalShells, LocalCode):
    """See ``Engine``."""

    # ---- sessions ----

    async def find_session(self, thread_id: str) -> SessionInfo | None:
        found = await self.call("find_session", thread_id)
        if found is None:
            return None
        view, files = found
        return values.session_info(view, self._facts["worker"], files)

    async def create_session(self, spec: SessionSpec) -> SessionInfo:
        seconds = spec.timeout_minutes * 60
        view = await self.call("create_session", spec.user_id, spec.thread_id, spec.policy, seconds)
        return values.session_info(view, self._facts["worker"])

    async def session_status(self, session_id: str) -> SessionInfo:
        return values.status_info(await self.call("session_status", session_id), self._facts)

    async def close_session(self, session_id: str) -> None:
        await self.call("close_session", session_id)

    # ---- commands ----

    def check_command(self, policy: str, command: str) -> None:
        """Nothing: the start is no further away, and checks it with the session's own policy."""

    async def execute(self, session_id: str, command: Command) -> Executed:
        answer = await self.call("execute", session_id, *_fields(command))
        return values.executed(answer, session_id, command.timeout)

    async def stream(self, session_id: str, command: Command) -> AsyncGenerator[Event, None]:
        nothing = (None, False, None, "", "")
        view = await self.call("start", session_id, *_fields(command), *nothing)
        ended = False
        async with contextlib.aclosing(self.events_of(session_id, view[0])) as events:
            try:
                async for event in events:
                    ended = isinstance(event, Exited)
                    yield event
            finally:
                if not ended:
                    await self.call("kill", session_id, view[0])

    # ---- processes ----

    async def start(self, session_id: str, spec: ProcessSpec) -> ProcessInfo:
        view = await self.call(
            "start",
            session_id,
            spec.command or "",
            spec.timeout,
            spec.cwd,
            dict(spec.env),
            spec.stdin,
            spec.argv,
            spec.stdin_open,
            spec.pty,
            spec.tag,
            spec.idempotency_key or "",
        )
        return values.process_info(view)

    async def processes(self, session_id: str) -> Sequence[ProcessInfo]:
        return [values.process_info(view) for view in await self.call("processes", session_id)]

    async def process(self, session_id: str, process_id: int) -> ProcessInfo:
        return values.process_info(await self.call("process", session_id, process_id))

    async def output(
        self, session_id: str, process_id: int, stream: Stream, offset: int, limit: int | None
    ) -> OutputPage:
        most = PIECE if limit is None else min(limit, PIECE)
        page = await self.call("output", session_id, process_id, stream, offset, most, None)
        return values.output_page(page)

    async def follow(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> AsyncGenerator[Output | Exited, None]:
        cutter = Cutter(stream, offset)
        more = True
        while more:
            wait = HALF if cutter.half else SIGN
            page = await self.call(
                "output", session_id, process_id, stream, cutter.offset, PIECE, wait
            )
            more = page[3] or bool(page[1])
            piece = cutter.cut(page, all=not more or (cutter.half and not page[1]))
            if piece is not None:
                yield piece
        yield Exited(values.process_info(await self.call("wait", session_id, process_id)))

    async def write_stdin(self, session_id: str, process_id: int, data: bytes) -> int:
        await self.call("write_stdin", session_id, process_id, bytes(data))
        return len(data)

    async def close_stdin(self, session_id: str, process_id: int) -> None:
        await self.call("close_stdin", session_id, process_id)

    async def signal(
        self, session_id: str, process_id: int, signal: str | int, tree: bool
    ) -> ProcessInfo:
        number = check_signal(signal)
        return values.process_info(await self.call("signal", session_id, process_id, number, tree))

    async def resize(self, session_id: str, process_id: int, rows: int, cols: int) -> ProcessInfo:
        return values.process_info(await self.call("resize", session_id, process_id, rows, cols))

    async def kill(self, session_id: str, process_id: int) -> ProcessInfo:
        return values.process_info(await self.call("kill", session_id, process_id))

    async def attach(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> Channel:
        return LocalChannel(self, session_id, await self.process(session_id, process_id), stream,
                            offset)  # fmt: skip

    # ---- the engine itself ----

    async def health(self) -> Mapping[str, Any]:
        return values.health(await self.call("health"), self._facts)

    async def close(self) -> None:
        """Sessions stay; the last client of a state directory ends the engine's thread."""
        _give_back(self._native)


def _fields(command: Command) -> tuple[object, ...]:
    return command.command, command.timeout, command.cwd, dict(command.env), command.stdin


# ---- engines of this process: one for each set of settings ----

_lock = threading.Lock()
_engines: dict[tuple[tuple[str, str], ...], NativeEngine] = {}
_users: dict[int, int] = {}  # by id of the engine


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603  (another thread of the parent may hold it)
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def open_engine(*, blocking: bool = True, **settings: object) -> LocalEngine:
    """``settings`` are those of ``threadbox serve``, in lower case: ``state_dir``, ``pool_size``,
    ``memory_limit`` and so on. Clients with the same ones share an engine."""
    given = {name.upper(): _as_text(value) for name, value in settings.items() if value is not None}
    key = tuple(sorted(given.items()))
    with _lock:
        native = _engines.get(key)
        if native is None:
            try:
                native = _engines[key] = NativeEngine(find_program(), given)
            except EngineError as problem:
                raise values.translate(problem) from None
        _users[id(native)] = _users.get(id(native), 0) + 1
    return LocalEngine(native, None if blocking else LoopCalls(native))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(str(part) for part in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _give_back(native: NativeEngine) -> None:
    with _lock:
        left = _users.get(id(native), 0) - 1
        if left > 0:
            _users[id(native)] = left
            return
        _users.pop(id(native), None)
        for key, engine in list(_engines.items()):
            if engine is native:
                del _engines[key]
    native.close()


@atexit.register
def _close_all() -> None:
    """Before the interpreter ends: then nothing of the library runs any more."""
    interpreter_ends()
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()
