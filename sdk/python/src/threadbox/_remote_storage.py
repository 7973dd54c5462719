# SPDX-License-Identifier: Apache-2.0
"""Volumes and artifacts of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import quote, urlencode

from . import _parse as parse
from ._engine import FileInfo
from ._engine_files import ArchiveFormat, Unpacked
from ._engine_storage import ArtifactInfo, VolumeInfo
from ._http import Response
from ._remote_base import FILES, LIST, RemoteBase

BYTES = {"Content-Type": "application/octet-stream"}
VOLUME = {one.name for one in fields(VolumeInfo)}
ARTIFACT = {one.name for one in fields(ArtifactInfo)}


def _volume(body: Mapping[str, Any]) -> VolumeInfo:
    known = {key: value for key, value in body.items() if key in VOLUME}
    return VolumeInfo(**{**known, "in_use_by": tuple(body.get("in_use_by", ()))})


def _artifact(body: Mapping[str, Any]) -> ArtifactInfo:
    return ArtifactInfo(**{key: value for key, value in body.items() if key in ARTIFACT})


class RemoteStorage(RemoteBase):
    # ---- volumes ----

    def _volume_target(self, user_id: str, name: str, what: str = "", **query: Any) -> str:
        given = {"user_id": user_id, **{k: v for k, v in query.items() if v}}
        return f"/api/volumes/{quote(name, safe='')}{what}?{urlencode(given)}"

    async def create_volume(self, user_id: str, name: str, size_mb: int | None) -> VolumeInfo:
        body: dict[str, Any] = {"name": name, "user_id": user_id}
        if size_mb is not None:
            body["size_mb"] = size_mb
        return self._one_volume(await self.call("POST", "/api/volumes", body))

    async def list_volumes(self, user_id: str | None) -> list[VolumeInfo]:
        asked = "" if user_id is None else "?" + urlencode({"user_id": user_id})
        response = await self.call("GET", "/api/volumes" + asked, None, LIST)
        return [_volume(one) for one in parse.parse_object(response, "volumes")["volumes"]]

    async def get_volume(self, user_id: str, name: str) -> VolumeInfo:
        return self._one_volume(await self.call("GET", self._volume_target(user_id, name)))

    async def remove_volume(self, user_id: str, name: str) -> None:
        await self.call("DELETE", self._volume_target(user_id, name))

    async def list_volume_files(
        self, user_id: str, name: str, path: str, recursive: bool
    ) -> list[FileInfo]:
        target = self._volume_target(
            user_id, name, "/files", path=path, recursive="true" if recursive else ""
        )
        body = parse.parse_object(await self.call("GET", target, None, FILES), "files")
        return [parse.parse_file(one) for one in body["files"]]

    async def read_volume_file(self, user_id: str, name: str, path: str) -> bytes:
        target = self._volume_target(user_id, name, "/content", path=path)
        return (await self.call("GET", target, None, FILES)).body

    async def write_volume_file(self, user_id: str, name: str, path: str, data: bytes) -> FileInfo:
        target = self._volume_target(user_id, name, "/content", path=path)
        response = await self.call("PUT", target, data, FILES, BYTES)
        return parse.parse_file(parse.parse_object(response, "path"))

    async def remove_volume_file(self, user_id: str, name: str, path: str, recursive: bool) -> None:
        target = self._volume_target(
            user_id, name, "/files", path=path, recursive="true" if recursive else ""
        )
        await self.call("DELETE", target, None, FILES)

    async def download_volume(
        self, user_id: str, name: str, path: str, form: ArchiveFormat
    ) -> bytes:
        target = self._volume_target(user_id, name, "/archive", path=path, format=form)
        return (await self.call("GET", target, None, FILES)).body

    async def fill_volume(self, user_id: str, name: str, data: bytes, path: str) -> Unpacked:
        target = self._volume_target(user_id, name, "/archive", path=path)
        response = await self.call(
            "PUT", target, data, FILES, {"Content-Type": "application/x-tar"}
        )
        body = parse.parse_object(response, "files", "bytes")
        return Unpacked(body["files"], body["bytes"])

    @staticmethod
    def _one_volume(response: Response) -> VolumeInfo:
        return _volume(parse.parse_object(response, "name", "volume_id"))

    # ---- artifacts ----

    async def keep_artifact(
        self, session_id: str, path: str, name: str | None, kind: str | None
    ) -> ArtifactInfo:
        asked = {"path": path, "name": name, "type": kind}
        body = {key: value for key, value in asked.items() if value is not None}
        target = f"/api/sessions/{quote(session_id, safe='')}/artifacts"
        return self._one_artifact(await self.call("POST", target, body, FILES))

    async def list_artifacts(
        self, session_id: str | None, user_id: str | None
    ) -> list[ArtifactInfo]:
        asked = {"session_id": session_id, "user_id": user_id}
        query = urlencode({key: value for key, value in asked.items() if value is not None})
        response = await self.call("GET", f"/api/artifacts?{query}", None, LIST)
        return [_artifact(one) for one in parse.parse_object(response, "artifacts")["artifacts"]]

    async def get_artifact(self, artifact_id: str) -> ArtifactInfo:
        return self._one_artifact(await self.call("GET", self._artifact_target(artifact_id)))

    async def read_artifact(self, artifact_id: str) -> bytes:
        target = self._artifact_target(artifact_id) + "/content"
        return (await self.call("GET", target, None, FILES)).body

    async def remove_artifact(self, artifact_id: str) -> None:
        await self.call("DELETE", self._artifact_target(artifact_id))

    @staticmethod
    def _artifact_target(artifact_id: str) -> str:
        return f"/api/artifacts/{quote(artifact_id, safe='')}"

    @staticmethod
    def _one_artifact(response: Response) -> ArtifactInfo:
        return _artifact(parse.parse_object(response, "artifact_id"))
