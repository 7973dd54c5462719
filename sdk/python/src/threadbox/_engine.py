# SPDX-License-Identifier: Apache-2.0
"""The seam: what a client needs of whatever runs sandboxes, as values and coroutines.

There are two kinds of engines. An *asynchronous* one suspends at its waits, in an event loop. A
*blocking* one has the same coroutines, but they block the calling thread and never suspend, so
that ``run`` below drives them to their end with a single ``send(None)``. Everything above this file
(sessions, retries, validation, processes, files) is written once, as coroutines over ``Engine``.

Rules for an engine:

* It knows nothing of the current session: each call names one.
* Errors are those of ``_errors``; ``SessionExpiredError`` whenever the session isn't there. A
  missing file is ``FileNotFoundError``, one that the sandbox's permissions forbid
  ``PermissionError``.
* A command that failed or timed out is an answer, not an error.
* When a wait is abandoned (``KeyboardInterrupt``, ``asyncio.CancelledError``) in the middle of
  ``execute`` or ``stream``, the command is killed in the sandbox before the exception goes on. An
  abandoned ``follow`` or ``attach`` ends nothing.
* A blocking engine may be used by many threads at once. It survives ``fork`` in the sense that a
  child either works or raises ``UnsupportedError``; it never disturbs the parent.
* Text is UTF-8; what isn't is replaced by U+FFFD in ``str`` fields. ``bytes`` are exact.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")

Stream = Literal["stdout", "stderr", "all"]
DEFAULT_TIMEOUT = 30.0
DEFAULT_TIMEOUT_MINUTES = 30.0


# ---- values ----


@dataclass(frozen=True)
class SessionSpec:
    """What ``create_session`` is asked for. Without a thread the session is anonymous."""

    user_id: str = ""
    thread_id: str = ""
    timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES
    policy: str | None = None  # None: the default of the engine
    volumes: Sequence[Mapping[str, Any]] = ()  # name, path and read_only of each
    environment: str = ""  # of a server's registry; with it, or one of the next two, by /api
    provider: str = ""
    agent: str = ""


@dataclass(frozen=True)
class SessionInfo:
    """A session as the engine knows it. Times are ISO 8601, UTC.

    ``status`` is created, existing (found by a create) or active (found otherwise).
    """

    session_id: str
    thread_id: str = ""
    status: str = "active"
    workspace_dir: str = "/workspace"
    user: str = "sandboxuser"
    worker: str = ""
    policy: str = ""
    created_at: str = ""
    last_activity: str = ""
    expires_at: str = ""
    files_count: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # what else it says (usage, url, …)


@dataclass(frozen=True)
class Command:
    """One run of bash text, to be waited for."""

    command: str
    timeout: float = DEFAULT_TIMEOUT
    cwd: str | None = None  # None: the workspace
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    retry: bool = False  # the second attempt, after the session had expired


@dataclass(frozen=True)
class Ended:
    """How a process ended. ``cause``: exited, signal, timeout, oom, killed, policy, lost."""

    exit_code: int
    cause: str = "exited"
    timed_out: bool = False
    signal: int | None = None
    limits_hit: Sequence[str] = ()
    execution_time_ms: int = 0
    cpu_time_ms: int = 0
    peak_memory_bytes: int = 0


@dataclass(frozen=True)
class Executed:
    """What ``execute`` answers: the end of the command and what it printed."""

    session_id: str
    process_id: int
    stdout: str
    stderr: str
    output: str  # both, in the order of printing
    ended: Ended
    truncated: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0


@dataclass(frozen=True)
class ProcessSpec:
    """What ``start`` is asked for: bash text, or an argv without a shell."""

    command: str | None = None
    argv: Sequence[str] | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None  # None: no end
    tag: str = ""
    stdin: str = ""
    stdin_open: bool = False
    pty: tuple[int, int] | None = None  # rows and columns of its terminal
    idempotency_key: str | None = None


@dataclass(frozen=True)
class ProcessInfo:
    """A process of a session. ``ended`` is there once ``state`` is exited."""

    process_id: int
    state: str  # running, exited
    command: str
    cwd: str = ""
    tag: str = ""
    pty: bool = False
    pid: int | None = None  # inside of the sandbox
    started_at: str = ""
    stdin_open: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    ended: Ended | None = None


@dataclass(frozen=True)
class OutputPage:
    """Bytes of a stream that begin at ``offset`` (later than asked, when some were dropped).
    ``total``: how many were printed so far; more can come while ``running``."""

    offset: int
    data: bytes
    total: int
    running: bool


@dataclass(frozen=True)
class Started:
    """The first event of a stream: the command runs, and this is its number."""

    process_id: int


@dataclass(frozen=True)
class Output:
    """A piece of output. ``dropped`` bytes before ``offset`` are not kept any more. Pieces are cut
    between characters. Of a remote engine's ``stream`` and ``follow``, bytes that are no UTF-8 come
    as U+FFFD; ``output`` and ``attach`` are exact."""

    stream: Stream
    offset: int
    data: bytes
    dropped: int = 0

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Exited:
    """The last event of a stream."""

    process: ProcessInfo

    @property
    def exit_code(self) -> int:
        return -1 if self.process.ended is None else self.process.ended.exit_code


Event = Started | Output | Exited


@dataclass(frozen=True)
class FileInfo:
    """A file or directory. ``name`` is relative to what was listed. ``modified``: ISO 8601."""

    name: str
    size_bytes: int
    modified: str
    permissions: str  # as ls shows them: -rw-r--r--
    type: str = ""  # file, directory, symlink, …
    path: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FileList:
    session_id: str
    workspace_dir: str
    files: Sequence[FileInfo]
    total_files: int
    total_size_bytes: int
    truncated: bool = False


@dataclass(frozen=True)
class Uploaded:
    filename: str
    path: str
    size_bytes: int


# ---- the engine ----


class Channel(Protocol):
    """Attached to a process: its bytes come, bytes for its stdin go. Nobody else is in the way: any
    number may be attached. Closing ends nothing."""

    @property
    def process(self) -> ProcessInfo:
        """The process as it was when the channel was opened."""
        ...

    async def receive(self, timeout: float | None = None) -> Output | Exited | None:
        """The next bytes; ``Exited`` when it ended; None after that. Raises ``TimeoutError`` when
        nothing came in so many seconds, and ``ConflictError`` when what was sent was refused (stdin
        is closed, no terminal); the channel stays usable after both."""
        ...

    async def send(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    async def resize(self, rows: int, cols: int) -> None: ...

    async def signal(self, signal: str | int, tree: bool = True) -> None: ...

    async def close(self) -> None: ...


class Engine(Protocol):
    """What runs sandboxes."""

    blocking: bool  # its coroutines never suspend

    # sessions

    async def find_session(self, thread_id: str) -> SessionInfo | None:
        """The session of a thread, with status "active"; does not count as use."""
        ...

    async def create_session(self, spec: SessionSpec) -> SessionInfo:
        """A new session (status "created"), or the one that the thread has already ("existing")."""
        ...

    async def session_status(self, session_id: str) -> SessionInfo:
        """With usage in ``more``; does not count as use."""
        ...

    async def close_session(self, session_id: str) -> None:
        """Ends it with its commands and files; an unknown session is fine."""
        ...

    # commands

    def check_command(self, policy: str, command: str) -> None:
        """Raises ``CommandRefusedError`` when that is known without asking anybody. The engine
        itself remains the authority; an engine that can't tell does nothing."""
        ...

    async def execute(self, session_id: str, command: Command) -> Executed: ...

    def stream(self, session_id: str, command: Command) -> AsyncGenerator[Event, None]:
        """``Started``, the output as it comes, ``Exited``. Closed early, the command is killed."""
        ...

    # processes

    async def start(self, session_id: str, spec: ProcessSpec) -> ProcessInfo:
        """Returns once it runs."""
        ...

    async def processes(self, session_id: str) -> Sequence[ProcessInfo]: ...

    async def process(self, session_id: str, process_id: int) -> ProcessInfo: ...

    async def output(
        self, session_id: str, process_id: int, stream: Stream, offset: int, limit: int | None
    ) -> OutputPage: ...

    def follow(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> AsyncGenerator[Output | Exited, None]:
        """From a byte offset on, until the process has ended and all was told."""
        ...

    async def write_stdin(self, session_id: str, process_id: int, data: bytes) -> int:
        """Returns when the process's pipe took all of it."""
        ...

    async def close_stdin(self, session_id: str, process_id: int) -> None: ...

    async def signal(
        self, session_id: str, process_id: int, signal: str | int, tree: bool
    ) -> ProcessInfo: ...

    async def resize(
        self, session_id: str, process_id: int, rows: int, cols: int
    ) -> ProcessInfo: ...

    async def kill(self, session_id: str, process_id: int) -> ProcessInfo:
        """With all that it started; answers how it ended."""
        ...

    async def attach(
        self, session_id: str, process_id: int, stream: Stream, offset: int
    ) -> Channel: ...

    # files of the workspace

    async def upload_file(self, session_id: str, name: str, data: bytes) -> Uploaded:
        """`/` in a name makes directories. The old file is replaced at the end, not before."""
        ...

    async def download_file(self, session_id: str, name: str) -> bytes: ...

    async def list_files(
        self, session_id: str, path: str, limit: int | None, offset: int
    ) -> FileList:
        """One level of a directory ("" is the workspace), newest first; does not count as use."""
        ...

    # the engine itself

    async def health(self) -> Mapping[str, Any]: ...

    async def close(self) -> None:
        """Gives back connections or sandboxes of its own. Sessions of a server go on."""
        ...


# ---- driving a blocking engine ----


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking engine suspended: it was written for an event loop")


def iterate(generator: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """The items of an asynchronous generator that never suspends; closed with this one."""
    try:
        while True:
            try:
                item = run(generator.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(generator.aclose())
