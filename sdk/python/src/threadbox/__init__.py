# SPDX-License-Identifier: Apache-2.0
"""Persistent, isolated Linux sandboxes for the threads of AI agents.

    from threadbox import SandboxClient

    with SandboxClient(server_url="http://localhost:5000") as client:
        client.get_or_create_session(user_id="user123", thread_id="conversation_abc")
        print(client.execute("echo hello")["stdout"])

``AsyncSandboxClient`` is the same for asyncio.
"""

from ._async import AsyncBatchSandboxClient, AsyncSandboxClient, AsyncSession
from ._async_processes import AsyncAttachment, AsyncProcess, AsyncProcesses
from ._engine import Ended, Event, Executed, Exited, Output, ProcessInfo, Started
from ._errors import (
    CapacityError,
    CommandRefusedError,
    ConflictError,
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
from ._processes import Attachment, Process, Processes
from ._results import ExecuteResult, FileListResult, SessionResult, UploadResult
from ._sync import BatchSandboxClient, SandboxClient, Session

__version__ = "0.1.0"

__all__ = [
    "AsyncAttachment",
    "AsyncBatchSandboxClient",
    "AsyncProcess",
    "AsyncProcesses",
    "AsyncSandboxClient",
    "AsyncSession",
    "Attachment",
    "BatchSandboxClient",
    "CapacityError",
    "CommandRefusedError",
    "ConflictError",
    "Ended",
    "Event",
    "ExecuteResult",
    "Executed",
    "Exited",
    "FileListResult",
    "InvalidRequestError",
    "LimitExceededError",
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
    "Started",
    "UnreachableError",
    "UnsupportedError",
    "UploadResult",
]
