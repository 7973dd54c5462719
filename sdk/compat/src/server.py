# SPDX-License-Identifier: Apache-2.0
"""The server of the second generation, under its name.

``python server.py`` (or ``python -m server``) starts ``threadbox serve``: the program that
``THREADBOX_BINARY`` names, else the one that the wheel carries, else the one of ``PATH``. Settings
are environment variables; a file ``.env`` in the current directory gives those that are not set.

Imported, it is what clients of that generation call in local mode:

    from server import get_server_instance, SessionExpiredError

It runs in this process, or where ``SANDBOX_MODE`` and ``SANDBOX_URL`` say.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import threadbox
from threadbox import (
    ExecuteResult,
    FileListResult,
    Session,
    SessionExpiredError,
    SessionResult,
    UploadResult,
)

__all__ = ["SandboxServer", "SessionExpiredError", "get_server_instance", "main"]


class SandboxServer:
    """What a client of local mode calls. Each call names its session; any thread may call."""

    def __init__(self, client: threadbox.SandboxClient | None = None) -> None:
        self._client = threadbox.SandboxClient() if client is None else client

    def get_session_by_thread(self, thread_id: str) -> SessionResult | None:
        """The session of a thread, or None. Does not count as use."""
        found = self._client.find_session(thread_id)
        return None if found is None else found.info

    def create_session(
        self, user_id: str, thread_id: str, timeout_minutes: float = 30
    ) -> SessionResult:
        """A new session (``status`` "created"), or the one that the thread has ("existing")."""
        info = self._client.session(thread_id, user_id, timeout_minutes).info
        if info["status"] == "active":
            info["status"] = "existing"
        return info

    def execute_command(self, session_id: str, command: str, timeout: float = 30) -> ExecuteResult:
        """Runs bash text. ``ValueError`` when the policy forbids it."""
        with self._session(session_id) as session:
            return session.execute(command, timeout, auto_retry=False)

    def upload_file(self, session_id: str, filename: str, content: bytes) -> UploadResult:
        """``ValueError`` for a bad name, and when a limit is exceeded."""
        with self._session(session_id) as session:
            return session.upload_file_from_bytes(filename, content)

    def download_file(self, session_id: str, filename: str) -> bytes:
        """``FileNotFoundError`` when there is none."""
        with self._session(session_id) as session:
            return session.download_file_to_bytes(filename)

    def list_files(self, session_id: str) -> FileListResult:
        with self._session(session_id) as session:
            return session.list_files()

    def cleanup_session(self, session_id: str) -> dict[str, str]:
        """Ends a session with its files; one that is gone is fine."""
        self._client.session_by_id(session_id).close()
        return {"status": "cleaned_up", "session_id": session_id}

    @contextlib.contextmanager
    def _session(self, session_id: str) -> Iterator[Session]:
        session = self._client.session_by_id(session_id)
        try:
            try:
                yield session
            except ValueError:
                session.status()  # that it is gone matters more than what was asked of it
                raise
        except SessionExpiredError as problem:
            raise SessionExpiredError(f"Session {session_id} not found or expired") from problem


_lock = threading.Lock()
_instance: SandboxServer | None = None


def get_server_instance() -> SandboxServer:
    """The same one for the whole process."""
    global _instance  # noqa: PLW0603
    with _lock:
        if _instance is None:
            _instance = SandboxServer()
        return _instance


# ---- the program ----

SETTING = re.compile(r"""(?:export\s+)?(\w+)\s*=\s*("[^"]*"|'[^']*'|.*?)\s*(?:(?<=\s)\#.*)?""")


def read_settings(path: Path) -> dict[str, str]:
    """The lines NAME=value of a file, if there is one."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    found = [SETTING.fullmatch(line.strip()) for line in text.splitlines()]
    return {
        one[1]: one[2][1:-1] if one[2][:1] in ('"', "'") else one[2]
        for one in found
        if one is not None and one[2]
    }


def find_binary() -> str:
    """The ``threadbox`` program; ``FileNotFoundError`` says how to come by one."""
    named = os.environ.get("THREADBOX_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"THREADBOX_BINARY names {named}, which can't be run")
        return named
    package = importlib.util.find_spec("threadbox")
    if package is not None and package.origin:
        carried = Path(package.origin).parent / "_bin" / "threadbox"
        if os.access(carried, os.X_OK):
            return str(carried)
    found = shutil.which("threadbox")
    if found is None:
        raise FileNotFoundError(
            "there is no program threadbox: build it (./run --build-only) and name it in "
            "THREADBOX_BINARY, or put it into PATH"
        )
    return found


def main() -> NoReturn:
    """Becomes the server: signals reach it, and its exit code is ours."""
    for name, value in read_settings(Path(".env")).items():
        os.environ.setdefault(name, value)
    try:
        binary = find_binary()
    except FileNotFoundError as problem:
        sys.exit(f"server: {problem}")
    os.execv(binary, [binary, "serve", *sys.argv[1:]])  # noqa: S606  (no shell is wanted)


if __name__ == "__main__":
    main()
