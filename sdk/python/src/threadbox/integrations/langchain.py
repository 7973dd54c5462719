# SPDX-License-Identifier: Apache-2.0
"""The bash tool for LangChain and LangGraph agents.

    from threadbox.integrations.langchain import BASH_TOOLS, AgentContext

    agent = create_agent(model, BASH_TOOLS, context_schema=AgentContext)
    agent.invoke(messages, context=AgentContext(user_id="user123", session_id="conversation_abc"))

The model sees ``command`` and ``working_dir``. Whose sandbox it is comes from the runtime context
(``user_id``, ``session_id``); a context without ``session_id`` leaves it to the graph's own
``configurable.thread_id``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from .. import AsyncSandboxClient, SandboxClient
from .._engine import DEFAULT_TIMEOUT_MINUTES
from .._results import ExecuteResult
from ._extras import missing

try:
    from langchain.tools import InjectedToolArg, ToolRuntime
    from langchain_core.tools import BaseTool, StructuredTool
except ImportError as problem:
    raise missing("langchain", problem) from problem

logger = logging.getLogger(__name__)

TIMEOUT = 30.0
WORKSPACE = "/workspace"
NO_RUNTIME = "Runtime context not provided"
NO_THREAD = "No thread_id in context"
DESCRIPTION = """\
Execute bash command in persistent sandbox session.

Each conversation has its own isolated sandbox session where files persist
across multiple command executions. This enables:
- Creating files in one command and using them in subsequent commands
- Building up complex data processing pipelines
- Uploading/downloading files to/from the workspace

The sandbox session is automatically created on first use and persists
for the duration of the conversation ({minutes:g} min idle timeout).
Each command may take {timeout:g} seconds. There is no network.
Which commands are allowed is the policy of the sandbox: a refused one says why.

Args:
    command: Bash command to execute
    working_dir: Working directory, /workspace unless told

Returns:
    Dict with status, stdout, stderr, return_code
"""


@dataclass
class AgentContext:
    """A runtime context with what the tool looks for; any object with these attributes will do."""

    user_id: str
    session_id: str  # of the conversation: its thread


class _Clients:
    """Made when the first command comes, from ``SANDBOX_MODE``, ``SANDBOX_URL`` and
    ``SANDBOX_API_KEY``; one for blocking callers and one for each event loop."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._blocking: SandboxClient | None = None
        self._of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncSandboxClient] = (
            weakref.WeakKeyDictionary()
        )

    def blocking(self) -> SandboxClient:
        with self._lock:
            if self._blocking is None:
                self._blocking = SandboxClient(**self._settings)
            return self._blocking

    def of_this_loop(self) -> AsyncSandboxClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._of_loops.get(loop)
            if client is None:
                client = self._of_loops[loop] = AsyncSandboxClient(**self._settings)
            return client


_clients = _Clients()


def get_sandbox_client() -> SandboxClient:
    """The client of ``execute_bash_command`` for blocking callers, for files beside the tool."""
    return _clients.blocking()


def make_bash_tool(
    *,
    timeout: float = TIMEOUT,
    timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
    name: str = "execute_bash_command",
    **settings: Any,
) -> BaseTool:
    """``execute_bash_command`` with settings of its own: ``timeout`` of each command in seconds,
    ``timeout_minutes`` without use that a session lives, and those of ``SandboxClient``."""
    clients = _Clients(**settings) if settings else _clients

    def run(
        command: str,
        working_dir: str = WORKSPACE,
        runtime: Annotated[ToolRuntime[Any, Any] | None, InjectedToolArg] = None,
    ) -> dict[str, Any]:
        whose = _Whose.of(runtime)
        if whose.error:
            return {"status": "error", "error": whose.error}
        whose.log_command(command)
        try:
            session = clients.blocking().session(whose.thread_id, whose.user_id, timeout_minutes)
            _log_session(session.session_id, session.info.get("status", ""))
            return _answer(session.execute(command, timeout, cwd=_directory(working_dir)))
        except Exception as problem:
            return _failure(problem, command)

    async def run_async(
        command: str,
        working_dir: str = WORKSPACE,
        runtime: Annotated[ToolRuntime[Any, Any] | None, InjectedToolArg] = None,
    ) -> dict[str, Any]:
        whose = _Whose.of(runtime)
        if whose.error:
            return {"status": "error", "error": whose.error}
        whose.log_command(command)
        try:
            session = await clients.of_this_loop().session(
                whose.thread_id, whose.user_id, timeout_minutes
            )
            _log_session(session.session_id, session.info.get("status", ""))
            return _answer(await session.execute(command, timeout, cwd=_directory(working_dir)))
        except Exception as problem:
            return _failure(problem, command)

    return _structured(run, run_async, name, timeout, timeout_minutes)


def _structured(
    run: Callable[..., dict[str, Any]],
    run_async: Callable[..., Any],
    name: str,
    timeout: float,
    timeout_minutes: float,
) -> BaseTool:
    description = DESCRIPTION.format(minutes=timeout_minutes, timeout=timeout)
    return StructuredTool.from_function(run, run_async, name=name, description=description)


@dataclass
class _Whose:
    user_id: str = ""
    thread_id: str = ""
    error: str = ""

    @staticmethod
    def of(runtime: ToolRuntime[Any, Any] | None) -> _Whose:
        if runtime is None:
            return _Whose(error=NO_RUNTIME)
        context = runtime.context
        user_id, thread_id = _field(context, "user_id"), _field(context, "session_id")
        if not thread_id:
            thread_id = _field((runtime.config or {}).get("configurable"), "thread_id")
        return _Whose(user_id, thread_id, "" if thread_id else NO_THREAD)

    def log_command(self, command: str) -> None:
        logger.info(
            "[BASH] user=%s... thread=%s... cmd=%s",
            self.user_id[:8],
            self.thread_id[:12],
            command[:100],
        )


def _field(holder: object, name: str) -> str:
    value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
    return "" if value is None else str(value)


def _directory(working_dir: str) -> str | None:
    return None if working_dir in ("", WORKSPACE) else working_dir


def _log_session(session_id: str, status: str) -> None:
    logger.info("[BASH] Using session %s... (status=%s)", session_id[:12], status)


def _answer(done: ExecuteResult) -> dict[str, Any]:
    code = done["exit_code"]
    if code == 0:
        logger.info("[BASH] Command completed successfully (%sms)", done["execution_time_ms"])
    else:
        logger.error("[BASH] Command failed (exit=%s)", code)
        logger.error("[BASH] STDERR: %s", done["stderr"][:500])
    return {
        "status": "success" if code == 0 else "error",
        "stdout": done["stdout"],
        "stderr": done["stderr"],
        "return_code": code,
    }


def _failure(problem: Exception, command: str) -> dict[str, Any]:
    """The model reads it and can go on: a refusal or a server that is away ends no conversation."""
    logger.error("[BASH] Execution failed: %s", problem, exc_info=problem)
    return {
        "status": "error",
        "error": str(problem),
        "command": command[:200],
        "stdout": "",
        "stderr": "",
        "return_code": -1,
    }


execute_bash_command = make_bash_tool()
BASH_TOOLS = [execute_bash_command]
