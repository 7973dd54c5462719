# SPDX-License-Identifier: Apache-2.0
"""Files of local sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from . import _local_values as values
from ._engine import FileInfo, FileList, Uploaded
from ._engine_files import (
    ArchiveFormat,
    Edited,
    Found,
    Lines,
    Match,
    SearchSpec,
    Unpacked,
    Walk,
)
from ._errors import InvalidRequestError
from ._local_base import LocalBase

PIECE = 1 << 20


class LocalFiles(LocalBase):
    # ---- files ----

    async def upload_file(self, session_id: str, name: str, data: bytes) -> Uploaded:
        info = await self.call("upload", session_id, name, bytes(data), name=name)
        clean = "/".join(part for part in name.split("/") if part)
        return Uploaded(clean, f"{values.WORKSPACE}/{clean}", info[3])

    async def download_file(self, session_id: str, name: str) -> bytes:
        return b"".join([piece async for piece in self.read_pieces(session_id, name)])

    async def read_pieces(self, session_id: str, name: str) -> AsyncGenerator[bytes, None]:
        """A file in pieces: its content as it was when it was opened."""
        handle, _ = await self.call(
            "open_download", session_id, name, name=name, translate=values.translate_read
        )
        try:
            while piece := await self.call("read_download", handle, PIECE, name=name):
                yield piece
        finally:
            await self.call("close_transfer", handle)

    async def list_files(
        self, session_id: str, path: str, limit: int | None, offset: int
    ) -> FileList:
        listing = await self.call("list_files", session_id, path, name=path)
        return values.file_list(listing, session_id, path, limit, offset)

    # ---- the tree ----

    async def stat_file(self, session_id: str, path: str) -> FileInfo:
        return values.file_view(await self.call("stat_file", session_id, path))

    async def walk_files(
        self, session_id: str, path: str, recursive: bool, limit: int, cursor: str | None
    ) -> Walk:
        # Names need not be text; the cursor of one that is none must still lead on.
        after = (cursor or "").encode("utf-8", "surrogateescape")
        rows, then, complete = await self.call(
            "walk_files", session_id, path, recursive, limit, after
        )
        files = [values.file_view(row) for row in rows]
        return Walk(files, then and then.decode("utf-8", "surrogateescape"), complete)

    async def glob_files(self, session_id: str, pattern: str, path: str, limit: int) -> Walk:
        rows, _, complete = await self.call("glob_files", session_id, pattern, path, limit)
        return Walk([values.file_view(row) for row in rows], None, complete)

    async def search_files(self, session_id: str, spec: SearchSpec) -> Found:
        lines, files, complete = await self.call(
            "search_files",
            session_id,
            spec.pattern,
            spec.path,
            spec.regex,
            spec.ignore_case,
            spec.glob,
            spec.max_results,
        )
        return Found([Match(*line) for line in lines], files, complete)

    async def make_directory(self, session_id: str, path: str, mode: int | None) -> FileInfo:
        return values.file_view(await self.call("make_directory", session_id, path, mode))

    async def move_file(
        self, session_id: str, source: str, target: str, overwrite: bool
    ) -> FileInfo:
        return values.file_view(await self.call("move_file", session_id, source, target, overwrite))

    async def remove_file(self, session_id: str, path: str, recursive: bool) -> None:
        await self.call("remove_file", session_id, path, recursive)

    # ---- contents ----

    async def read_file(self, session_id: str, path: str) -> bytes:
        data: bytes = await self.call("read_file", session_id, path)
        return data

    async def read_lines(self, session_id: str, path: str, line: int, lines: int | None) -> Lines:
        return Lines(*await self.call("read_lines", session_id, path, line, lines))

    async def write_file(
        self,
        session_id: str,
        path: str,
        data: bytes,
        append: bool,
        exclusive: bool,
        mode: int | None,
    ) -> FileInfo:
        return values.file_view(
            await self.call("write_file", session_id, path, data, append, exclusive, mode)
        )

    async def edit_file(
        self, session_id: str, path: str, old: str, new: str, replace_all: bool
    ) -> Edited:
        row, count, lines = await self.call("edit_file", session_id, path, old, new, replace_all)
        return Edited(values.file_view(row), count, lines)

    async def read_archive(
        self, session_id: str, paths: Sequence[str], format: ArchiveFormat
    ) -> bytes:
        if format not in ("tar", "tgz"):
            raise InvalidRequestError("the format must be tar or tgz")
        data: bytes = await self.call("read_archive", session_id, paths, format == "tgz")
        return data

    async def write_archive(self, session_id: str, path: str, data: bytes) -> Unpacked:
        return Unpacked(*await self.call("write_archive", session_id, path, data))
