# SPDX-License-Identifier: Apache-2.0
"""What an agent remembers between runs: ``agent/<session id>/state.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._boxes import check_session_id


class StateManager:
    """Each session has a state of its own: what one writes, another does not read."""

    def __init__(self, runtime_path: str) -> None:
        self.runtime_path = Path(runtime_path)

    def read_state(self, session_id: str) -> dict[str, Any]:
        """Empty when nothing was written."""
        try:
            text = self._file(session_id).read_text()
        except FileNotFoundError:
            return {}
        state: dict[str, Any] = json.loads(text)
        return state

    def write_state(self, session_id: str, state: Mapping[str, Any]) -> bool:
        """Replaces the state; a reader sees the old one or the new one. True always."""
        text = json.dumps(dict(state), indent=2) + "\n"
        file = self._file(session_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"state.{os.getpid()}.part")
        part.write_text(text)
        part.replace(file)
        return True

    def _file(self, session_id: str) -> Path:
        return self.runtime_path / "agent" / check_session_id(session_id) / "state.json"
