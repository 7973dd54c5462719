# SPDX-License-Identifier: Apache-2.0
"""What can be refused without asking a server: ``ValueError`` (or ``TypeError``) before anything is
sent. The limits are the server's; it checks them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_NAME = 512
MAX_LABEL = 256
MAX_TIMEOUT = 86400.0
MAX_MINUTES = 7 * 24 * 60
MAX_CELLS = 10000
SIGNALS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "USR2": 12, "PIPE": 13,
    "ALRM": 14, "TERM": 15, "CONT": 18, "STOP": 19, "TSTP": 20, "WINCH": 28,
}  # fmt: skip


def check_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    return value


def check_command(command: object) -> str:
    text = check_text(command, "command")
    if not text.strip():
        raise ValueError("Empty command")
    if "\0" in text:
        raise ValueError("a command can't contain NUL bytes")
    return text


def check_argv(argv: Sequence[str]) -> list[str]:
    if isinstance(argv, str):
        raise TypeError("argv must be a list of str; a command line is given as command")
    words = [check_text(word, "each word of argv") for word in argv]
    if not words or not words[0]:
        raise ValueError("argv must name a program")
    if any("\0" in word for word in words):
        raise ValueError("a command can't contain NUL bytes")
    return words


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a number, not {type(value).__name__}")
    return value


def check_timeout(timeout: object) -> float:
    seconds = _number(timeout, "timeout")
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ValueError(f"timeout must be more than 0 and at most {MAX_TIMEOUT:g} seconds")
    return seconds


def check_minutes(timeout_minutes: object) -> float:
    minutes = _number(timeout_minutes, "timeout_minutes")
    if not 0 < minutes <= MAX_MINUTES:
        raise ValueError(f"timeout_minutes must be more than 0 and at most {MAX_MINUTES}")
    return minutes


def check_name(name: object, what: str) -> str:
    """A thread or a user."""
    text = check_text(name, what)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_NAME:
        raise ValueError(f"{what} is longer than {MAX_NAME} bytes")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ValueError(f"{what} contains control characters")
    return text


def check_label(label: object, what: str) -> str:
    text = check_text(label, what)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_LABEL:
        raise ValueError(f"{what} is longer than {MAX_LABEL} bytes")
    return text


def check_env(env: Mapping[str, str] | None) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, value in (env or {}).items():
        check_text(name, "each name in env")
        check_text(value, f"env[{name!r}]")
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise ValueError(f"env can't contain {name!r} with that value")
        checked[name] = value
    return checked


def check_filename(name: object) -> str:
    """Relative to the workspace, and below it."""
    text = check_text(name, "a file name")
    parts = text.split("/")
    if not text or text.startswith("/") or text.endswith("/") or ".." in parts or "\0" in text:
        raise ValueError(
            f"Invalid filename {text!r}: give a path relative to the workspace, without '..'"
        )
    return text


def check_path(path: object) -> str:
    """Of the workspace: relative to it, or beginning with /workspace; empty is the workspace."""
    text = check_text(path, "a path")
    absolute = text.startswith("/") and text != "/workspace" and not text.startswith("/workspace/")
    if absolute or ".." in text.split("/") or "\0" in text:
        raise ValueError(f"Invalid path {text!r}: give one relative to the workspace, without '..'")
    return text


def check_size(rows: object, cols: object) -> tuple[int, int]:
    for what, value in (("rows", rows), ("cols", cols)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{what} must be an int, not {type(value).__name__}")
        if not 1 <= value <= MAX_CELLS:
            raise ValueError(f"{what} must be from 1 to {MAX_CELLS}")
    assert isinstance(rows, int) and isinstance(cols, int)  # noqa: S101
    return rows, cols


def check_signal(signal: str | int) -> int:
    """The number of a signal that is given as TERM, SIGTERM or 15."""
    if isinstance(signal, str):
        number = SIGNALS.get(signal.upper().removeprefix("SIG"))
        if number is None:
            raise ValueError(f"unknown signal {signal!r}; known: {', '.join(SIGNALS)}, or a number")
        return number
    number = int(signal)  # signal.SIGTERM too
    if not 1 <= number <= 64:
        raise ValueError("a signal must be from 1 to 64")
    return number


def check_offset(offset: object, what: str = "offset") -> int:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"{what} must be an int, not {type(offset).__name__}")
    if offset < 0:
        raise ValueError(f"{what} must not be negative")
    return offset
