# SPDX-License-Identifier: Apache-2.0
"""The seam for what outlives sessions: volumes and artifacts. The rules are those of ``Engine``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from ._engine import Engine, FileInfo
from ._engine_files import ArchiveFormat, Unpacked
from ._errors import UnsupportedError


@dataclass(frozen=True)
class VolumeInfo:
    """A volume. ``limited``: the kernel holds it to ``size_bytes``, else only uploads are held.
    ``used_bytes`` and ``files`` are known of one that was asked for by its name."""

    name: str
    user_id: str
    volume_id: str
    size_bytes: int
    limited: bool = True
    in_use_by: Sequence[str] = field(default_factory=tuple)
    created_at: str = ""
    used_bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True)
class ArtifactInfo:
    """A file that stays after its session's end. ``origin`` is "kept" or "code"."""

    artifact_id: str
    session_id: str
    name: str
    type: str
    size_bytes: int
    path: str | None = None
    origin: str = "kept"
    thread_id: str = ""
    user_id: str = ""
    created_at: str = ""


class StorageEngine(Protocol):
    async def create_volume(self, user_id: str, name: str, size_mb: int | None) -> VolumeInfo: ...
    async def list_volumes(self, user_id: str | None) -> list[VolumeInfo]: ...
    async def get_volume(self, user_id: str, name: str) -> VolumeInfo: ...
    async def remove_volume(self, user_id: str, name: str) -> None: ...
    async def list_volume_files(
        self, user_id: str, name: str, path: str, recursive: bool
    ) -> Sequence[FileInfo]: ...
    async def read_volume_file(self, user_id: str, name: str, path: str) -> bytes: ...
    async def write_volume_file(
        self, user_id: str, name: str, path: str, data: bytes
    ) -> FileInfo: ...
    async def remove_volume_file(
        self, user_id: str, name: str, path: str, recursive: bool
    ) -> None: ...
    async def download_volume(
        self, user_id: str, name: str, path: str, form: ArchiveFormat
    ) -> bytes: ...
    async def fill_volume(self, user_id: str, name: str, data: bytes, path: str) -> Unpacked: ...

    async def keep_artifact(
        self, session_id: str, path: str, name: str | None, kind: str | None
    ) -> ArtifactInfo: ...
    async def list_artifacts(
        self, session_id: str | None, user_id: str | None
    ) -> list[ArtifactInfo]: ...
    async def get_artifact(self, artifact_id: str) -> ArtifactInfo: ...
    async def read_artifact(self, artifact_id: str) -> bytes: ...
    async def remove_artifact(self, artifact_id: str) -> None: ...


def storage_engine(engine: Engine) -> StorageEngine:
    if not hasattr(engine, "create_volume"):
        raise UnsupportedError("volumes and artifacts are a server's: use remote mode")
    return cast(StorageEngine, engine)
