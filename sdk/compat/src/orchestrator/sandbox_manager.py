# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that run commands only, as the provider "docker" has them."""

from __future__ import annotations

from . import _boxes as boxes


class SandboxManager:
    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}  # by sandbox id

    def start_sandbox(self, session_id: str, environment: str) -> str:
        """Starts the sandbox of a session; returns its id."""
        sandbox_id = boxes.start(session_id, environment, "docker").session_id
        self._sessions[sandbox_id] = session_id
        return sandbox_id

    def stop_sandbox(self, container_id: str) -> bool:
        """False when this manager has started no such sandbox, or it is gone already."""
        session_id = self._sessions.pop(container_id, None)
        return session_id is not None and boxes.stop(session_id, container_id)
