# SPDX-License-Identifier: Apache-2.0
"""The integration guide for an agent's backend: its bash tool, as far as it is the SDK's matter.
What a framework adds to it is tested where the SDK's integrations are."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from sandbox_client_v2 import SandboxClient

logger = logging.getLogger("bash_tools")
_sandbox_client: SandboxClient | None = None


def get_sandbox_client(arguments) -> SandboxClient:
    """One for all calls of the tool."""
    global _sandbox_client
    if _sandbox_client is None:
        _sandbox_client = SandboxClient(**arguments)
    return _sandbox_client


async def execute_bash_command(arguments, command, runtime=None):
    """Bash Tool Integration: its calls, its log lines and its two kinds of answers."""
    if not runtime:
        return {"status": "error", "error": "Runtime context not provided"}
    user_id, thread_id = runtime.context.user_id, runtime.context.session_id
    logger.info(f"[BASH] user={user_id[:8]}... thread={thread_id[:12]}... cmd={command[:100]}")
    try:
        client = get_sandbox_client(arguments)
        info = client.get_or_create_session(
            user_id=user_id, thread_id=thread_id, timeout_minutes=30)
        logger.info(f"[BASH] Using session {info['session_id'][:12]}... (status={info['status']})")
        result = client.execute(command, timeout=30, auto_retry=True)
        if result['exit_code'] == 0:
            logger.info(f"[BASH] completed ({result['execution_time_ms']}ms)")
        else:
            logger.error(f"[BASH] STDERR: {result.get('stderr', '')[:500]}")
        return {"status": "success" if result['exit_code'] == 0 else "error",
                "stdout": result.get('stdout', ''), "stderr": result.get('stderr', ''),
                "return_code": result['exit_code']}
    except Exception as e:
        logger.error(f"[BASH] Execution failed: {e}", exc_info=True)
        return {"status": "error", "error": str(e), "command": command[:200], "stdout": "",
                "stderr": "", "return_code": -1}


@pytest.fixture
def tool(arguments):
    """The tool for a conversation, as an agent calls it."""
    global _sandbox_client
    _sandbox_client = None

    def call(command, thread):
        runtime = SimpleNamespace(context=SimpleNamespace(user_id="user-1234567890",
                                                          session_id=thread))
        return execute_bash_command(arguments, command, runtime=runtime)

    yield call
    _sandbox_client.close()


def test_the_tools_example(tool, thread, caplog):
    caplog.set_level(logging.INFO, "bash_tools")

    async def converse():
        await tool("echo '[{\"amount\": 42}, {\"amount\": 100}]' > data.json", thread)
        return await tool(
            "jq -r '.[].amount' data.json | awk '{sum += $1} END {print sum}'", thread)

    result = asyncio.run(converse())
    assert result == {"status": "success", "stdout": "142\n", "stderr": "", "return_code": 0}
    assert "(status=created)" in caplog.text and "(status=active)" in caplog.text
    get_sandbox_client({}).find_session(thread).close()


def test_failures_are_answers(tool, thread):
    async def converse():
        return [await tool(c, thread) for c in ("ls none.txt", "curl http://example.com", " ")]

    failed, refused, empty = asyncio.run(converse())
    assert failed["status"] == "error" and failed["return_code"] == 2
    assert "none.txt" in failed["stderr"]
    assert refused["return_code"] == -1 and "curl" in refused["error"]
    assert refused["command"] == "curl http://example.com"
    assert empty["return_code"] == -1 and "Empty command" in empty["error"]
    get_sandbox_client({}).find_session(thread).close()


def test_conversations_at_once_do_not_mix(tool, thread):
    async def converse(name):
        await tool(f"echo {name} > name", thread + name)
        return (await tool("cat name", thread + name))["stdout"]

    async def all_of_them():
        return await asyncio.gather(*[converse(f"c{n}") for n in range(4)])

    assert asyncio.run(all_of_them()) == [f"c{n}\n" for n in range(4)]
    for n in range(4):
        get_sandbox_client({}).find_session(f"{thread}c{n}").close()


def test_the_modes_of_the_settings(mode, monkeypatch, url):
    """Configuration: SANDBOX_MODE and SANDBOX_URL, which a backend may leave to the client."""
    monkeypatch.setenv("SANDBOX_MODE", mode)
    monkeypatch.setenv("SANDBOX_URL", url)
    with SandboxClient() as client:
        assert client.mode == mode
        assert client.health()["status"] == "healthy"
