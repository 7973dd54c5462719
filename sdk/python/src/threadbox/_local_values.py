# SPDX-License-Identifier: Apache-2.0
"""The tuples of the native library as values of the seam, and its errors as ours."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from . import _errors as errors
from ._engine import (
    Ended,
    Executed,
    FileInfo,
    FileList,
    OutputPage,
    ProcessInfo,
    SessionInfo,
)
from ._engine_shells import ShellInfo, ShellRun
from ._native import EngineError

FILE_TYPES = ("file", "directory", "symlink", "other")
WORKSPACE = "/workspace"
# What a shell that had to be opened again has of the one before.
RESTORED = ("cwd", "variables", "functions", "options", "aliases", "traps", "umask")


class LocalFileNotFoundError(errors.SandboxError, FileNotFoundError):
    pass


class LocalPermissionError(errors.SandboxError, PermissionError):
    pass


KINDS: Mapping[str, type[errors.SandboxError]] = {
    "not_found": errors.SessionExpiredError,
    "no_process": errors.ProcessNotFoundError,
    "conflict": errors.ConflictError,
    "limited": errors.LimitExceededError,
    "exhausted": errors.CapacityError,
    "unavailable": errors.CapacityError,
    "set_up": errors.UnsupportedError,
    "limit": errors.LimitExceededError,
    "invalid": errors.InvalidRequestError,
    "internal": errors.ServerError,
    "file_not_found": LocalFileNotFoundError,
    "file_denied": LocalPermissionError,
    "file_full": errors.LimitExceededError,
    "file_too_large": errors.LimitExceededError,
    "file_too_many": errors.LimitExceededError,
    "file_exists": errors.ConflictError,
    "file_not_empty": errors.ConflictError,
    "file_changed": errors.ConflictError,
}
# To who reads, only regular files below the workspace exist.
ABSENT = {"file_not_regular", "file_outside", "file_blocked"}


def translate(problem: EngineError, name: str = "") -> errors.SandboxError:
    """The error of the seam; ``name`` is the file that it is about."""
    kind, message, detail = problem.args
    if kind == "policy":
        command, pattern, offset = detail
        return errors.CommandRefusedError(
            message, command=command, forbidden_pattern=pattern, offset=offset
        )
    if kind == "edit":
        failed = errors.EditError(message)
        failed.matches, failed.lines = detail
        return failed
    if kind == "file_not_found":
        message = f"File not found in workspace: {name}" if name else message
    if kind.startswith("file_"):
        return KINDS.get(kind, errors.InvalidRequestError)(message)
    return KINDS.get(kind, errors.ServerError)(message)


def translate_read(problem: EngineError, name: str) -> errors.SandboxError:
    kind, message, _ = problem.args
    if kind in ABSENT:
        return LocalFileNotFoundError(f"File not found in workspace: {name} ({message})")
    return translate(problem, name)


def when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def session_info(
    view: tuple[Any, ...], worker: str, files: int | None = None, more: Mapping[str, Any] = {}
) -> SessionInfo:
    session_id, thread_id, status, policy, created, last, expires = view
    return SessionInfo(
        session_id=session_id,
        thread_id=thread_id,
        status=status,
        worker=worker,
        policy=policy,
        created_at=when(created),
        last_activity=when(last),
        expires_at=when(expires),
        files_count=files,
        more=more,
    )


def status_info(status: tuple[Any, ...], facts: Mapping[str, Any]) -> SessionInfo:
    view, awake, running, before, load, between = status
    memory, cpu, processes = load
    more: dict[str, Any] = {
        "running_commands": running,
        "sandbox": "running" if awake else "asleep",
        "memory_bytes": memory,
        "memory_mb": None if memory is None else round(memory / (1 << 20), 2),
        "cpu_time_ms": None if cpu is None else cpu // 1000,
        "cpu_percent": None,
        "processes": processes,
        "memory_limit_bytes": facts["memory_limit_bytes"],
        "cpu_limit_percent": facts["cpu_quota"] // 1000,
    }
    if cpu is not None and before[1] is not None and between > 0:
        more["cpu_percent"] = round((cpu - before[1]) / between * 100, 1)
    return session_info(view, facts["worker"], more=more)


def executed(answer: tuple[Any, ...], session_id: str, timeout: float) -> Executed:
    number, stdout, stderr, output, end, truncated, out_bytes, err_bytes = answer
    ended = Ended(*end)
    if ended.timed_out:
        whole, part = divmod(max(1, round(timeout * 1000)), 1000)
        late = f"timed out after {whole}.{part:03} s\n" if part else f"timed out after {whole} s\n"
        stderr, output = _with_line(stderr, late), _with_line(output, late)
    return Executed(
        session_id, number, stdout, stderr, output, ended, truncated, out_bytes, err_bytes
    )


def _with_line(text: str, line: str) -> str:
    return text + line if not text or text.endswith("\n") else f"{text}\n{line}"


def process_info(view: tuple[Any, ...]) -> ProcessInfo:
    number, command, cwd, tag, pty, pid, started, stdin_open, out_bytes, err_bytes, end = view
    return ProcessInfo(
        process_id=number,
        state="running" if end is None else "exited",
        command=command,
        cwd=cwd,
        tag=tag,
        pty=pty,
        pid=pid,
        started_at=when(started),
        stdin_open=stdin_open,
        stdout_bytes=out_bytes,
        stderr_bytes=err_bytes,
        ended=None if end is None else Ended(*end),
    )


def output_page(page: tuple[Any, ...]) -> OutputPage:
    offset, data, total, _, _, running = page
    return OutputPage(offset, data, total, running)


def file_info(row: tuple[Any, ...], directory: str) -> FileInfo:
    name, kind, mode, size, modified = row
    path = "/".join(part for part in (WORKSPACE, directory, name) if part)
    return FileInfo(name, size, when(modified), stat.filemode(mode), FILE_TYPES[kind], path)


def file_view(row: tuple[Any, ...]) -> FileInfo:
    """A file by its path, which is relative to the workspace."""
    path, kind, mode, size, modified, version, target = row
    more = {"mode": f"{stat.S_IMODE(mode):04o}"}
    if version:
        more["etag"] = f'"{version}"'
    if target:
        more["target"] = target
    name = path.rpartition("/")[2]
    return FileInfo(name, size, when(modified), stat.filemode(mode), FILE_TYPES[kind], path, more)


def shell_info(view: tuple[Any, ...]) -> ShellInfo:
    shell_id, state, cwd, tag, generation, running, waiting, opened, pid = view
    return ShellInfo(shell_id, state, cwd, tag, generation, running, waiting, when(opened), pid)


def shell_run(answer: tuple[Any, ...], session_id: str, timeout: float) -> ShellRun:
    ran, cwd, generation, exited, respawned, restored = answer
    done = executed(ran, session_id, timeout)
    return ShellRun(done, cwd, generation, exited, respawned, RESTORED if restored else ())


def file_list(
    listing: tuple[Any, ...], session_id: str, directory: str, limit: int | None, offset: int
) -> FileList:
    rows, complete = listing
    rows.sort(key=lambda row: (-row[4], row[0]))
    end = len(rows) if limit is None else offset + limit
    files = [file_info(row, directory) for row in rows[offset:end]]
    return FileList(
        session_id=session_id,
        workspace_dir=WORKSPACE,
        files=files,
        total_files=len(files),
        total_size_bytes=sum(one.size_bytes for one in files),
        truncated=end < len(rows) or not complete,
    )


def health(view: tuple[Any, ...], facts: Mapping[str, Any]) -> dict[str, Any]:
    ready, used, sessions, uptime, isolation = view
    full = all(state == "present" or name == "host sysctls" for name, state, _ in isolation)
    return {
        "status": "healthy",
        "worker_id": facts["worker"],
        "pool_size": facts["pool_size"],
        "pool_available": ready,
        "active_sessions": sessions,
        "uptime_seconds": uptime,
        "pool": {
            "available": ready,
            "allocated": used,
            "total": ready + used,
            "max_capacity": facts["max_pool_size"],
        },
        "config": {
            "pool_size": facts["pool_size"],
            "min_pool_size": facts["min_pool_size"],
            "max_pool_size": facts["max_pool_size"],
            "default_policy": facts["policy"],
            "state_dir": facts["state_dir"],
        },
        "isolation": {
            "level": "full" if full else "degraded",
            "barriers": {name: state for name, state, _ in isolation},
        },
    }
