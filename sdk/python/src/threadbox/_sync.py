# SPDX-License-Identifier: Apache-2.0
"""The blocking client."""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _core as core
from ._code import Code, make_cell
from ._current import Current
from ._engine import (
    DEFAULT_TIMEOUT,
    DEFAULT_TIMEOUT_MINUTES,
    Engine,
    Event,
    iterate,
    run,
)
from ._engine_code import Execution
from ._files import Files
from ._modes import choose_mode, make_engine
from ._processes import Processes
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
from ._shells import Shells
from ._storage import Artifacts, Volumes

StrPath = str | os.PathLike[str]


class _Commands:
    """What a session can do, and a client for its current session."""

    def _session(self) -> core.SessionCore:
        raise NotImplementedError

    def execute(
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
        thread (its files are gone) and runs the command once more. A ``KeyboardInterrupt`` kills
        the command in the sandbox.

        Raises ``CommandRefusedError`` (a ``ValueError``) when the policy forbids the command,
        ``SessionExpiredError`` when the session is gone for good, and in remote mode
        ``requests.HTTPError`` for whatever else the server refuses.
        """
        made = core.make_command(command, timeout, cwd, env, stdin)
        return executed_result(run(self._session().execute(made, auto_retry)))

    def stream(
        self,
        command: str,
        timeout: float = DEFAULT_TIMEOUT,
        auto_retry: bool = True,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> Generator[Event, None, None]:
        """Runs a command and yields what happens: ``Started``, ``Output`` as it is printed,
        ``Exited``.

            for event in client.stream("make"):
                if isinstance(event, Output):
                    print(event.text, end="")

        Leaving the loop early, or interrupting it, kills the command.
        """
        made = core.make_command(command, timeout, cwd, env, stdin)
        return iterate(self._session().stream(made, auto_retry))

    def upload_file(self, file_path: StrPath, remote_name: str | None = None) -> UploadResult:
        """Copies a local file into the workspace, by default under its own name. ``/`` in
        ``remote_name`` makes directories."""
        return uploaded_result(run(self._session().upload_path(file_path, remote_name)))

    def upload_file_from_bytes(self, filename: str, data: bytes) -> UploadResult:
        """Makes a file of the workspace from bytes."""
        return uploaded_result(run(self._session().upload(filename, data)))

    def download_file(self, remote_name: str, local_path: StrPath | None = None) -> str:
        """Copies a file of the workspace to ``local_path``, by default into the current directory
        under the same name. Returns the local path."""
        return run(self._session().download_path(remote_name, local_path))

    def download_file_to_bytes(self, remote_name: str) -> bytes:
        """The content of a file of the workspace."""
        return run(self._session().download(remote_name))

    def list_files(
        self, path: str = "", *, limit: int | None = None, offset: int = 0
    ) -> FileListResult:
        """The top level of the workspace, or of a directory of it, newest first."""
        return files_result(run(self._session().list(path, limit, offset)))

    @property
    def processes(self) -> Processes:
        """What goes on without anybody waiting for it; terminals too."""
        return Processes(self._session())

    @property
    def shells(self) -> Shells:
        """To keep directory, variables and functions between commands."""
        return Shells(self._session())

    @property
    def code(self) -> Code:
        """To run Python, JavaScript and bash that keep their state between calls."""
        return Code(self._session())

    def execute_code(
        self,
        code: str,
        language: str = "python",
        timeout: float = DEFAULT_TIMEOUT,
        *,
        env: Mapping[str, str] | None = None,
    ) -> Execution:
        """Runs code in the usual context of its language: see ``Code.run``."""
        session, cell = self._session(), make_cell(code, language, None, env, timeout)
        return run(core.code_engine(session.engine).run_code(session.session_id, cell))

    @property
    def files(self) -> Files:
        """The workspace: read, write, edit, search, move."""
        return Files(self._session())

    @property
    def artifacts(self) -> Artifacts:
        """What of it stays after the session's end."""
        session = self._session()
        return Artifacts(session.engine, session)


class Session(_Commands):
    """One session of a thread. Safe to hand to another thread; ``with`` closes it."""

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

    def status(self) -> SessionResult:
        """The session as it is now, with the CPU and memory that it uses."""
        return session_result(run(self._core.status()))

    def close(self) -> None:
        """Ends the session with its commands and files."""
        run(self._core.close())

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        run(core.quietly(self._core.close()))


class SandboxClient(_Commands):
    """Sandboxes for the threads of an agent: each thread has a session, each session its own files.

        client = SandboxClient(mode="local")
        client.get_or_create_session(user_id="user123", thread_id="conversation_abc")
        result = client.execute("echo hello")
        print(result["stdout"])
        client.close_session()

    ``mode`` is "local" (in this process, no server) or "remote" (``server_url``). A
    ``server_url`` alone means remote. What is left open comes from ``SANDBOX_MODE``,
    ``SANDBOX_URL`` and ``SANDBOX_API_KEY``; without those it is local. Further keyword arguments
    are settings of local mode.

    One client may be used by many threads: a session that a thread (or asyncio task) has chosen
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
        self._engine: Engine = make_engine(chosen, True, api_key, ssl_context, local)
        self._current = Current()
        core.close_with(self, self._engine)

    def _session(self) -> core.SessionCore:
        return self._current.get()

    # ---- sessions ----

    def get_or_create_session(
        self,
        user_id: str,
        thread_id: str,
        timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
        *,
        policy: str | None = None,
    ) -> SessionResult:
        """Finds the session of a thread, or makes one, and uses it from now on.

        Files of the thread are there again as long as its session lives, which is
        ``timeout_minutes`` after its last use. ``status`` of the answer is "active" or "created".
        ``user_id`` is for logs only.
        """
        spec = core.make_spec(user_id, thread_id, timeout_minutes, policy or self.policy)
        session = run(core.open_session(self._engine, spec))
        self._current.choose(session)
        return session_result(session.info)

    def session(
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
    ) -> Session:
        """The session of a thread as an object of its own, which leaves the client's current
        session alone. Without a thread it is a fresh, anonymous one. Of a server, a new one has
        ``volumes`` of its user, ``{"name": …, "path": …, "read_only": …}`` each, and is made of an
        ``environment`` or an ``agent`` of the registry by a ``provider``."""
        policy = policy or self.policy
        spec = core.make_spec(
            user_id, thread_id, timeout_minutes, policy, volumes, environment, provider, agent
        )
        return Session(run(core.open_session(self._engine, spec)))

    def find_session(self, thread_id: str) -> Session | None:
        """The session of a thread as an object of its own, or None; none is made."""
        found = run(core.find_session(self._engine, thread_id))
        return None if found is None else Session(found)

    def session_by_id(self, session_id: str) -> Session:
        """A session of which somebody else knows the thread. Nobody is asked: if it is gone, the
        first use raises ``SessionExpiredError``, and ``auto_retry`` makes no other one."""
        return Session(core.session_by_id(self._engine, session_id))

    def create_session(self) -> str:
        """A fresh session of no thread, used from now on. Returns its id."""
        session = run(core.open_session(self._engine, core.make_spec(policy=self.policy)))
        self._current.choose(session)
        return session.session_id

    def close_session(self) -> None:
        """Ends the current session with its files, if there is one. What goes wrong is only
        logged: the session ends by itself later."""
        session = self._current.drop()
        if session is not None:
            run(core.quietly(session.close()))

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
    def volumes(self) -> Volumes:
        """Directories that outlive sessions; of a server."""
        return Volumes(self._engine)

    @property
    def kept(self) -> Artifacts:
        """What all sessions have kept, those that have ended too; of a server."""
        return Artifacts(self._engine)

    def get_status(self) -> SessionResult:
        """The current session as the server sees it, with the CPU and memory that it uses."""
        return session_result(run(self._session().status()))

    def health(self) -> Mapping[str, Any]:
        """How the server, or the engine in this process, is."""
        return run(self._engine.health())

    # ---- the client ----

    def close(self) -> None:
        """Gives back connections. Sessions live on; ``close_session`` ends one."""
        run(self._engine.close())

    def __enter__(self) -> SandboxClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = self._current.drop()
        if session is not None:
            run(core.quietly(session.close()))
        run(self._engine.close())


class BatchSandboxClient:
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
        self._engine: Engine = make_engine(chosen, True, api_key, ssl_context, local)
        core.close_with(self, self._engine)

    def execute_batch(
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
        return run(core.execute_batch(self._engine, spec, commands, timeout))

    def close(self) -> None:
        """Gives back connections."""
        run(self._engine.close())
