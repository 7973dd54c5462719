# SPDX-License-Identifier: Apache-2.0
"""Sessions over an engine, as coroutines: what the blocking and the asynchronous client share."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shlex
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from . import _validate as validate
from ._engine import (
    DEFAULT_TIMEOUT,
    DEFAULT_TIMEOUT_MINUTES,
    Command,
    Engine,
    Event,
    Executed,
    Exited,
    FileInfo,
    FileList,
    ProcessInfo,
    ProcessSpec,
    SessionInfo,
    SessionSpec,
    Stream,
    Uploaded,
    run,
)
from ._engine_code import CodeEngine
from ._engine_files import FileEngine
from ._engine_shells import ShellEngine
from ._engine_storage import storage_engine
from ._errors import CommandRefusedError, SandboxError, SessionExpiredError, UnsupportedError
from ._results import ExecuteResult, executed_result, failed_result

log = logging.getLogger("threadbox")
T = TypeVar("T")

NO_SESSION = "No active session. Call get_or_create_session() first."
THE_END = 1 << 50  # an offset that no output reaches


def make_spec(
    user_id: str = "",
    thread_id: str = "",
    timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
    policy: str | None = None,
    volumes: Sequence[Mapping[str, Any]] = (),
    environment: str = "",
    provider: str = "",
    agent: str = "",
) -> SessionSpec:
    return SessionSpec(
        validate.check_name(user_id, "user_id"),
        validate.check_name(thread_id, "thread_id"),
        validate.check_minutes(timeout_minutes),
        None if policy is None else validate.check_text(policy, "policy"),
        tuple(volumes),
        validate.check_name(environment, "environment"),
        validate.check_name(provider, "provider"),
        validate.check_name(agent, "agent"),
    )


def make_command(
    command: str,
    timeout: float = DEFAULT_TIMEOUT,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Command:
    return Command(
        validate.check_command(command),
        validate.check_timeout(timeout),
        None if cwd is None else validate.check_text(cwd, "cwd"),
        validate.check_env(env),
        validate.check_text(stdin, "stdin"),
    )


async def open_session(engine: Engine, spec: SessionSpec) -> SessionCore:
    """The session of the thread, made if there is none; a fresh one without a thread."""
    if spec.volumes:
        storage_engine(engine)
    if (spec.environment or spec.provider or spec.agent) and not hasattr(engine, "http"):
        raise UnsupportedError("environments, providers and agents are a server's: use remote mode")
    info = await find_or_create(engine, spec)
    return SessionCore(engine, spec, info)


async def find_or_create(engine: Engine, spec: SessionSpec) -> SessionInfo:
    if spec.thread_id:
        found = await engine.find_session(spec.thread_id)
        if found is not None:
            return found
    # Two callers may get here at once for one thread: the later one gets the other's session.
    return await engine.create_session(spec)


def session_to_find(engine: Engine, thread_id: str | None) -> SessionCore | None:
    """Of a thread of which only the name is known: good for nothing but to be closed."""
    if not thread_id:
        return None
    return SessionCore(engine, make_spec("", thread_id), SessionInfo("", thread_id))


async def find_session(engine: Engine, thread_id: str) -> SessionCore | None:
    """The session of the thread, if there is one."""
    spec = make_spec(thread_id=thread_id)
    found = await engine.find_session(spec.thread_id) if spec.thread_id else None
    return None if found is None else SessionCore(engine, spec, found)


def session_by_id(engine: Engine, session_id: str) -> SessionCore:
    """Nobody is asked whether it lives."""
    if not validate.check_name(session_id, "session_id"):
        raise ValueError("session_id is empty")
    core = SessionCore(engine, SessionSpec(), SessionInfo(session_id))
    core.renewable = False
    return core


class _Checked:
    """What is surely refused is not sent; what was refused is remembered. A class, since it is on
    the way of every command and a generator would cost several times as much."""

    __slots__ = ("_session",)

    def __init__(self, session: SessionCore, command: str) -> None:
        self._session = session
        if session.info.policy:
            session.engine.check_command(session.info.policy, command)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, CommandRefusedError):
            note: Callable[[str, CommandRefusedError], None] | None
            note = getattr(self._session.engine, "note_refusal", None)
            if note is not None:
                note(self._session.info.policy, problem)


class SessionCore:
    """One session. Its id changes when it had expired and a command made it anew."""

    def __init__(self, engine: Engine, spec: SessionSpec, info: SessionInfo) -> None:
        self.engine, self.spec, self.info = engine, spec, info
        self.closed = False
        self.renewable = True  # False when only its id is known: then another one is no substitute

    @property
    def session_id(self) -> str:
        return self.info.session_id

    def _id(self) -> str:
        if self.closed or not self.info.session_id:
            raise ValueError(NO_SESSION)
        return self.info.session_id

    async def renew(self) -> None:
        """Files are gone with the old session; whoever asked for a retry knows that."""
        self.info = await find_or_create(self.engine, self.spec)

    async def execute(self, command: Command, auto_retry: bool) -> Executed:
        with _Checked(self, command.command):
            try:
                return await self.engine.execute(self._id(), command)
            except SessionExpiredError:
                if not (auto_retry and self.renewable):
                    raise
            await self.renew()
            return await self.engine.execute(self._id(), again(command))

    async def stream(self, command: Command, auto_retry: bool) -> AsyncGenerator[Event, None]:
        began = False
        try:
            with _Checked(self, command.command):
                async with contextlib.aclosing(self.engine.stream(self._id(), command)) as events:
                    async for event in events:
                        began = True
                        yield event
                    return
        except SessionExpiredError:
            if began or not (auto_retry and self.renewable):
                raise
        await self.renew()
        retried = self.engine.stream(self._id(), again(command))
        async with contextlib.aclosing(retried) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            info: SessionInfo | None = self.info
            if not self.info.session_id:
                info = await self.engine.find_session(self.spec.thread_id)
            if info is not None:
                await self.engine.close_session(info.session_id)

    async def status(self) -> SessionInfo:
        return await self.engine.session_status(self._id())

    # ---- files ----

    async def upload(self, name: str, data: bytes) -> Uploaded:
        validate.check_filename(name)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        return await self.engine.upload_file(self._id(), name, bytes(data))

    async def upload_path(self, path: str | os.PathLike[str], name: str | None) -> Uploaded:
        data = read_local(path)
        return await self.upload(Path(path).name if name is None else name, data)

    async def download(self, name: str) -> bytes:
        validate.check_filename(name)
        return await self.engine.download_file(self._id(), name)

    async def download_path(self, name: str, path: str | os.PathLike[str] | None) -> str:
        data = await self.download(name)
        return write_local(name if path is None else path, data)

    async def list(self, path: str, limit: int | None, offset: int) -> FileList:
        validate.check_offset(offset)
        return await self.engine.list_files(self._id(), path, limit, offset)

    # ---- processes ----

    async def start(self, spec: ProcessSpec) -> ProcessInfo:
        with _Checked(self, spec.command or shlex.join(spec.argv or ())):
            return await self.engine.start(self._id(), spec)

    async def wait(self, process_id: int) -> ProcessInfo:
        """How the process ended, when it has. Its output stays."""
        following = self.engine.follow(self._id(), process_id, "all", THE_END)
        async with contextlib.aclosing(following) as events:
            async for event in events:
                if isinstance(event, Exited):
                    return event.process
        return await self.engine.process(self._id(), process_id)

    async def read_output(self, process_id: int, stream: Stream, offset: int) -> bytes:
        """All that is kept from an offset on, as of now."""
        parts: list[bytes] = []
        while True:
            page = await self.engine.output(self._id(), process_id, stream, offset, None)
            parts.append(page.data)
            offset = page.offset + len(page.data)
            if not page.data or offset >= page.total:
                return b"".join(parts)


def read_local(path: str | os.PathLike[str]) -> bytes:
    local = Path(path)
    if not local.is_file():
        raise FileNotFoundError(f"File not found: {local}")
    return local.read_bytes()


def write_local(path: str | os.PathLike[str], data: bytes) -> str:
    """Never half a file: a reader sees the old one or the new one. Returns where it is."""
    target = Path.cwd() / path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return str(target)


def make_process(
    command: str | None,
    argv: list[str] | None,
    cwd: str | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    tag: str,
    stdin: str,
    stdin_open: bool,
    pty: bool,
    rows: int,
    cols: int,
    idempotency_key: str | None,
) -> ProcessSpec:
    if (command is None) == (argv is None):
        raise ValueError("give either command or argv")
    return ProcessSpec(
        command=None if command is None else validate.check_command(command),
        argv=None if argv is None else validate.check_argv(argv),
        cwd=None if cwd is None else validate.check_text(cwd, "cwd"),
        env=validate.check_env(env),
        timeout=None if timeout is None else validate.check_timeout(timeout),
        tag=validate.check_label(tag, "tag"),
        stdin=validate.check_text(stdin, "stdin"),
        stdin_open=stdin_open,
        pty=validate.check_size(rows, cols) if pty else None,
        idempotency_key=idempotency_key
        and validate.check_label(idempotency_key, "idempotency_key"),
    )


def again(command: Command) -> Command:
    return dataclasses.replace(command, retry=True)


def file_engine(engine: Engine) -> FileEngine:
    if not hasattr(engine, "stat_file"):
        raise UnsupportedError("this engine knows only upload, download and list_files")
    return cast(FileEngine, engine)


def code_engine(engine: Engine) -> CodeEngine:
    if not hasattr(engine, "run_code"):
        raise UnsupportedError("this engine runs commands, not code with a state")
    return cast(CodeEngine, engine)


def shell_engine(engine: Engine) -> ShellEngine:
    if not hasattr(engine, "open_shell"):
        raise UnsupportedError("this engine has no shells that keep their state")
    return cast(ShellEngine, engine)


async def file_exists(engine: FileEngine, session_id: str, path: str) -> bool:
    try:
        await engine.stat_file(session_id, path)
    except FileNotFoundError:
        return False
    return True


async def walk(
    engine: FileEngine, session_id: str, path: str, recursive: bool, page: int
) -> AsyncGenerator[FileInfo, None]:
    cursor = None
    while True:
        found = await engine.walk_files(session_id, path, recursive, page, cursor)
        for one in found.files:
            yield one
        cursor = found.cursor
        if cursor is None:
            return


async def collect(items: AsyncGenerator[T, None]) -> list[T]:
    return [item async for item in items]


async def execute_batch(
    engine: Engine, spec: SessionSpec, commands: Sequence[str], timeout: float
) -> list[ExecuteResult]:
    session = await open_session(engine, spec)
    results: list[ExecuteResult] = []
    try:
        for text in commands:
            try:
                done = await session.execute(make_command(text, timeout), auto_retry=True)
                results.append(executed_result(done))
            except Exception as problem:
                results.append(failed_result(problem, session.session_id))
    finally:
        await quietly(session.close())
    return results


async def quietly(closing: Coroutine[Any, Any, None]) -> None:
    """What a closing is good for happens later anyway, when the session expires."""
    try:
        await closing
    except (SandboxError, OSError) as problem:
        log.warning("the session could not be closed: %s", problem)


def close_with(owner: object, engine: Engine) -> None:
    """Closes an engine when its owner is gone, at the interpreter's end at the latest. One of an
    event loop can only be closed there."""
    if engine.blocking:
        weakref.finalize(owner, _close, engine)


def _close(engine: Engine) -> None:
    run(engine.close())
