# SPDX-License-Identifier: Apache-2.0
"""The ``threadbox`` program that this installation carries: local mode's keeper, and the server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ._errors import UnsupportedError


def find_program() -> str:
    """Where it is; ``THREADBOX_PROGRAM`` names another one."""
    named = os.environ.get("THREADBOX_PROGRAM")
    path = Path(named) if named else Path(__file__).parent / "_bin" / "threadbox"
    if not os.access(path, os.X_OK):
        raise UnsupportedError(f"there is no program {path}: install the package as a wheel")
    return str(path)


def main() -> None:
    program = find_program()
    os.execv(program, ["threadbox", *sys.argv[1:]])  # noqa: S606  (that is its purpose)
