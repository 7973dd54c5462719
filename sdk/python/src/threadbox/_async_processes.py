# SPDX-License-Identifier: Apache-2.0
# Made from _processes.py by tools/make_async.py: change that file, not this one.
"""The processes of a session, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from . import _core as core
from . import _validate as validate
from ._engine import Channel, Ended, Exited, Output, ProcessInfo, Stream


class AsyncProcesses:
    """The processes of one session: ``start``, ``list``, ``get``."""

    def __init__(self, session: core.SessionCore) -> None:
        self._session = session

    async def start(
        self,
        command: str | None = None,
        *,
        argv: list[str] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        tag: str = "",
        stdin: str = "",
        stdin_open: bool = False,
        pty: bool = False,
        rows: int = 24,
        cols: int = 80,
        idempotency_key: str | None = None,
    ) -> AsyncProcess:
        """Starts bash text, or ``argv`` without a shell, and returns as soon as it runs.

        It goes on without anybody's connection, also over a restart of the server, until it ends
        or ``timeout`` seconds are over (none unless told). ``stdin_open`` keeps its stdin open
        for ``write``; ``pty`` gives it a terminal, if the session's policy has them. With an
        ``idempotency_key`` the start may be repeated: the process of the first one is answered.
        """
        spec = core.make_process(
            command, argv, cwd, env, timeout, tag, stdin, stdin_open, pty, rows, cols,
            idempotency_key,
        )  # fmt: skip
        return AsyncProcess(self._session, await self._session.start(spec))

    async def list(self) -> list[AsyncProcess]:
        """Those that run and the latest that ended, commands of ``execute`` among them."""
        session = self._session
        listed = await session.engine.processes(session.session_id)
        return [AsyncProcess(session, one) for one in listed]

    async def get(self, process_id: int) -> AsyncProcess:
        """Raises ``ProcessNotFoundError`` when there is none."""
        session = self._session
        return AsyncProcess(session, await session.engine.process(session.session_id, process_id))


class AsyncProcess:
    """A process in the sandbox. ``info`` is what was known last; ``refresh`` asks again."""

    def __init__(self, session: core.SessionCore, info: ProcessInfo) -> None:
        self._session, self.info = session, info
        self._engine, self._id = session.engine, session.session_id

    def __repr__(self) -> str:
        return f"<AsyncProcess {self.process_id} {self.info.state}: {self.info.command!r}>"

    @property
    def process_id(self) -> int:
        return self.info.process_id

    @property
    def running(self) -> bool:
        return self.info.ended is None

    @property
    def exit_code(self) -> int | None:
        return None if self.info.ended is None else self.info.ended.exit_code

    async def refresh(self) -> ProcessInfo:
        self.info = await self._engine.process(self._id, self.process_id)
        return self.info

    async def wait(self) -> Ended:
        """Waits until it has ended, and says how."""
        self.info = await self._session.wait(self.process_id)
        assert self.info.ended is not None  # noqa: S101
        return self.info.ended

    async def output(self, stream: Stream = "all", offset: int = 0) -> bytes:
        """The exact bytes that it has printed so far, from an offset on."""
        offset = validate.check_offset(offset)
        return await self._session.read_output(self.process_id, stream, offset)

    def follow(
        self, stream: Stream = "all", offset: int = 0
    ) -> AsyncGenerator[Output | Exited, None]:
        """What it prints, from an offset on, until it has ended. Comes back by itself after a lost
        connection; leaving ends nothing."""
        offset = validate.check_offset(offset)
        return self._engine.follow(self._id, self.process_id, stream, offset)

    async def write(self, data: bytes | str) -> int:
        """Writes to its stdin; returns when the process's pipe took all of it."""
        raw = data.encode() if isinstance(data, str) else bytes(data)
        return await self._engine.write_stdin(self._id, self.process_id, raw)

    async def close_stdin(self) -> None:
        """The end of its input; on a terminal: Ctrl-D."""
        await self._engine.close_stdin(self._id, self.process_id)

    async def signal(self, signal: str | int, *, tree: bool = True) -> None:
        """Sends a signal (``"TERM"``, ``signal.SIGINT``, 9) to it and all that it started, or with
        ``tree=False`` to itself only."""
        number = validate.check_signal(signal)
        self.info = await self._engine.signal(self._id, self.process_id, number, tree)

    async def resize(self, rows: int, cols: int) -> None:
        """The size of its terminal."""
        rows, cols = validate.check_size(rows, cols)
        self.info = await self._engine.resize(self._id, self.process_id, rows, cols)

    async def kill(self) -> Ended | None:
        """Kills it with all that it started, and says how it ended; its output stays."""
        self.info = await self._engine.kill(self._id, self.process_id)
        return self.info.ended

    async def attach(self, stream: Stream = "all", offset: int = 0) -> AsyncAttachment:
        """Both ways at once: its output comes, input goes. For terminals."""
        offset = validate.check_offset(offset)
        return AsyncAttachment(await self._engine.attach(self._id, self.process_id, stream, offset))


class AsyncAttachment:
    """Attached to a process; iterate over it, or ``receive``. One task may receive while
    another one sends. Closing ends nothing."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def process(self) -> ProcessInfo:
        return self._channel.process

    async def receive(self, timeout: float | None = None) -> Output | Exited | None:
        """The next bytes; ``Exited`` when it ended; None after that. ``TimeoutError`` when
        nothing came in so many seconds."""
        return await self._channel.receive(timeout)

    async def send(self, data: bytes | str) -> None:
        await self._channel.send(data.encode() if isinstance(data, str) else bytes(data))

    async def close_stdin(self) -> None:
        await self._channel.close_stdin()

    async def resize(self, rows: int, cols: int) -> None:
        await self._channel.resize(*validate.check_size(rows, cols))

    async def signal(self, signal: str | int, *, tree: bool = True) -> None:
        await self._channel.signal(validate.check_signal(signal), tree)

    async def close(self) -> None:
        await self._channel.close()

    async def __aiter__(self) -> AsyncGenerator[Output | Exited, None]:
        while (event := await self._channel.receive()) is not None:
            yield event

    async def __aenter__(self) -> AsyncAttachment:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()
