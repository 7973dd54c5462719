# SPDX-License-Identifier: Apache-2.0
"""The server's JSON as values of the seam."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from typing import Any

from ._engine import (
    Ended,
    Executed,
    FileInfo,
    FileList,
    ProcessInfo,
    ProcessSpec,
    SessionInfo,
    Uploaded,
)
from ._http import Response, nonsense

SESSION_FIELDS = {
    "session_id",
    "thread_id",
    "status",
    "workspace_dir",
    "user",
    "worker",
    "policy",
    "created_at",
    "last_activity",
    "expires_at",
    "files_count",
}
FILE_TYPES = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "symlink": stat.S_IFLNK}
FILE_FIELDS = {"name", "size_bytes", "modified", "permissions", "type", "path"}


def parse_object(response: Response, *needed: str) -> dict[str, Any]:
    """The object of an answer; whatever else comes is no Threadbox server."""
    body = response.json()
    if not isinstance(body, dict):
        raise nonsense(response.url, f"no object but {response.body[:80]!r}")
    for key in needed:
        if key not in body:
            raise nonsense(response.url, f"an object without {key!r}")
    return body


def parse_session(body: Mapping[str, Any]) -> SessionInfo:
    known = {key: body[key] for key in SESSION_FIELDS & body.keys()}
    return SessionInfo(**known, more={k: v for k, v in body.items() if k not in SESSION_FIELDS})


def parse_ended(body: Mapping[str, Any]) -> Ended:
    get = body.get
    return Ended(
        exit_code=body["exit_code"],
        cause=get("cause", "exited"),
        timed_out=get("timed_out", False),
        signal=get("signal"),
        limits_hit=get("limits_hit", ()),
        execution_time_ms=get("execution_time_ms", 0),
        cpu_time_ms=get("cpu_time_ms", 0),
        peak_memory_bytes=get("peak_memory_bytes", 0),
    )


def parse_executed(body: Mapping[str, Any], session_id: str) -> Executed:
    get = body.get
    stdout, stderr = get("stdout", ""), get("stderr", "")
    return Executed(
        session_id=get("session_id", session_id),
        process_id=get("process_id", 0),
        stdout=stdout,
        stderr=stderr,
        output=get("output", stdout + stderr),
        ended=parse_ended(body),
        truncated=get("truncated", False),
        stdout_bytes=get("stdout_bytes", 0),
        stderr_bytes=get("stderr_bytes", 0),
    )


def parse_process(body: Mapping[str, Any]) -> ProcessInfo:
    get = body.get
    return ProcessInfo(
        process_id=body["process_id"],
        state=body["state"],
        command=get("command", ""),
        cwd=get("cwd", ""),
        tag=get("tag", ""),
        pty=get("pty", False),
        pid=get("pid"),
        started_at=get("started_at", ""),
        stdin_open=get("stdin_open", False),
        stdout_bytes=get("stdout_bytes", 0),
        stderr_bytes=get("stderr_bytes", 0),
        ended=parse_ended(body) if body["state"] == "exited" else None,
    )


def parse_file(body: Mapping[str, Any]) -> FileInfo:
    known = {key: body[key] for key in FILE_FIELDS & body.keys() if body[key] is not None}
    permissions = _permissions(body.get("type"), body.get("mode"))
    known = {"name": "", "size_bytes": 0, "modified": "", "permissions": permissions, **known}
    return FileInfo(**known, more={k: v for k, v in body.items() if k not in FILE_FIELDS})


def _permissions(kind: Any, mode: Any) -> str:
    """As ls shows them; the routes on files have octal digits."""
    try:
        digits = int(mode, 8)
    except (TypeError, ValueError):
        return ""
    return stat.filemode(FILE_TYPES.get(kind, 0) | digits)


def parse_files(body: Mapping[str, Any], session_id: str) -> FileList:
    files = [parse_file(one) for one in body["files"]]
    return FileList(
        session_id=body.get("session_id", session_id),
        workspace_dir=body.get("workspace_dir", "/workspace"),
        files=files,
        total_files=body.get("total_files", len(files)),
        total_size_bytes=body.get("total_size_bytes", 0),
        truncated=body.get("truncated", False),
    )


def parse_uploaded(body: Mapping[str, Any]) -> Uploaded:
    return Uploaded(body["filename"], body["path"], body.get("size_bytes", 0))


def render_process(spec: ProcessSpec) -> dict[str, Any]:
    """The body of a start."""
    body: dict[str, Any] = {
        "cwd": spec.cwd,
        "timeout": spec.timeout,
        "env": dict(spec.env) or None,
        "tag": spec.tag or None,
        "stdin": spec.stdin or None,
        "stdin_open": spec.stdin_open or None,
        "command": spec.command,
        "argv": None if spec.argv is None else list(spec.argv),
        "pty": spec.pty and {"rows": spec.pty[0], "cols": spec.pty[1]},
        "idempotency_key": spec.idempotency_key,
    }
    return {key: value for key, value in body.items() if value is not None}
