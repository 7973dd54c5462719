# SPDX-License-Identifier: Apache-2.0
"""Files of a server's sessions."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlencode

from . import _parse as parse
from ._engine import FileList, Uploaded
from ._remote_base import FILES, LIST, RemoteBase


class RemoteFiles(RemoteBase):
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
