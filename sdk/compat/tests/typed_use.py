# SPDX-License-Identifier: Apache-2.0
"""No test: how users write typed code. mypy --strict has to agree with all of it."""

from __future__ import annotations

import sandbox_client
from orchestrator.lifecycle import Lifecycle
from sandbox_client_v2 import SandboxClient, SessionExpiredError
from server import get_server_instance


def converse(url: str) -> str:
    with SandboxClient(mode="remote", server_url=url) as client:
        client.get_or_create_session("user", "thread", timeout_minutes=30)
        try:
            return client.execute("echo hello", timeout=10, auto_retry=False)["stdout"]
        except SessionExpiredError:
            return ""


def first_generation(url: str) -> tuple[str, int]:
    with sandbox_client.SandboxClient(url) as client:
        result = client.execute("ls")
        return result["output"], result["exit_code"]


def in_process(thread_id: str) -> str:
    server = get_server_instance()
    session = server.get_session_by_thread(thread_id) or server.create_session("u", thread_id, 30)
    return server.execute_command(session["session_id"], "ls", 30)["stdout"]


def orchestrated() -> bool:
    lifecycle = Lifecycle("./storage", "./sandbox_runtime", e2b_api_key=None)
    session = lifecycle.start({"type": "code_executor"}, "Python3", provider="e2b")
    return lifecycle.stop(session["session_id"], session["sandbox_id"])
