# SPDX-License-Identifier: Apache-2.0
# Made from _sync.py by tools/make_async.py: change that file, not this one.
"""The client for asyncio."""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _core as core
from ._async_code import AsyncCode, make_cell
from ._async_files import AsyncFiles
from ._async_processes import AsyncProcesses
from ._async_shells import AsyncShells
from ._async_storage import AsyncArtifacts, AsyncVolumes
from ._current import Current
from ._engine import (
    DEFAULT_TIMEOUT,
    DEFAULT_TIMEOUT_MINUTES,
    Engine,
    Event,
)
from ._engine_code import Execution
from ._modes import choose_mode, make_engine
from ._results import (
    ExecuteResult,
    FileListResult,
    SessionResult,
    UploadResult,
    executed_result,
    files_result,
    session_result,
    uploaded_result,
)

StrPath = str | os.PathLike[str]


class _Commands:
    """What a session can do, and a client for its current session."""

    def _session(self) -> core.SessionCore:
        raise NotImplementedError

    async def execute(
        self,
        command: str,
        timeout: float = DEFAULT_TIMEOUT,
        auto_retry: bool = True,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> ExecuteResult:
        """Runs bash text in the sandbox and waits for its end.

        A command that fails is a result with its ``exit_code``; one that takes longer than
        ``timeout`` seconds is killed with all that it started: ``exit_code`` 124 and
        ``timed_out``. If the session has expired, ``auto_retry`` makes a new one for the same
        thread (its files are gone) and runs the command once more. Cancelling the task kills
        the command in the sandbox.

        Raises ``CommandRefusedError`` (a ``ValueError``) when the policy forbids the command,
        ``SessionExpiredError`` when the session is gone for good, and in remote mode
        ``requests.HTTPError`` for whatever else the server refuses.
        """
        made = core.make_command(command, timeout, cwd, env, stdin)
        return executed_result(await self._session().execute(made, auto_retry))

    def stream(
        self,
        command: str,
        timeout: float = DEFAULT_TIMEOUT,
        auto_retry: bool = True,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> AsyncGenerator[Event, None]:
        """Runs a command and yields what happens: ``Started``, ``Output`` as it is printed,
        ``Exited``.

            async for event in client.stream("make"):
                if isinstance(event, Output):
                    print(event.text, end="")

        Leaving the loop early, or cancelling it, kills the command.
        """
        made = core.make_command(command, timeout, cwd, env, stdin)
        return self._session().stream(made, auto_retry)

    async def upload_file(self, file_path: StrPath, remote_name: str | None = None) -> UploadResult:
        """Copies a local file into the workspace, by default under its own name. ``/`` in
        ``remote_name`` makes directories."""
        return uploaded_result(await self._session().upload_path(file_path, remote_name))

    async def upload_file_from_bytes(self, filename: str, data: bytes) -> UploadResult:
        """Makes a file of the workspace from bytes."""
        return uploaded_result(await self._session().upload(filename, data))

    async def download_file(self, remote_name: str, local_path: StrPath | None = None) -> str:
        """Copies a file of the workspace to ``local_path``, by default into the current directory
        under the same name. Returns the local path."""
        return await self._session().download_path(remote_name, local_path)

    async def download_file_to_bytes(self, remote_name: str) -> bytes:
        """The content of a file of the workspace."""
        return await self._session().download(remote_name)

    async def list_files(
        self, path: str = "", *, limit: int | None = None, offset: int = 0
    ) -> FileListResult:
        """The top level of the workspace, or of a directory of it, newest first."""
        return files_result(await self._session().list(path, limit, offset))

    @property
    def processes(self) -> AsyncProcesses:
        """What goes on without anybody waiting for it; terminals too."""
        return AsyncProcesses(self._session())

    @property
    def shells(self) -> AsyncShells:
        """To keep directory, variables and functions between commands."""
        return AsyncShells(self._session())

    @property
    def code(self) -> AsyncCode:
        """To run Python, JavaScript and bash that keep their state between calls."""
        return AsyncCode(self._session())

    async def execute_code(
        self,
        code: str,
        language: str = "python",
        timeout: float = DEFAULT_TIMEOUT,
        *,
        env: Mapping[str, str] | None = None,
    ) -> Execution:
        """Runs code in the usual context of its language: see ``AsyncCode.run``."""
        session, cell = self._session(), make_cell(code, language, None, env, timeout)
        return await core.code_engine(session.engine).run_code(session.session_id, cell)

    @property
    def files(self) -> AsyncFiles:
        """The workspace: read, write, edit, search, move."""
        return AsyncFiles(self._session())

    @property
    def artifacts(self) -> AsyncArtifacts:
        """What of it stays after the session's end."""
        session = self._session()
        return AsyncArtifacts(session.engine, session)


class AsyncSession(_Commands):
    """One session of a thread. Safe to hand to other tasks; ``async with`` closes it."""

    def __init__(self, made: core.SessionCore) -> None:
        self._core = made

    def _session(self) -> core.SessionCore:
        return self._core

    @property
    def session_id(self) -> str:
        """Changes when the session had expired and ``execute`` made it anew."""
        return self._core.session_id

    @property
    def thread_id(self) -> str:
        return self._core.spec.thread_id

    @property
    def info(self) -> SessionResult:
        """The session as it was when it was found or made."""
        return session_result(self._core.info)

    async def status(self) -> SessionResult:
        """The session as it is now, with the CPU and memory that it uses."""
        return session_result(await self._core.status())

    async def close(self) -> None:
        """Ends the session with its commands and files."""
        await self._core.close()

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await core.quietly(self._core.close())


class AsyncSandboxClient(_Commands):
    """Sandboxes for the threads of an agent: each thread has a session, each session its own files.

        client = AsyncSandboxClient(mode="local")
        await client.get_or_create_session(user_id="user123", thread_id="conversation_abc")
        result = await client.execute("echo hello")
        print(result["stdout"])
        await client.close_session()

    ``mode`` is "local" (in this process, no server) or "remote" (``server_url``). A
    ``server_url`` alone means remote. What is left open comes from ``SANDBOX_MODE``,
    ``SANDBOX_URL`` and ``SANDBOX_API_KEY``; without those it is local. Further keyword arguments
    are settings of local mode.

    One client may serve many tasks of one loop: a session that a task has chosen
    with ``get_or_create_session`` is the one that its next calls mean. ``session()`` gives an
    object to hand around instead. After a ``fork`` the child uses connections of its own.
    """

    def __init__(
        self,
        mode: str | None = None,
        server_url: str | None = None,
        api_key: str | None = None,
        *,
        policy: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        **local: Any,
    ) -> None:
        chosen = choose_mode(mode, server_url)
        self.mode = chosen.name
        self.server_url = chosen.server_url
        self.policy = policy
        self._engine: Engine = make_engine(chosen, False, api_key, ssl_context, local)
        self._current = Current()
        core.close_with(self, self._engine)

    def _session(self) -> core.SessionCore:
        return self._current.get()

    # ---- sessions ----

    async def get_or_create_session(
        self,
        user_id: str,
        thread_id: str,
        timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
        *,
        policy: str | None = None,
    ) -> SessionResult:
        """Finds the session of a thread, or makes one, and uses it from now on.

        AsyncFiles of the thread are there again as long as its session lives, which is
        ``timeout_minutes`` after its last use. ``status`` of the answer is "active" or "created".
        ``user_id`` is for logs only.
        """
        spec = core.make_spec(user_id, thread_id, timeout_minutes, policy or self.policy)
        session = await core.open_session(self._engine, spec)
        self._current.choose(session)
        return session_result(session.info)

    async def session(
        self,
        thread_id: str = "",
        user_id: str = "",
        timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
        *,
        policy: str | None = None,
        volumes: Sequence[Mapping[str, Any]] = (),
        environment: str = "",
        provider: str = "",
        agent: str = "",
    ) -> AsyncSession:
        """The session of a thread as an object of its own, which leaves the client's current
        session alone. Without a thread it is a fresh, anonymous one. Of a server, a new one has
        ``volumes`` of its user, ``{"name": …, "path": …, "read_only": …}`` each, and is made of an
        ``environment`` or an ``agent`` of the registry by a ``provider``."""
        policy = policy or self.policy
        spec = core.make_spec(
            user_id, thread_id, timeout_minutes, policy, volumes, environment, provider, agent
        )
        return AsyncSession(await core.open_session(self._engine, spec))

    async def find_session(self, thread_id: str) -> AsyncSession | None:
        """The session of a thread as an object of its own, or None; none is made."""
        found = await core.find_session(self._engine, thread_id)
        return None if found is None else AsyncSession(found)

    def session_by_id(self, session_id: str) -> AsyncSession:
        """A session of which somebody else knows the thread. Nobody is asked: if it is gone, the
        first use raises ``SessionExpiredError``, and ``auto_retry`` makes no other one."""
        return AsyncSession(core.session_by_id(self._engine, session_id))

    async def create_session(self) -> str:
        """A fresh session of no thread, used from now on. Returns its id."""
        session = await core.open_session(self._engine, core.make_spec(policy=self.policy))
        self._current.choose(session)
        return session.session_id

    async def close_session(self) -> None:
        """Ends the current session with its files, if there is one. What goes wrong is only
        logged: the session ends by itself later."""
        session = self._current.drop()
        if session is not None:
            await core.quietly(session.close())

    cleanup = close_session

    @property
    def session_id(self) -> str | None:
        """Of the current session, or None."""
        session = self._current.find()
        return session.session_id or None if session is not None else None

    @property
    def thread_id(self) -> str | None:
        """Of the current session, or None. Set it to say which thread ``close_session`` means."""
        session = self._current.find()
        return None if session is None else session.spec.thread_id

    @thread_id.setter
    def thread_id(self, thread_id: str | None) -> None:
        if thread_id != self.thread_id:
            self._current.choose(core.session_to_find(self._engine, thread_id))

    @property
    def volumes(self) -> AsyncVolumes:
        """Directories that outlive sessions; of a server."""
        return AsyncVolumes(self._engine)

    @property
    def kept(self) -> AsyncArtifacts:
        """What all sessions have kept, those that have ended too; of a server."""
        return AsyncArtifacts(self._engine)

    async def get_status(self) -> SessionResult:
        """The current session as the server sees it, with the CPU and memory that it uses."""
        return session_result(await self._session().status())

    async def health(self) -> Mapping[str, Any]:
        """How the server, or the engine in this process, is."""
        return await self._engine.health()

    # ---- the client ----

    async def close(self) -> None:
        """Gives back connections. Sessions live on; ``close_session`` ends one."""
        await self._engine.close()

    async def __aenter__(self) -> AsyncSandboxClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = self._current.drop()
        if session is not None:
            await core.quietly(session.close())
        await self._engine.close()


class AsyncBatchSandboxClient:
    """Runs a list of commands in one session that lives only for them."""

    def __init__(
        self,
        mode: str | None = None,
        server_url: str | None = None,
        api_key: str | None = None,
        *,
        policy: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        **local: Any,
    ) -> None:
        chosen = choose_mode(mode, server_url)
        self.mode = chosen.name
        self.server_url = chosen.server_url
        self.policy = policy
        self._engine: Engine = make_engine(chosen, False, api_key, ssl_context, local)
        core.close_with(self, self._engine)

    async def execute_batch(
        self,
        commands: Sequence[str],
        timeout: float = DEFAULT_TIMEOUT,
        user_id: str = "batch_user",
        thread_id: str | None = None,
    ) -> list[ExecuteResult]:
        """Runs all of them in order, also after one that failed. One that could not be run has
        ``exit_code`` -1 and the reason in ``stderr``."""
        thread = thread_id or f"batch_{uuid.uuid4().hex[:12]}"
        spec = core.make_spec(user_id, thread, policy=self.policy)
        return await core.execute_batch(self._engine, spec, commands, timeout)

    async def close(self) -> None:
        """Gives back connections."""
        await self._engine.close()
