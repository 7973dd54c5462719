# SPDX-License-Identifier: Apache-2.0
"""The server's own parser of commands, if this installation has it, to refuse without asking.

The server is the authority: its policies may be other ones of the same name, or newer. So what the
parser here says counts only if the server has once refused something for the same reason; a
whitelist's reason names the whole list.
"""

from __future__ import annotations

import re
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


def _reason(message: str) -> str:
    """Without the word that happened to be refused."""
    return re.sub(r"^Command '.*?' not in", "Command not in", message, flags=re.DOTALL)


class PolicyChecks:
    """What a server is known to refuse."""

    def __init__(self, check: Check | None = None) -> None:
        self._check = check or _find_check()
        self._confirmed: set[tuple[str, str]] = set()

    def check(self, policy: str, command: str) -> None:
        """Raises ``CommandRefusedError`` for what the server would surely refuse."""
        if self._check is None or not self._confirmed:
            return
        refused = self._check(policy, command)
        if refused and (policy, _reason(str(refused))) in self._confirmed:
            raise CommandRefusedError(str(refused), command=command)

    def confirm(self, policy: str, problem: CommandRefusedError) -> None:
        """The server refused something."""
        if self._check is not None:
            self._confirmed.add((policy, _reason(str(problem))))
