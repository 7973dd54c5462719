# SPDX-License-Identifier: Apache-2.0
# Made from _storage.py by tools/make_async.py: change that file, not this one.
"""AsyncVolumes and artifacts, for asyncio."""

from __future__ import annotations

from collections.abc import Sequence

from . import _core as core
from . import _validate as validate
from ._engine import Engine, FileInfo
from ._engine_files import ArchiveFormat, Unpacked
from ._engine_storage import ArtifactInfo, VolumeInfo, storage_engine


class AsyncVolumes:
    """Directories that outlive sessions, each by a name of its user. A session has those that it
    is made with: ``client.session(…, volumes=[{"name": "models", "path": "/data"}])``. What several
    have at once are plain shared files."""

    def __init__(self, engine: Engine) -> None:
        self._engine = storage_engine(engine)

    async def create(
        self, name: str, user_id: str = "", *, size_mb: int | None = None
    ) -> VolumeInfo:
        """Raises ``ConflictError`` when there is one of this name."""
        return await self._engine.create_volume(user_id, name, size_mb)

    async def list(self, user_id: str | None = None) -> list[VolumeInfo]:
        """Of one user, or of all."""
        return await self._engine.list_volumes(user_id)

    async def get(self, name: str, user_id: str = "") -> VolumeInfo:
        """With what is in it. Raises ``FileNotFoundError`` when there is none."""
        return await self._engine.get_volume(user_id, name)

    async def remove(self, name: str, user_id: str = "") -> None:
        """With its files. Raises ``ConflictError`` while a session has it."""
        await self._engine.remove_volume(user_id, name)

    async def list_files(
        self, name: str, path: str = "", user_id: str = "", *, recursive: bool = False
    ) -> Sequence[FileInfo]:
        path = validate.check_path(path)
        return await self._engine.list_volume_files(user_id, name, path, recursive)

    async def read(self, name: str, path: str, user_id: str = "") -> bytes:
        path = validate.check_path(path)
        return await self._engine.read_volume_file(user_id, name, path)

    async def write(self, name: str, path: str, data: bytes | str, user_id: str = "") -> FileInfo:
        """A file is there once it is whole; directories are made."""
        path = validate.check_path(path)
        content = data.encode() if isinstance(data, str) else data
        return await self._engine.write_volume_file(user_id, name, path, content)

    async def remove_file(
        self, name: str, path: str, user_id: str = "", *, recursive: bool = False
    ) -> None:
        path = validate.check_path(path)
        await self._engine.remove_volume_file(user_id, name, path, recursive)

    async def download(
        self, name: str, path: str = "", user_id: str = "", *, format: ArchiveFormat = "tar"
    ) -> bytes:
        """All of it, or what is below ``path``, as a tar."""
        path = validate.check_path(path)
        return await self._engine.download_volume(user_id, name, path, format)

    async def fill(self, name: str, data: bytes, path: str = "", user_id: str = "") -> Unpacked:
        """Unpacks a tar, plain or gzip, into it."""
        path = validate.check_path(path)
        return await self._engine.fill_volume(user_id, name, data, path)


class AsyncArtifacts:
    """What stays after a session's end. Of a session: what it keeps; of a client: all."""

    def __init__(self, engine: Engine, session: core.SessionCore | None = None) -> None:
        self._engine = storage_engine(engine)
        self._session = session

    async def keep(
        self, path: str, *, name: str | None = None, type: str | None = None
    ) -> ArtifactInfo:
        """A copy of a file of the workspace, as it is now. Raises ``LimitExceededError`` when there
        is no room for it."""
        if self._session is None:
            raise ValueError("Only a session keeps files: use session.artifacts")
        path = validate.check_path(path)
        return await self._engine.keep_artifact(self._session.session_id, path, name, type)

    async def list(self, user_id: str | None = None) -> list[ArtifactInfo]:
        """The newest first."""
        session_id = None if self._session is None else self._session.session_id
        return await self._engine.list_artifacts(session_id, user_id)

    async def get(self, artifact_id: str) -> ArtifactInfo:
        """Raises ``FileNotFoundError`` when there is none."""
        return await self._engine.get_artifact(artifact_id)

    async def read(self, artifact_id: str) -> bytes:
        return await self._engine.read_artifact(artifact_id)

    async def remove(self, artifact_id: str) -> None:
        await self._engine.remove_artifact(artifact_id)
