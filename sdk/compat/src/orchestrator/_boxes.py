# SPDX-License-Identifier: Apache-2.0
"""Sandboxes by the session ids of an orchestrator."""

from __future__ import annotations

import functools
import re

import threadbox
from threadbox import Session

USER = "orchestrator"
# A name of a directory too; no other thread of the server is hit by accident.
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_session_id(session_id: str) -> str:
    if not isinstance(session_id, str) or not SESSION_ID.fullmatch(session_id):
        raise ValueError(
            f"Invalid session id {session_id!r}: up to 128 letters, digits, '.', '_' and '-'"
        )
    return session_id


def thread_of(session_id: str) -> str:
    return f"{USER}:{check_session_id(session_id)}"


@functools.cache
def client() -> threadbox.SandboxClient:
    """One for the process: managers are made often, connections needn't be."""
    return threadbox.SandboxClient()


def start(session_id: str, environment: str, provider: str) -> Session:
    """The sandbox of a session, made if there is none: of the server's environment of this name, by
    the provider or who stands in for it. An image or a template that the server does not know, and
    any name in this process, chooses nothing."""
    if not isinstance(environment, str) or not environment:
        raise ValueError("environment must be a name, as Python3")
    thread = thread_of(session_id)
    if client().mode == "local":
        return client().session(thread, USER)
    try:
        return client().session(thread, USER, environment=environment, provider=provider)
    except threadbox.InvalidRequestError as error:
        if not str(error).startswith("Unknown environment"):
            raise
    return client().session(thread, USER, provider=provider)


def find(session_id: str) -> Session | None:
    return client().find_session(thread_of(session_id))


def stop(session_id: str, sandbox_id: str | None = None) -> bool:
    """False when there is no such sandbox (any more)."""
    session = find(session_id)
    if session is None or sandbox_id not in (None, session.session_id):
        return False
    session.close()
    return True
