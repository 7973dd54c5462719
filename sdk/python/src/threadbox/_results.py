# SPDX-License-Identifier: Apache-2.0
"""Answers as dictionaries, the way clients of this API have always had them."""

from __future__ import annotations

from typing import Any, TypedDict

from ._engine import Executed, FileList, SessionInfo, Uploaded


class ExecuteResult(TypedDict):
    """What ``execute`` returns. A command that failed is a result too: look at ``exit_code``."""

    exit_code: int
    stdout: str
    stderr: str
    output: str  # both, in the order of printing
    execution_time_ms: int
    session_id: str
    process_id: int
    timed_out: bool
    truncated: bool
    signal: int | None
    cause: str  # exited, signal, timeout, oom, killed, policy, lost
    limits_hit: list[str]
    cpu_time_ms: int
    peak_memory_bytes: int
    stdout_bytes: int
    stderr_bytes: int


class FileEntry(TypedDict, total=False):
    name: str
    size_bytes: int
    modified: str  # ISO 8601, UTC
    permissions: str
    type: str


class FileListResult(TypedDict):
    """What ``list_files`` returns."""

    session_id: str
    workspace_dir: str
    files: list[FileEntry]
    total_files: int
    total_size_bytes: int
    truncated: bool


class UploadResult(TypedDict):
    """What ``upload_file`` returns."""

    status: str
    filename: str
    path: str
    size_bytes: int


class SessionResult(TypedDict, total=False):
    """What ``get_or_create_session`` returns. ``status``: created, existing or active."""

    session_id: str
    thread_id: str
    status: str
    workspace_dir: str
    user: str
    worker: str
    policy: str
    created_at: str
    last_activity: str
    expires_at: str
    files_count: int | None


def executed_result(done: Executed) -> ExecuteResult:
    ended = done.ended
    return {
        "exit_code": ended.exit_code,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "output": done.output,
        "execution_time_ms": ended.execution_time_ms,
        "session_id": done.session_id,
        "process_id": done.process_id,
        "timed_out": ended.timed_out,
        "truncated": done.truncated,
        "signal": ended.signal,
        "cause": ended.cause,
        "limits_hit": list(ended.limits_hit),
        "cpu_time_ms": ended.cpu_time_ms,
        "peak_memory_bytes": ended.peak_memory_bytes,
        "stdout_bytes": done.stdout_bytes,
        "stderr_bytes": done.stderr_bytes,
    }


def failed_result(problem: BaseException, session_id: str) -> ExecuteResult:
    """Of a command that could not be run at all, in a batch."""
    text = f"Error: {problem}"
    return {
        "exit_code": -1,
        "stdout": "",
        "stderr": text,
        "output": text,
        "execution_time_ms": 0,
        "session_id": session_id,
        "process_id": 0,
        "timed_out": False,
        "truncated": False,
        "signal": None,
        "cause": "error",
        "limits_hit": [],
        "cpu_time_ms": 0,
        "peak_memory_bytes": 0,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
    }


def files_result(listed: FileList) -> FileListResult:
    return {
        "session_id": listed.session_id,
        "workspace_dir": listed.workspace_dir,
        "files": [
            {
                "name": one.name,
                "size_bytes": one.size_bytes,
                "modified": one.modified,
                "permissions": one.permissions,
                "type": one.type,
            }
            for one in listed.files
        ],
        "total_files": listed.total_files,
        "total_size_bytes": listed.total_size_bytes,
        "truncated": listed.truncated,
    }


def uploaded_result(done: Uploaded) -> UploadResult:
    return {
        "status": "uploaded",
        "filename": done.filename,
        "path": done.path,
        "size_bytes": done.size_bytes,
    }


def session_result(info: SessionInfo) -> SessionResult:
    result: SessionResult = {
        "session_id": info.session_id,
        "thread_id": info.thread_id,
        "status": info.status,
        "workspace_dir": info.workspace_dir,
        "user": info.user,
        "worker": info.worker,
        "policy": info.policy,
        "created_at": info.created_at,
        "last_activity": info.last_activity,
        "expires_at": info.expires_at,
    }
    if info.files_count is not None:
        result["files_count"] = info.files_count
    more: Any = result
    for key, value in info.more.items():
        more.setdefault(key, value)
    return result
