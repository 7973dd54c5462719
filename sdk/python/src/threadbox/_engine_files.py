# SPDX-License-Identifier: Apache-2.0
"""The seam for files beyond upload and download. Paths are relative to the workspace, or begin with
/workspace. The rules are those of ``Engine``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ._engine import FileInfo

ArchiveFormat = Literal["tar", "tgz"]


@dataclass(frozen=True)
class Walk:
    """Some entries of a tree; ``cursor`` asks for those after them, None when there are none."""

    files: Sequence[FileInfo]
    cursor: str | None = None
    complete: bool = True


@dataclass(frozen=True)
class Lines:
    """Lines of a file, from ``first`` (counted from 1) on. ``total`` is known when the end was
    seen; ``cut``: a line was too long to be whole."""

    text: str
    first: int
    count: int
    more: bool
    total: int | None = None
    cut: bool = False


@dataclass(frozen=True)
class Edited:
    """A file after an edit; ``lines`` are the numbers of those where something was replaced."""

    file: FileInfo
    replacements: int
    lines: Sequence[int]


@dataclass(frozen=True)
class Match:
    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Found:
    """What a search found; ``complete`` is false when there is more than was asked for."""

    matches: Sequence[Match]
    files_searched: int
    complete: bool


@dataclass(frozen=True)
class Unpacked:
    files: int
    bytes: int


@dataclass(frozen=True)
class SearchSpec:
    pattern: str
    path: str = ""
    regex: bool = False
    ignore_case: bool = False
    glob: str = ""  # which files
    max_results: int = 1000


class FileEngine(Protocol):
    """An engine that knows files well. A path that is taken, a directory that isn't empty, and an
    edit that does not match exactly once are a ``ConflictError`` (``EditError``)."""

    async def stat_file(self, session_id: str, path: str) -> FileInfo: ...

    async def walk_files(
        self, session_id: str, path: str, recursive: bool, limit: int, cursor: str | None
    ) -> Walk: ...

    async def glob_files(self, session_id: str, pattern: str, path: str, limit: int) -> Walk: ...

    async def search_files(self, session_id: str, spec: SearchSpec) -> Found: ...

    async def read_file(self, session_id: str, path: str) -> bytes: ...

    async def read_lines(
        self, session_id: str, path: str, line: int, lines: int | None
    ) -> Lines: ...

    async def write_file(
        self,
        session_id: str,
        path: str,
        data: bytes,
        append: bool,
        exclusive: bool,
        mode: int | None,
    ) -> FileInfo: ...

    async def edit_file(
        self, session_id: str, path: str, old: str, new: str, replace_all: bool
    ) -> Edited: ...

    async def make_directory(self, session_id: str, path: str, mode: int | None) -> FileInfo: ...

    async def move_file(
        self, session_id: str, source: str, target: str, overwrite: bool
    ) -> FileInfo: ...

    async def remove_file(self, session_id: str, path: str, recursive: bool) -> None: ...

    async def read_archive(
        self, session_id: str, paths: Sequence[str], format: ArchiveFormat
    ) -> bytes: ...

    async def write_archive(self, session_id: str, path: str, data: bytes) -> Unpacked: ...
