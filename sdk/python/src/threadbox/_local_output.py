# SPDX-License-Identifier: Apache-2.0
"""Output of local processes: pieces that are cut between characters, and channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _local_values as values
from ._engine import Exited, Output, ProcessInfo, Stream

if TYPE_CHECKING:
    from ._local import LocalEngine

PIECE = 1 << 16
SIGN = 15.0


def unfinished(data: bytes) -> int:
    """How many bytes at the end may be the beginning of a character."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2
            return back if length > back else 0
    return 0


class Cutter:
    """Makes pieces of pages of a stream. ``offset`` is where to read next."""

    def __init__(self, stream: Stream, offset: int = 0) -> None:
        self.stream = stream
        self.offset = offset
        self._kept = b""

    @property
    def half(self) -> bool:
        return bool(self._kept)

    def cut(self, page: tuple[Any, ...], all: bool) -> Output | None:
        """``all``: also what may be half a character; nothing else will come soon."""
        offset, data, _, _, dropped, _ = page
        if dropped:
            self._kept = b""  # its other half is not there any more
        data = self._kept + data
        offset -= len(self._kept)
        self.offset = offset + len(data)
        half = 0 if all else unfinished(data)
        self._kept = data[len(data) - half :]
        data = data[: len(data) - half]
        return Output(self.stream, offset, data, dropped) if data or dropped else None


class LocalChannel:
    """See ``Channel``. What is refused raises at once."""

    def __init__(
        self,
        engine: LocalEngine,
        session_id: str,
        process: ProcessInfo,
        stream: Stream,
        offset: int,
    ) -> None:
        self.process = process
        self.offset = offset
        self._engine = engine
        self._where = (session_id, process.process_id)
        self._stream = stream
        self._over = False

    async def receive(self, timeout: float | None = None) -> Output | Exited | None:
        while not self._over:
            wait = SIGN if timeout is None else timeout
            page = await self._engine.call(
                "output", *self._where, self._stream, self.offset, PIECE, wait
            )
            offset, data, _, more, dropped, _ = page
            if data or dropped:
                self.offset = offset + len(data)
                return Output(self._stream, offset, data, dropped)
            if not more:
                self._over = True
                return Exited(values.process_info(await self._engine.call("wait", *self._where)))
            if timeout is not None:
                raise TimeoutError(f"nothing was printed for {timeout:g} seconds")
        return None

    async def send(self, data: bytes) -> None:
        await self._engine.write_stdin(*self._where, data)

    async def close_stdin(self) -> None:
        await self._engine.close_stdin(*self._where)

    async def resize(self, rows: int, cols: int) -> None:
        await self._engine.resize(*self._where, rows, cols)

    async def signal(self, signal: str | int, tree: bool = True) -> None:
        await self._engine.signal(*self._where, signal, tree)

    async def close(self) -> None:
        self._over = True
