# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by name. None of it needs a network library: in remote mode the classes below
are raised as subclasses that are also instances of the matching exception of ``requests``."""

from __future__ import annotations

from collections.abc import Sequence


class SandboxError(Exception):
    """The base of every error that this package raises on its own account."""


class SessionExpiredError(SandboxError):
    """The session does not exist (any more): it idled too long, was closed, or was never made."""


class CommandRefusedError(SandboxError, ValueError):
    """The policy of the session forbids the command. The text says what and why.

    ``forbidden_pattern`` is the pattern that it met, if it was one; ``offset`` is the place in the
    command, in bytes, if it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        command: str = "",
        forbidden_pattern: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.command = command
        self.forbidden_pattern = forbidden_pattern
        self.offset = offset


class InvalidRequestError(SandboxError, ValueError):
    """What was asked for can't be: a bad file name, a bad signal, a value out of range."""


class LimitExceededError(SandboxError, ValueError):
    """A file is too large, the workspace has too many files or bytes, the session is at its limit
    of processes, shells or contexts, or the key has had as many requests as it may."""


class CapacityError(SandboxError):
    """No sandbox is free at the moment ("Pool at max capacity"). Try again later."""


class ProcessNotFoundError(SandboxError, LookupError):
    """The session has no such process, shell or terminal (any more)."""


class ConflictError(SandboxError):
    """Not in this state: stdin is closed, the process has ended, the shell is busy."""


class EditError(ConflictError):
    """The text to replace is not there, or more than once: ``matches`` times, on these
    ``lines``."""

    matches: int = 0
    lines: Sequence[int] = ()


class AuthenticationError(SandboxError, PermissionError):
    """The server asks for an API key, and got none, or one that is not valid."""


class UnsupportedError(SandboxError, NotImplementedError):
    """This engine, or this server, can't do that."""


class UnreachableError(SandboxError, ConnectionError):
    """The server can't be reached, or went away in the middle of an answer."""


class ServerTimeoutError(SandboxError, TimeoutError):
    """The server did not answer in time. What was asked for may have happened."""


class ServerError(SandboxError):
    """The server refused, or failed, for a reason that has no class of its own."""


class ProtocolError(SandboxError):
    """The server answered something that no Threadbox server answers."""
