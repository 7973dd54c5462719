# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with files, as the provider "e2b" has them. No cloud is involved, and no key."""

from __future__ import annotations

from typing import Any

from threadbox import CodeResult, Session

from . import _boxes as boxes

WORKSPACE = "/workspace"


class E2BSandboxManager:
    """``api_key`` is kept and never sent anywhere: it belongs to another service.

    Paths are those of the workspace: relative to it, or beginning with /workspace.
    """

    def __init__(self, api_key: str | None = None) -> None:
        self.api_key = api_key
        self.active_sandboxes: dict[str, Session] = {}

    def start_sandbox(self, session_id: str, environment: str = "Python3") -> str:
        """Starts the sandbox of a session; returns its id."""
        session = boxes.start(session_id, environment, "e2b")
        self.active_sandboxes[session_id] = session
        return session.session_id

    def execute_code(self, session_id: str, code: str, language: str = "python") -> dict[str, Any]:
        """Runs code where the last call of the same language left off: ``stdout``, ``stderr``,
        ``error`` (None, or ``name``, ``value`` and ``traceback``), ``results`` and ``artifacts``.
        """
        execution = self._sandbox(session_id).execute_code(code, language)
        error = execution.error
        return {
            "stdout": execution.stdout,
            "stderr": execution.stderr,
            "error": None if error is None else vars(error).copy(),
            "results": [_shown(result) for result in execution.results],
            "artifacts": list(execution.artifacts),
        }

    def read_file(self, session_id: str, file_path: str) -> bytes:
        return self._sandbox(session_id).download_file_to_bytes(_in_workspace(file_path))

    def write_file(self, session_id: str, file_path: str, content: bytes | str) -> None:
        """Makes the directories of the path too."""
        data = content.encode() if isinstance(content, str) else content
        self._sandbox(session_id).upload_file_from_bytes(_in_workspace(file_path), data)

    def list_files(self, session_id: str, directory: str = "/") -> list[str]:
        """The names in a directory; "/" is the workspace."""
        session, path = self._sandbox(session_id), _in_workspace(directory)
        names: list[str] = []
        while True:
            page = session.list_files(path, offset=len(names))
            names += [entry["name"] for entry in page["files"]]
            if not page["truncated"] or not page["files"]:
                return names

    def stop_sandbox(self, session_id: str) -> bool:
        """False when this manager has started none for the session, or it is gone already."""
        started = self.active_sandboxes.pop(session_id, None)
        return started is not None and boxes.stop(session_id, started.session_id)

    def get_sandbox_url(self, session_id: str) -> str | None:
        """None: nothing in a sandbox can be reached from outside."""
        return None

    def _sandbox(self, session_id: str) -> Session:
        session = self.active_sandboxes.get(session_id)
        if session is None:
            raise ValueError(f"No active sandbox for session {session_id}")
        return session


E2BManager = E2BSandboxManager


def _shown(result: CodeResult) -> dict[str, Any]:
    shown = {name: result[name] for name in result.formats()}
    return {**shown, "is_main_result": result.is_main_result}


def _in_workspace(path: str) -> str:
    if path == "/" or path.rstrip("/") == WORKSPACE:
        return ""
    return path.removeprefix(WORKSPACE + "/")
