# SPDX-License-Identifier: Apache-2.0
"""Persistent, isolated Linux sandboxes for the threads of AI agents.

    from threadbox import SandboxClient

    with SandboxClient(server_url="http://localhost:5000") as client:
        client.get_or_create_session(user_id="user123", thread_id="conversation_abc")
        print(client.execute("echo hello")["stdout"])

``AsyncSandboxClient`` is the same for asyncio.
"""

from ._async import AsyncBatchSandboxClient, AsyncSandboxClient, AsyncSession
from ._async_code import AsyncCode, AsyncCodeContext
from ._async_files import AsyncFiles
from ._async_processes import AsyncAttachment, AsyncProcess, AsyncProcesses
from ._async_shells import AsyncShell, AsyncShells
from ._async_storage import AsyncArtifacts, AsyncVolumes
from ._code import Code, CodeContext
from ._engine import Ended, Event, Executed, Exited, FileInfo, Output, ProcessInfo, Started
from ._engine_code import (
    CodeError,
    CodeEvent,
    CodeOutput,
    CodeResult,
    ContextInfo,
    Execution,
    Logs,
)
from ._engine_files import Edited, Found, Lines, Match, Unpacked
from ._engine_shells import ShellInfo, ShellRun
from ._engine_storage import ArtifactInfo, VolumeInfo
from ._errors import (
    AuthenticationError,
    CapacityError,
    CommandRefusedError,
    ConflictError,
    EditError,
    InvalidRequestError,
    LimitExceededError,
    ProcessNotFoundError,
    ProtocolError,
    SandboxError,
    ServerError,
    ServerTimeoutError,
    SessionExpiredError,
    UnreachableError,
    UnsupportedError,
)
from ._files import Files
from ._processes import Attachment, Process, Processes
from ._results import ExecuteResult, FileListResult, SessionResult, UploadResult
from ._shells import Shell, Shells
from ._storage import Artifacts, Volumes
from ._sync import BatchSandboxClient, SandboxClient, Session

__version__ = "0.1.0"

__all__ = [
    "ArtifactInfo",
    "Artifacts",
    "AsyncArtifacts",
    "AsyncAttachment",
    "AsyncBatchSandboxClient",
    "AsyncCode",
    "AsyncCodeContext",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncProcesses",
    "AsyncSandboxClient",
    "AsyncSession",
    "AsyncShell",
    "AsyncShells",
    "AsyncVolumes",
    "Attachment",
    "AuthenticationError",
    "BatchSandboxClient",
    "CapacityError",
    "Code",
    "CodeContext",
    "CodeError",
    "CodeEvent",
    "CodeOutput",
    "CodeResult",
    "CommandRefusedError",
    "ConflictError",
    "ContextInfo",
    "EditError",
    "Edited",
    "Ended",
    "Event",
    "ExecuteResult",
    "Executed",
    "Execution",
    "Exited",
    "FileInfo",
    "FileListResult",
    "Files",
    "Found",
    "InvalidRequestError",
    "LimitExceededError",
    "Lines",
    "Logs",
    "Match",
    "Output",
    "Process",
    "ProcessInfo",
    "ProcessNotFoundError",
    "Processes",
    "ProtocolError",
    "SandboxClient",
    "SandboxError",
    "ServerError",
    "ServerTimeoutError",
    "Session",
    "SessionExpiredError",
    "SessionResult",
    "Shell",
    "ShellInfo",
    "ShellRun",
    "Shells",
    "Started",
    "Unpacked",
    "UnreachableError",
    "UnsupportedError",
    "UploadResult",
    "VolumeInfo",
    "Volumes",
]
