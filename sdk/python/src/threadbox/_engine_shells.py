# SPDX-License-Identifier: Apache-2.0
"""The seam for shells that keep their state between commands. The rules are those of ``Engine``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ._engine import Event, Executed


@dataclass(frozen=True)
class ShellSpec:
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""


@dataclass(frozen=True)
class ShellInfo:
    """A shell. ``generation`` grows when its bash had to be started anew."""

    shell_id: int
    state: str  # waiting, running, dead
    cwd: str = ""
    tag: str = ""
    generation: int = 0
    running: int | None = None  # the process of the command that runs
    waiting_runs: int = 0
    opened_at: str = ""
    pid: int | None = None


@dataclass(frozen=True)
class ShellRun:
    """What a command of a shell answered, and how it left the shell: where it stands, whether it
    ``exited`` or had to be ``respawned``, and what of its state was then ``restored``."""

    executed: Executed
    cwd: str
    generation: int = 0
    exited: bool = False
    respawned: bool = False
    restored: Sequence[str] = ()


class ShellEngine(Protocol):
    async def open_shell(self, session_id: str, spec: ShellSpec) -> ShellInfo: ...

    async def shells(self, session_id: str) -> Sequence[ShellInfo]: ...

    async def shell(self, session_id: str, shell_id: int) -> ShellInfo: ...

    async def run_in_shell(
        self, session_id: str, shell_id: int, command: str, timeout: float
    ) -> ShellRun:
        """Waits for its turn. Abandoned, the command is interrupted; the shell lives on."""
        ...

    def stream_in_shell(
        self, session_id: str, shell_id: int, command: str, timeout: float
    ) -> AsyncGenerator[Event, None]: ...

    async def interrupt_shell(self, session_id: str, shell_id: int) -> None: ...

    async def close_shell(self, session_id: str, shell_id: int) -> None: ...
