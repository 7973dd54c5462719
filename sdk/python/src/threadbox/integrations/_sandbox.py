# SPDX-License-Identifier: Apache-2.0
"""The sessions behind a deepagents backend: whose it is, commands, and bytes in and out."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import secrets
import shlex
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox
from langgraph.config import get_config

from .. import (
    Files,
    SandboxClient,
    SandboxError,
    Session,
    SessionExpiredError,
    UnsupportedError,
)
from .._engine import DEFAULT_TIMEOUT_MINUTES
from .._validate import MAX_TIMEOUT
from ._rules import Version, installed
from ._shown import code_of, inside, is_absolute, output_of, shell_code

T = TypeVar("T")

TIMEOUT = 120  # seconds: what agents build and test takes longer than a line of bash
KEPT_SESSIONS = 1024
REFUSED = 126  # what bash answers for a command that can't be executed


class ThreadSandboxes(BaseSandbox):
    """See ``ThreadboxSandbox``, which adds files."""

    def __init__(
        self,
        client: SandboxClient,
        thread_id: str | None = None,
        *,
        user_id: str = "",
        timeout: float = TIMEOUT,
        timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
        policy: str | None = None,
        rules: Version | None = None,
    ) -> None:
        self.client = client
        self.rules: Version = rules or installed()
        self._thread_id = thread_id
        self._user_id = user_id
        self._timeout = timeout
        self._timeout_minutes = timeout_minutes
        self._policy = policy
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    # ---- sessions ----

    @property
    def id(self) -> str:
        """The thread's: a session that expired and came back is the same sandbox to an agent."""
        return self._thread()

    def session(self) -> Session:
        """Of the thread that this call belongs to; found or made."""
        thread = self._thread()
        with self._lock:
            found = self._sessions.get(thread)
            if found is not None:
                self._sessions.move_to_end(thread)
                return found
        made = self.client.session(
            thread, self._user_id, self._timeout_minutes, policy=self._policy
        )
        with self._lock:
            kept = self._sessions.setdefault(thread, made)
            if len(self._sessions) > KEPT_SESSIONS:
                self._sessions.popitem(last=False)
        return kept

    def close(self) -> None:
        """Ends the session of this thread with its files."""
        session = self.session()
        self._forget(session)
        session.close()

    def _thread(self) -> str:
        if self._thread_id:
            return self._thread_id
        try:
            thread = get_config().get("configurable", {}).get("thread_id")
        except RuntimeError:  # in no graph
            thread = None
        if not thread:
            raise ValueError(
                "whose sandbox? Give ThreadboxSandbox a thread_id, or run the agent with "
                'config={"configurable": {"thread_id": …}}'
            )
        return str(thread)

    def _forget(self, session: Session) -> None:
        with self._lock:
            if self._sessions.get(session.thread_id) is session:
                del self._sessions[session.thread_id]

    def _files(self, operation: Callable[[Files], T]) -> T:
        """Does it, in a new session if the old one is gone: its files are, too, so that only what
        makes some finds any."""
        session = self.session()
        try:
            return operation(session.files)
        except SessionExpiredError:
            self._forget(session)
        return operation(self.session().files)

    # ---- paths ----

    def _place(self, path: str | None) -> str | None:
        """Relative to the workspace; None when it is not in there, or there is no file API."""
        try:
            self.session().files  # noqa: B018
        except UnsupportedError:
            return None
        return inside(path)

    # ---- commands ----

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Both streams in the order of printing. What the policy refuses is an answer, too; a
        server that can't be reached is not. ``timeout`` 0 is a day."""
        seconds = self._timeout if timeout is None else (timeout or MAX_TIMEOUT)
        session = self.session()
        try:
            done = session.execute(command, seconds)
        except ValueError as problem:
            return ExecuteResponse(output=f"Error: {problem}", exit_code=REFUSED)
        return ExecuteResponse(
            output=output_of(done, seconds),
            exit_code=done["exit_code"],
            truncated=done["truncated"],
        )

    async def aexecute(
        self,
        command: str,
        *,
        timeout: int | None = None,
    ) -> ExecuteResponse:
        return await asyncio.to_thread(self.execute, command, timeout=timeout)

    # ---- bytes ----

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path, self._upload(path, data)) for path, data in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return await asyncio.to_thread(self.upload_files, files)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return await asyncio.to_thread(self.download_files, paths)

    def _upload(self, path: str, data: bytes) -> str | None:
        if not is_absolute(path):
            return "invalid_path"
        place = self._place(path)
        try:
            if place is not None:
                self._files(lambda files: files.write(place, data))
            elif (name := inside(path)) is not None:
                self.session().upload_file_from_bytes(name, data)
            else:
                return self._upload_by_command(path, data)
        except (SandboxError, OSError, ValueError) as problem:
            return code_of(problem)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        if not is_absolute(path):
            return FileDownloadResponse(path, error="invalid_path")
        place = self._place(path)
        try:
            if place is not None:
                if self._files(lambda files: files.stat(place)).type == "directory":
                    return FileDownloadResponse(path, error="is_directory")
                return FileDownloadResponse(path, self._files(lambda files: files.read(place)))
            if (name := inside(path)) is not None:
                return FileDownloadResponse(path, self.session().download_file_to_bytes(name))
        except (SandboxError, OSError, ValueError) as problem:
            return FileDownloadResponse(path, error=code_of(problem))
        return self._download_by_command(path)

    # Outside of the workspace a command has to carry them, through a file in it.

    def _upload_by_command(self, path: str, data: bytes) -> str | None:
        folder = shlex.quote(posixpath.dirname(path))
        part = self._part()
        session = self.session()
        session.upload_file_from_bytes(part, data)
        try:
            command = f"mkdir -p {folder} && cat < {part} > {shlex.quote(path)}"
            done = session.execute(command, self._timeout)
        finally:
            self._remove(session, part)
        return None if done["exit_code"] == 0 else shell_code(done["stderr"])

    def _download_by_command(self, path: str) -> FileDownloadResponse:
        part = self._part()
        session = self.session()
        try:
            done = session.execute(f"cat < {shlex.quote(path)} > {part}", self._timeout)
            if done["exit_code"] == 0:
                return FileDownloadResponse(path, session.download_file_to_bytes(part))
            return FileDownloadResponse(path, error=shell_code(done["stderr"]))
        except (SandboxError, OSError, ValueError) as problem:
            return FileDownloadResponse(path, error=code_of(problem))
        finally:
            self._remove(session, part)

    @staticmethod
    def _part() -> str:
        return f".threadbox-{secrets.token_hex(8)}"

    @staticmethod
    def _remove(session: Session, part: str) -> None:
        """A left-over is no reason to fail: it goes with the session."""
        with contextlib.suppress(SandboxError, OSError, ValueError):
            try:
                session.files.remove(part)
            except UnsupportedError:
                session.execute(f"rm -f {part}")
