# SPDX-License-Identifier: Apache-2.0
"""The server's own parser of commands, if this installation has it. Without it the server tells."""

from __future__ import annotations

from collections.abc import Callable

from ._errors import CommandRefusedError

Check = Callable[[str, str], object]


def _find_check() -> Check | None:
    try:
        from . import _native  # type: ignore[attr-defined,unused-ignore]  # noqa: PLC0415
    except ImportError:
        return None
    found: Check | None = getattr(_native, "check_command", None)
    return found


_check = _find_check()


def check_command(policy: str, command: str) -> None:
    """Raises ``CommandRefusedError`` for what a known policy surely forbids."""
    if _check is None or not policy:
        return
    refused = _check(policy, command)
    if refused:
        raise CommandRefusedError(str(refused), command=command)
