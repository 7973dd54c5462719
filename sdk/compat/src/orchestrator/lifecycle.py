# SPDX-License-Identifier: Apache-2.0
"""A session from its start to its end, with its sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .session_manager import SessionManager
from .state_manager import StateManager
from .unified_manager import UnifiedSandboxManager


class Lifecycle:
    """``storage_path`` is where sessions are noted, ``runtime_path`` where agents keep a state.
    What an agent does is its own business."""

    def __init__(
        self, storage_path: str, runtime_path: str, e2b_api_key: str | None = None
    ) -> None:
        self.session_mgr = SessionManager(storage_path)
        self.sandbox_mgr = UnifiedSandboxManager(e2b_api_key=e2b_api_key)
        self.state_mgr = StateManager(runtime_path)

    def start(
        self, agent_config: Mapping[str, Any], environment: str, provider: str = "docker"
    ) -> dict[str, Any]:
        """A new session with its sandbox: ``session_id``, ``sandbox_id``, ``provider``, ``status``
        ("running") and ``url`` (None: nothing in a sandbox can be reached from outside)."""
        session_id = self.session_mgr.create_session(agent_config)
        try:
            box = self.sandbox_mgr.start_sandbox(session_id, environment, provider)
        except BaseException:
            self.session_mgr.destroy_session(session_id)
            raise
        return {
            "session_id": session_id,
            "sandbox_id": box["sandbox_id"],
            "provider": box["provider"],
            "status": "running",
            "url": box.get("url"),
        }

    def stop(self, session_id: str, sandbox_id: str) -> bool:
        """Ends both; True also when they had ended before."""
        self.sandbox_mgr.stop_sandbox(session_id, sandbox_id)
        return self.session_mgr.destroy_session(session_id)
