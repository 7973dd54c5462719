# SPDX-License-Identifier: Apache-2.0
# Made from _shells.py by tools/make_async.py: change that file, not this one.
"""The shells of a session, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from . import _core as core
from . import _validate as validate
from ._engine import DEFAULT_TIMEOUT, Event
from ._engine_shells import ShellInfo, ShellRun, ShellSpec


class AsyncShells:
    """Each keeps directory, variables and functions from one command to the next."""

    def __init__(self, session: core.SessionCore) -> None:
        self._session = session
        self._engine = core.shell_engine(session.engine)

    async def open(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        tag: str = "",
    ) -> AsyncShell:
        """A new bash that waits for commands."""
        spec = ShellSpec(
            None if cwd is None else validate.check_text(cwd, "cwd"),
            validate.check_env(env),
            validate.check_label(tag, "tag"),
        )
        info = await self._engine.open_shell(self._session.session_id, spec)
        return AsyncShell(self._session, info)

    async def list(self) -> list[AsyncShell]:
        listed = await self._engine.shells(self._session.session_id)
        return [AsyncShell(self._session, one) for one in listed]

    async def get(self, shell_id: int) -> AsyncShell:
        """Raises ``ProcessNotFoundError`` when there is none."""
        return AsyncShell(
            self._session, await self._engine.shell(self._session.session_id, shell_id)
        )


class AsyncShell:
    """One shell. ``async with`` closes it."""

    def __init__(self, session: core.SessionCore, info: ShellInfo) -> None:
        self._session, self.info = session, info
        self._engine, self._id = core.shell_engine(session.engine), session.session_id

    def __repr__(self) -> str:
        return f"<AsyncShell {self.shell_id} {self.info.state} in {self.info.cwd}>"

    @property
    def shell_id(self) -> int:
        return self.info.shell_id

    async def refresh(self) -> ShellInfo:
        self.info = await self._engine.shell(self._id, self.shell_id)
        return self.info

    async def run(self, command: str, timeout: float = DEFAULT_TIMEOUT) -> ShellRun:
        """Runs a command where the last one left off, when it is its turn. One that exits the
        shell, or has to be killed, costs the shell only what can't be restored: see
        ``ShellRun``."""
        command = validate.check_command(command)
        timeout = validate.check_timeout(timeout)
        return await self._engine.run_in_shell(self._id, self.shell_id, command, timeout)

    def stream(self, command: str, timeout: float = DEFAULT_TIMEOUT) -> AsyncGenerator[Event, None]:
        """The same as events; leaving early interrupts the command."""
        command = validate.check_command(command)
        timeout = validate.check_timeout(timeout)
        return self._engine.stream_in_shell(self._id, self.shell_id, command, timeout)

    async def interrupt(self) -> None:
        """Ctrl-C for the command that runs; ``ConflictError`` when none does."""
        await self._engine.interrupt_shell(self._id, self.shell_id)

    async def close(self) -> None:
        """Ends it with everything that it started."""
        await self._engine.close_shell(self._id, self.shell_id)

    async def __aenter__(self) -> AsyncShell:
        return self

    async def __aexit__(self, *_: object) -> None:
        await core.quietly(self._engine.close_shell(self._id, self.shell_id))
