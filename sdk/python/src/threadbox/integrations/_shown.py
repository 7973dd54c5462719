# SPDX-License-Identifier: Apache-2.0
"""Paths, pages and errors as deepagents and its models know them."""

from __future__ import annotations

import mimetypes
import posixpath

from deepagents.backends.protocol import FileData, ReadResult
from deepagents.backends.protocol import FileInfo as Entry

from .. import ExecuteResult, FileInfo

WORKSPACE = "/workspace"
PUT_ASIDE = ("large_tool_results", "conversation_history", "blobs")
ASIDE = ".agent"
MAX_TEXT = 500 * 1024  # of one page of lines
CUT = (
    "\n\n[Output was truncated due to size limits. Continue reading with a larger offset or "
    "smaller limit to inspect the rest of the file.]"
)


def inside(path: str | None) -> str | None:
    """An absolute path relative to the workspace, if it is in there: '' is the workspace. What
    deepagents puts aside at the top of the tree, where no sandbox lets anybody write, is kept in
    the workspace, too."""
    if path is None or not is_absolute(path):
        return None
    plain = posixpath.normpath(path)
    if plain == WORKSPACE:
        return ""
    if plain.split("/")[1] in PUT_ASIDE:
        return ASIDE + plain
    return plain.removeprefix(f"{WORKSPACE}/") if plain.startswith(f"{WORKSPACE}/") else None


def is_absolute(path: str) -> bool:
    return path.startswith("/") and "\0" not in path


def absolute(place: str) -> str:
    return f"{WORKSPACE}/{place}" if place else WORKSPACE


def search_root(path: str | None) -> str:
    """Where a search without a place, or from the top, begins: an agent's files."""
    return WORKSPACE if path in (None, "", "/", ".") else str(path)


def entry_of(one: FileInfo) -> Entry:
    return {
        "path": absolute(one.path),
        "is_dir": one.type == "directory",
        "size": one.size_bytes,
        "modified_at": one.modified,
    }


def output_of(done: ExecuteResult, seconds: float) -> str:
    output = done["output"]
    if done["timed_out"]:
        return f"{output}\nError: the command was killed after {seconds:g} seconds."
    if done["cause"] == "oom":
        return f"{output}\nError: the command was killed: out of memory."
    return output


def is_text(path: str) -> bool:
    kind = mimetypes.guess_type(path)[0] or ""
    return not kind.startswith(("image/", "audio/", "video/")) and kind != "application/pdf"


def decodes(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_data(content: str) -> FileData:
    return FileData(content=content, encoding="utf-8")


def no_lines(place: str, offset: int, total: int | None) -> ReadResult:
    if offset == 0:
        return ReadResult(file_data=text_data(""))
    length = f" ({total} lines)" if total is not None else ""
    problem = f"Line offset {offset} exceeds file length{length}"
    return ReadResult(error=f"File '{absolute(place)}': {problem}")


def cut_page(text: str, count: int) -> tuple[str, int]:
    """Lines without the last end of line, at most ``MAX_TEXT`` bytes of them, and how many."""
    text = text.replace("\r\n", "\n").removesuffix("\n")
    raw = text.encode()
    if len(raw) <= MAX_TEXT:
        return text, count
    kept = raw[: MAX_TEXT - len(CUT)].decode("utf-8", "ignore")
    whole = kept.count("\n")  # the line that was cut comes again, unless it is the only one
    return kept + CUT, max(whole, 1)


def reason_of(problem: Exception, absent: str) -> str:
    if isinstance(problem, FileNotFoundError) and absent:
        return absent
    return "permission_denied" if isinstance(problem, PermissionError) else str(problem)


def code_of(problem: Exception) -> str:
    """One of deepagents' codes where there is one, the whole story otherwise."""
    if isinstance(problem, FileNotFoundError):
        return "file_not_found"
    if isinstance(problem, PermissionError):
        return "permission_denied"
    return str(problem)


def shell_code(stderr: str) -> str:
    told = {
        "No such file": "file_not_found",
        "Permission denied": "permission_denied",
        "Is a directory": "is_directory",
        "Read-only file system": "permission_denied",
    }
    return next((code for text, code in told.items() if text in stderr), stderr.strip())
