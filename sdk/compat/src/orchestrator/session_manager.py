# SPDX-License-Identifier: Apache-2.0
"""Sessions as directories of a store: ``sessions/session_<id>`` with ``session.json``."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ._boxes import check_session_id


class SessionManager:
    def __init__(self, storage_path: str) -> None:
        self.storage_path = Path(storage_path)

    def create_session(self, agent_config: Mapping[str, Any]) -> str:
        """Makes the directory of a new session; returns the id."""
        session_id = str(uuid.uuid4())
        self._directory(session_id).mkdir(parents=True)
        self._write(session_id, {"agent_config": dict(agent_config), "created_at": _now()})
        return session_id

    def destroy_session(self, session_id: str) -> bool:
        """Notes the end. What the session has stored stays, it is the store's; True always."""
        if self._directory(session_id).is_dir():
            self._write(session_id, {**self._read(session_id), "destroyed_at": _now()})
        return True

    def _directory(self, session_id: str) -> Path:
        return self.storage_path / "sessions" / f"session_{check_session_id(session_id)}"

    def _read(self, session_id: str) -> dict[str, Any]:
        try:
            found = json.loads((self._directory(session_id) / "session.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, session_id: str, facts: Mapping[str, Any]) -> None:
        text = json.dumps({"session_id": session_id, **facts}, indent=2) + "\n"
        (self._directory(session_id) / "session.json").write_text(text)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
