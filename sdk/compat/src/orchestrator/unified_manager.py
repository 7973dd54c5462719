# SPDX-License-Identifier: Apache-2.0
"""One interface to sandboxes of both providers."""

from __future__ import annotations

from typing import Any, Literal, cast

from .e2b_manager import E2BSandboxManager
from .sandbox_manager import SandboxManager

SandboxProvider = Literal["docker", "e2b"]


class UnifiedSandboxManager:
    """The providers differ in what they offer: "e2b" also has files and code."""

    def __init__(self, e2b_api_key: str | None = None) -> None:
        self.docker_manager = SandboxManager()
        self.e2b_manager = E2BSandboxManager(api_key=e2b_api_key)
        self.session_providers: dict[str, SandboxProvider] = {}

    def start_sandbox(
        self, session_id: str, environment: str, provider: str = "docker"
    ) -> dict[str, Any]:
        """Starts the sandbox of a session: ``sandbox_id``, ``provider``, ``session_id``, and of
        e2b ``url``."""
        if provider not in ("docker", "e2b"):
            raise ValueError(f"Unknown provider: {provider}")
        e2b = provider == "e2b"
        manager = self.e2b_manager if e2b else self.docker_manager
        sandbox_id = manager.start_sandbox(session_id, environment)
        self.session_providers[session_id] = cast(SandboxProvider, provider)
        answer = {"sandbox_id": sandbox_id, "provider": provider, "session_id": session_id}
        return {**answer, "url": self.e2b_manager.get_sandbox_url(session_id)} if e2b else answer

    def stop_sandbox(self, session_id: str, sandbox_id: str) -> bool:
        """False when this manager has started none for the session, or it is gone already."""
        if self.get_provider(session_id) == "e2b":
            stopped = self.e2b_manager.stop_sandbox(session_id)
        else:
            stopped = self.docker_manager.stop_sandbox(sandbox_id)
        if stopped:
            self.session_providers.pop(session_id, None)
        return stopped

    def execute_code(self, session_id: str, code: str, language: str = "python") -> dict[str, Any]:
        """See ``E2BSandboxManager.execute_code``; the other provider can't."""
        if self.get_provider(session_id) != "e2b":
            raise NotImplementedError("code is run by sandboxes of the provider e2b only")
        return self.e2b_manager.execute_code(session_id, code, language)

    def get_provider(self, session_id: str) -> SandboxProvider | None:
        """What the session's sandbox was started with; None when it has none."""
        return self.session_providers.get(session_id)
