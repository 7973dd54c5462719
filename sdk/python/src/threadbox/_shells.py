# SPDX-License-Identifier: Apache-2.0
"""The shells of a session, for blocking callers."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from . import _core as core
from . import _validate as validate
from ._engine import DEFAULT_TIMEOUT, Event, iterate, run
from ._engine_shells import ShellInfo, ShellRun, ShellSpec


class Shells:
    """Each keeps directory, variables and functions from one command to the next."""

    def __init__(self, session: core.SessionCore) -> None:
        self._session = session
        self._engine = core.shell_engine(session.engine)

    def open(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        tag: str = "",
    ) -> Shell:
        """A new bash that waits for commands."""
        spec = ShellSpec(
            None if cwd is None else validate.check_text(cwd, "cwd"),
            validate.check_env(env),
            validate.check_label(tag, "tag"),
        )
        info = run(self._engine.open_shell(self._session.session_id, spec))
        return Shell(self._session, info)

    def list(self) -> list[Shell]:
        listed = run(self._engine.shells(self._session.session_id))
        return [Shell(self._session, one) for one in listed]

    def get(self, shell_id: int) -> Shell:
        """Raises ``ProcessNotFoundError`` when there is none."""
        return Shell(self._session, run(self._engine.shell(self._session.session_id, shell_id)))


class Shell:
    """One shell. ``with`` closes it."""

    def __init__(self, session: core.SessionCore, info: ShellInfo) -> None:
        self._session, self.info = session, info
        self._engine, self._id = core.shell_engine(session.engine), session.session_id

    def __repr__(self) -> str:
        return f"<Shell {self.shell_id} {self.info.state} in {self.info.cwd}>"

    @property
    def shell_id(self) -> int:
        return self.info.shell_id

    def refresh(self) -> ShellInfo:
        self.info = run(self._engine.shell(self._id, self.shell_id))
        return self.info

    def run(self, command: str, timeout: float = DEFAULT_TIMEOUT) -> ShellRun:
        """Runs a command where the last one left off, when it is its turn. One that exits the
        shell, or has to be killed, costs the shell only what can't be restored: see
        ``ShellRun``."""
        command = validate.check_command(command)
        timeout = validate.check_timeout(timeout)
        return run(self._engine.run_in_shell(self._id, self.shell_id, command, timeout))

    def stream(
        self, command: str, timeout: float = DEFAULT_TIMEOUT
    ) -> Generator[Event, None, None]:
        """The same as events; leaving early interrupts the command."""
        command = validate.check_command(command)
        timeout = validate.check_timeout(timeout)
        return iterate(self._engine.stream_in_shell(self._id, self.shell_id, command, timeout))

    def interrupt(self) -> None:
        """Ctrl-C for the command that runs; ``ConflictError`` when none does."""
        run(self._engine.interrupt_shell(self._id, self.shell_id))

    def close(self) -> None:
        """Ends it with everything that it started."""
        run(self._engine.close_shell(self._id, self.shell_id))

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        run(core.quietly(self._engine.close_shell(self._id, self.shell_id)))
