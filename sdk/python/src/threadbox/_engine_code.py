# SPDX-License-Identifier: Apache-2.0
"""The seam for code in interpreters that keep their state. The rules are those of ``Engine``, but
that code whose wait is abandoned is interrupted, not killed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._engine import DEFAULT_TIMEOUT


@dataclass(frozen=True)
class Cell:
    """Code to run: in a context, or in the usual one of its language."""

    code: str
    language: str | None = None
    context_id: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True)
class ContextSpec:
    language: str = "python"
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextInfo:
    """An interpreter that keeps its state from one call to the next."""

    context_id: str
    language: str = "python"
    cwd: str = ""
    state: str = "waiting"  # or running
    execution_count: int = 0
    waiting_calls: int = 0
    created_at: str = ""

    @property
    def id(self) -> str:
        return self.context_id


@dataclass(frozen=True)
class CodeResult:
    """What code showed, in every way that it can be shown; None where it can't. Images and
    documents are base64."""

    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    svg: str | None = None
    png: str | None = None
    jpeg: str | None = None
    pdf: str | None = None
    latex: str | None = None
    json: Any = None
    javascript: str | None = None
    data: Mapping[str, Any] | None = None
    chart: Any = None
    extra: Mapping[str, Any] | None = None
    is_main_result: bool = False

    def formats(self) -> list[str]:
        """The names of those that it has."""
        names = [name for name in self.__dataclass_fields__ if name != "is_main_result"]
        return [name for name in names if getattr(self, name) is not None]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


@dataclass(frozen=True)
class CodeError:
    """What code raised. ``TimeoutError``: its time was over. ``InterpreterLost``: its interpreter
    ended."""

    name: str
    value: str
    traceback: str = ""


@dataclass(frozen=True)
class CodeOutput:
    """Something that code printed, on ``stdout`` or ``stderr``."""

    stream: str
    text: str
    timestamp: str = ""


@dataclass(frozen=True)
class Logs:
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)


@dataclass
class Execution:
    """What a call printed (``logs``) and showed (``results``), and how it ended."""

    results: list[CodeResult] = field(default_factory=list)
    logs: Logs = field(default_factory=Logs)
    error: CodeError | None = None
    execution_count: int | None = None
    context_id: str = ""
    language: str = ""
    timed_out: bool = False
    interrupted: bool = False
    restarted: bool = False  # what earlier calls left was gone when it began
    state_lost: bool = False  # what it left is gone
    results_truncated: int = 0
    execution_time_ms: int = 0
    exit_code: int | None = None  # of bash
    artifacts: Sequence[str] = ()

    @property
    def text(self) -> str | None:
        """The value of the last expression."""
        return next((one.text for one in self.results if one.is_main_result), None)

    @property
    def stdout(self) -> str:
        return "".join(self.logs.stdout)

    @property
    def stderr(self) -> str:
        return "".join(self.logs.stderr)


# What a stream yields; the last is the whole, without what was yielded before.
CodeEvent = CodeOutput | CodeResult | CodeError | Execution


class CodeEngine(Protocol):
    async def run_code(self, session_id: str, cell: Cell) -> Execution: ...

    def stream_code(self, session_id: str, cell: Cell) -> AsyncGenerator[CodeEvent, None]: ...

    async def create_context(self, session_id: str, spec: ContextSpec) -> ContextInfo: ...

    async def contexts(self, session_id: str) -> Sequence[ContextInfo]: ...

    async def context(self, session_id: str, context_id: str) -> ContextInfo: ...

    async def restart_context(self, session_id: str, context_id: str) -> ContextInfo: ...

    async def interrupt_context(self, session_id: str, context_id: str) -> None: ...

    async def remove_context(self, session_id: str, context_id: str) -> None: ...


RESULT_FIELDS = frozenset(CodeResult.__dataclass_fields__)
ENDED_FIELDS = (
    "execution_count", "context_id", "language", "timed_out", "interrupted", "restarted",
    "state_lost", "results_truncated", "execution_time_ms", "exit_code", "artifacts",
)  # fmt: skip


def parse_result(body: Mapping[str, Any]) -> CodeResult:
    return CodeResult(**{key: value for key, value in body.items() if key in RESULT_FIELDS})


def parse_error(body: Mapping[str, Any] | None) -> CodeError | None:
    if body is None:
        return None
    return CodeError(body["name"], body["value"], body.get("traceback", ""))


def parse_end(body: Mapping[str, Any]) -> Execution:
    """What there is to say of a call when it has ended."""
    known = {key: body[key] for key in ENDED_FIELDS if key in body}
    return Execution(error=parse_error(body.get("error")), **known)


def parse_event(message: Mapping[str, Any]) -> CodeEvent | None:
    """A line of a stream. None: there is nothing to say of it."""
    kind = message["type"]
    if kind in ("stdout", "stderr"):
        return CodeOutput(kind, message["text"], message.get("timestamp", ""))
    if kind == "result":
        return parse_result(message)
    if kind == "error":
        return parse_error(message)
    return parse_end(message) if kind == "end_of_execution" else None


def parse_execution(body: Mapping[str, Any]) -> Execution:
    """A whole answer."""
    made = parse_end(body)
    made.results = [parse_result(one) for one in body.get("results", ())]
    made.logs = Logs([body["stdout"]] if body["stdout"] else [],
                     [body["stderr"]] if body["stderr"] else [])  # fmt: skip
    return made


def parse_context(body: Mapping[str, Any]) -> ContextInfo:
    fields = ContextInfo.__dataclass_fields__
    return ContextInfo(**{key: value for key, value in body.items() if key in fields})
