# SPDX-License-Identifier: Apache-2.0
# Made from _files.py by tools/make_async.py: change that file, not this one.
"""The files of a session, for asyncio."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence

from . import _core as core
from . import _validate as validate
from ._engine import FileInfo
from ._engine_files import ArchiveFormat, Edited, Found, Lines, SearchSpec, Unpacked

PAGE = 1000


class AsyncFiles:
    """The workspace of one session. Paths are relative to it, or begin with /workspace."""

    def __init__(self, session: core.SessionCore) -> None:
        self._session = session
        self._engine = core.file_engine(session.engine)

    async def stat(self, path: str) -> FileInfo:
        """Raises ``FileNotFoundError`` when there is nothing."""
        path = validate.check_path(path)
        return await self._engine.stat_file(self._session.session_id, path)

    async def exists(self, path: str) -> bool:
        path = validate.check_path(path)
        return await core.file_exists(self._engine, self._session.session_id, path)

    async def list(self, path: str = "", *, recursive: bool = False) -> list[FileInfo]:
        """All entries of a directory, or of the tree below it, sorted by path."""
        path = validate.check_path(path)
        walked = core.walk(self._engine, self._session.session_id, path, recursive, PAGE)
        return await core.collect(walked)

    def walk(
        self, path: str = "", *, recursive: bool = True, page: int = PAGE
    ) -> AsyncGenerator[FileInfo, None]:
        """The same one by one: a large tree is asked for page by page."""
        path = validate.check_path(path)
        return core.walk(self._engine, self._session.session_id, path, recursive, page)

    async def glob(self, pattern: str, path: str = "", *, limit: int = 10000) -> Sequence[FileInfo]:
        """Entries below ``path`` whose path matches: ``*.py``, ``**/test_*``, ``src/{a,b}/?``."""
        path = validate.check_path(path)
        found = await self._engine.glob_files(self._session.session_id, pattern, path, limit)
        return found.files

    async def search(
        self,
        pattern: str,
        path: str = "",
        *,
        regex: bool = False,
        ignore_case: bool = False,
        glob: str = "",
        max_results: int = 1000,
    ) -> Found:
        """Lines that contain a text, or match a regular expression, in the files below ``path``
        (those whose path matches ``glob``)."""
        path = validate.check_path(path)
        spec = SearchSpec(pattern, path, regex, ignore_case, glob, max_results)
        return await self._engine.search_files(self._session.session_id, spec)

    async def read(self, path: str) -> bytes:
        """The whole file."""
        path = validate.check_path(path)
        return await self._engine.read_file(self._session.session_id, path)

    async def read_text(self, path: str) -> str:
        """The whole file as UTF-8; what is none becomes U+FFFD."""
        path = validate.check_path(path)
        data = await self._engine.read_file(self._session.session_id, path)
        return data.decode("utf-8", "replace")

    async def read_lines(self, path: str, line: int = 1, lines: int | None = None) -> Lines:
        """``lines`` lines from number ``line`` on, counted from 1."""
        path = validate.check_path(path)
        return await self._engine.read_lines(self._session.session_id, path, line, lines)

    async def write(
        self,
        path: str,
        data: bytes | str,
        *,
        append: bool = False,
        exclusive: bool = False,
        mode: int | None = None,
    ) -> FileInfo:
        """Replaces the file, when all has arrived; directories above it are made. ``append``
        writes at its end; with ``exclusive`` an existing file is a ``ConflictError``; ``mode`` as
        in ``0o644``."""
        path = validate.check_path(path)
        raw = data.encode() if isinstance(data, str) else bytes(data)
        session_id = self._session.session_id
        return await self._engine.write_file(session_id, path, raw, append, exclusive, mode)

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
        """Replaces a text that must be there exactly once, or all of them. Otherwise ``EditError``,
        which knows the lines."""
        path = validate.check_path(path)
        session_id = self._session.session_id
        return await self._engine.edit_file(session_id, path, old, new, replace_all)

    async def mkdir(self, path: str, *, mode: int | None = None) -> FileInfo:
        """With those above it; one that is there is fine."""
        path = validate.check_path(path)
        return await self._engine.make_directory(self._session.session_id, path, mode)

    async def move(self, source: str, target: str, *, overwrite: bool = True) -> FileInfo:
        source, target = validate.check_path(source), validate.check_path(target)
        return await self._engine.move_file(self._session.session_id, source, target, overwrite)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        path = validate.check_path(path)
        await self._engine.remove_file(self._session.session_id, path, recursive)

    async def download_archive(
        self, *paths: str, format: ArchiveFormat = "tgz", to: str | os.PathLike[str] | None = None
    ) -> bytes:
        """AsyncFiles and trees (all of the workspace, unless told) as a tar. ``to`` writes it to a
        local file, too."""
        checked = [validate.check_path(path) for path in paths]
        data = await self._engine.read_archive(self._session.session_id, checked, format)
        if to is not None:
            core.write_local(to, data)
        return data

    async def upload_archive(
        self, archive: bytes | str | os.PathLike[str], path: str = ""
    ) -> Unpacked:
        """Unpacks a tar, plain or gzip, below ``path``: its bytes, or a local file."""
        path = validate.check_path(path)
        data = archive if isinstance(archive, bytes) else core.read_local(archive)
        return await self._engine.write_archive(self._session.session_id, path, data)
