# SPDX-License-Identifier: Apache-2.0
"""Files of a server's sessions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from . import _parse as parse
from ._engine import FileInfo, FileList, Uploaded
from ._engine_files import ArchiveFormat, Edited, Found, Lines, Match, SearchSpec, Unpacked, Walk
from ._http import Response, nonsense
from ._remote_base import FILES, LIST, RemoteBase

BYTES = {"Content-Type": "application/octet-stream"}


class RemoteFiles(RemoteBase):
    # ---- as all servers have had it ----

    async def upload_file(self, session_id: str, name: str, data: bytes) -> Uploaded:
        boundary = "threadbox-" + secrets.token_hex(16)
        fields = {"session_id": session_id, "filename": name}
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
            for key, value in fields.items()
        ]
        # The name goes as a field: a header would have to escape some of its letters.
        file_head = 'Content-Disposition: form-data; name="file"; filename="upload"'
        head = f"{''.join(parts)}--{boundary}\r\n{file_head}\r\n\r\n"
        body = b"".join([head.encode(), data, f"\r\n--{boundary}--\r\n".encode()])
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        response = await self.call("POST", "/upload_file", body, FILES, headers)
        return parse.parse_uploaded(parse.parse_object(response, "filename", "path"))

    async def download_file(self, session_id: str, name: str) -> bytes:
        body = {"session_id": session_id, "filename": name}
        return (await self.call("POST", "/download_file", body, FILES)).body

    async def list_files(
        self, session_id: str, path: str, limit: int | None, offset: int
    ) -> FileList:
        query: dict[str, Any] = {"session_id": session_id}
        if path:
            query["path"] = path
        if limit is not None:
            query["limit"] = limit
        if offset:
            query["offset"] = offset
        response = await self.call("GET", "/list_files?" + urlencode(query), None, LIST)
        return parse.parse_files(parse.parse_object(response, "files"), session_id)

    # ---- the tree ----

    def _files(self, session_id: str, what: str = "", **query: Any) -> str:
        given = {
            name: "true" if value is True else value
            for name, value in query.items()
            if value is not None and value is not False
        }
        asked = "?" + urlencode(given, doseq=True) if given else ""
        return f"/api/sessions/{quote(session_id, safe='')}/files{what}{asked}"

    async def stat_file(self, session_id: str, path: str) -> FileInfo:
        return self._file(await self.call("GET", self._files(session_id, path=path)))

    async def walk_files(
        self, session_id: str, path: str, recursive: bool, limit: int, cursor: str | None
    ) -> Walk:
        target = self._files(
            session_id, "/list", path=path, recursive=recursive, limit=limit, cursor=cursor
        )
        body = parse.parse_object(await self.call("GET", target, None, FILES), "files")
        files = [parse.parse_file(one) for one in body["files"]]
        return Walk(files, body.get("next_cursor"), body.get("complete", True))

    async def glob_files(self, session_id: str, pattern: str, path: str, limit: int) -> Walk:
        target = self._files(session_id, "/glob", pattern=pattern, path=path, limit=limit)
        body = parse.parse_object(await self.call("GET", target, None, FILES), "files")
        return Walk([parse.parse_file(one) for one in body["files"]], None, body["complete"])

    async def search_files(self, session_id: str, spec: SearchSpec) -> Found:
        asked = {
            "pattern": spec.pattern,
            "path": spec.path,
            "regex": spec.regex,
            "ignore_case": spec.ignore_case,
            "glob": spec.glob,
            "max_results": spec.max_results,
        }
        response = await self.call("POST", self._files(session_id, "/search"), asked, FILES)
        body = parse.parse_object(response, "matches", "complete")
        matches = [Match(one["path"], one["line"], one["text"]) for one in body["matches"]]
        return Found(matches, body.get("files_searched", 0), body["complete"])

    async def make_directory(self, session_id: str, path: str, mode: int | None) -> FileInfo:
        body: dict[str, Any] = {"path": path}
        if mode is not None:
            body["mode"] = f"{mode:04o}"
        return self._file(await self.call("POST", self._files(session_id, "/mkdir"), body))

    async def move_file(
        self, session_id: str, source: str, target: str, overwrite: bool
    ) -> FileInfo:
        body = {"from": source, "to": target, "overwrite": overwrite}
        return self._file(await self.call("POST", self._files(session_id, "/move"), body))

    async def remove_file(self, session_id: str, path: str, recursive: bool) -> None:
        target = self._files(session_id, path=path, recursive=recursive)
        await self.call("DELETE", target, None, FILES)

    # ---- contents ----

    async def read_file(self, session_id: str, path: str) -> bytes:
        target = self._files(session_id, "/content", path=path)
        return (await self.call("GET", target, None, FILES)).body

    async def read_lines(self, session_id: str, path: str, line: int, lines: int | None) -> Lines:
        target = self._files(session_id, "/content", path=path, line=line, lines=lines)
        response = await self.call("GET", target, None, FILES)
        told = response.headers
        try:
            return Lines(
                response.body.decode("utf-8", "replace"),
                int(told["x-first-line"]),
                int(told["x-lines"]),
                told["x-more-lines"] == "true",
                int(told["x-total-lines"]) if "x-total-lines" in told else None,
                told.get("x-line-cut") == "true",
            )
        except (KeyError, ValueError):
            raise nonsense(response.url, "lines without their numbers") from None

    async def write_file(
        self,
        session_id: str,
        path: str,
        data: bytes,
        append: bool,
        exclusive: bool,
        mode: int | None,
    ) -> FileInfo:
        octal = None if mode is None else f"{mode:04o}"
        target = self._files(
            session_id, "/content", path=path, append=append, exclusive=exclusive, mode=octal
        )
        return self._file(await self.call("PUT", target, data, FILES, BYTES))

    async def edit_file(
        self, session_id: str, path: str, old: str, new: str, replace_all: bool
    ) -> Edited:
        asked = {"path": path, "old": old, "new": new, "replace_all": replace_all}
        response = await self.call("POST", self._files(session_id, "/edit"), asked, FILES)
        body = parse.parse_object(response, "replacements")
        return Edited(self._file(response), body["replacements"], body.get("lines", []))

    async def read_archive(
        self, session_id: str, paths: Sequence[str], format: ArchiveFormat
    ) -> bytes:
        target = self._files(session_id, "/archive", path=list(paths) or None, format=format)
        return (await self.call("GET", target, None, FILES)).body

    async def write_archive(self, session_id: str, path: str, data: bytes) -> Unpacked:
        target = self._files(session_id, "/archive", path=path)
        headers = {"Content-Type": "application/x-tar"}
        response = await self.call("PUT", target, data, FILES, headers)
        body = parse.parse_object(response, "files", "bytes")
        return Unpacked(body["files"], body["bytes"])

    def _file(self, response: Response) -> FileInfo:
        return parse.parse_file(parse.parse_object(response, "path"))
