# SPDX-License-Identifier: Apache-2.0
"""A bash tool for any agent loop: no framework needed."""

from __future__ import annotations

from typing import Any, TypedDict

from .. import SandboxClient
from .._engine import DEFAULT_TIMEOUT_MINUTES
from .._results import FileListResult, UploadResult


class BashResult(TypedDict):
    exit_code: int
    stdout: str
    stderr: str
    execution_time_ms: int


class BashTool:
    """Runs commands in the sandbox of a conversation: one session per ``thread_id``, found again
    or made by each call. One tool serves many conversations, from many threads.

        tool = BashTool(mode="local")
        tool.execute("ls -l", user_id="user123", thread_id="conversation_abc")

    ``mode`` and ``server_url`` as of ``SandboxClient``, which takes the other settings, too; or
    give the ``client`` to use.
    """

    def __init__(
        self,
        mode: str | None = None,
        server_url: str | None = None,
        *,
        client: SandboxClient | None = None,
        timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
        **settings: Any,
    ) -> None:
        if client is not None and (mode or server_url or settings):
            raise TypeError("give either a client or the settings of one")
        self.client = client or SandboxClient(mode=mode, server_url=server_url, **settings)
        self.mode = self.client.mode
        self.server_url = self.client.server_url
        self.timeout_minutes = timeout_minutes

    def execute(
        self, command: str, user_id: str, thread_id: str, timeout: float = 30
    ) -> BashResult:
        """A command that fails is a result; one that the policy refuses raises ``ValueError``."""
        self._choose(user_id, thread_id)
        done = self.client.execute(command, timeout=timeout, auto_retry=True)
        return {
            "exit_code": done["exit_code"],
            "stdout": done["stdout"],
            "stderr": done["stderr"],
            "execution_time_ms": done["execution_time_ms"],
        }

    def upload_file(
        self, file_path: str, user_id: str, thread_id: str, remote_name: str | None = None
    ) -> UploadResult:
        """Copies a local file into the workspace."""
        self._choose(user_id, thread_id)
        return self.client.upload_file(file_path, remote_name)

    def download_file(
        self, remote_name: str, user_id: str, thread_id: str, local_path: str | None = None
    ) -> str:
        """Copies a file of the workspace; returns where it is now."""
        self._choose(user_id, thread_id)
        return self.client.download_file(remote_name, local_path)

    def list_files(self, user_id: str, thread_id: str) -> FileListResult:
        self._choose(user_id, thread_id)
        return self.client.list_files()

    def cleanup_session(self, thread_id: str | None = None) -> None:
        """Ends the session of a thread now, instead of when it has idled long enough; without a
        thread the one that was used last."""
        if thread_id:
            self.client.thread_id = thread_id
        self.client.close_session()

    def close(self) -> None:
        """Gives back connections; sessions live on."""
        self.client.close()

    def _choose(self, user_id: str, thread_id: str) -> None:
        if not thread_id:
            raise ValueError("thread_id is empty: without it each call would get a new sandbox")
        self.client.get_or_create_session(
            user_id=user_id, thread_id=thread_id, timeout_minutes=self.timeout_minutes
        )
