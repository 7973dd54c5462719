# SPDX-License-Identifier: Apache-2.0
"""The client of the first generation, under its name. New programs import ``threadbox``.

    with SandboxClient("http://localhost:5000") as client:
        print(client.execute("ls -la")["output"])

What it asked of a server then is what it gets: a fresh session of no thread, which idles out after
an hour, and commands that may take as long. Which commands may run is up to the server's policy;
``policy`` chooses another one, if the server allows it.
"""

from __future__ import annotations

import functools
import os
import sys

import threadbox
from threadbox import ExecuteResult, Session

__all__ = ["SandboxClient", "cleanup", "create_session", "execute"]

DEFAULT_URL = "http://localhost:5000"
LIFETIME_MINUTES = 60
LONGEST_COMMAND = 3600.0  # seconds: nothing outlived its session
NO_SESSION = "No active session. Call create_session() first."


class SandboxClient:
    """One session at a time; ``with`` makes it and cleans it up."""

    def __init__(self, server_url: str = DEFAULT_URL, *, policy: str | None = None) -> None:
        self.server_url = server_url
        self._client = threadbox.SandboxClient("remote", server_url, policy=policy)
        self._session: Session | None = None

    @property
    def session_id(self) -> str | None:
        """Of the session, or None. Set it to go on with a session that was made elsewhere."""
        return None if self._session is None else self._session.session_id

    @session_id.setter
    def session_id(self, session_id: str | None) -> None:
        self._session = self._client.session_by_id(session_id) if session_id else None

    def create_session(self) -> str:
        """A fresh session, used from now on. Returns its id."""
        made = self._client.session(timeout_minutes=LIFETIME_MINUTES)
        self.session_id = made.session_id  # it alone counts: no other is made when it is gone
        return made.session_id

    def execute(self, command: str) -> ExecuteResult:
        """Runs bash text: ``output`` has what it printed, ``exit_code`` how it ended."""
        if self._session is None:
            raise ValueError(NO_SESSION)
        return self._session.execute(command, LONGEST_COMMAND)

    def cleanup(self) -> None:
        """Ends the session with its files, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> SandboxClient:
        self.create_session()
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


# ---- without an object ----


@functools.cache
def _client() -> threadbox.SandboxClient:
    return threadbox.SandboxClient("remote", os.environ.get("SANDBOX_URL") or DEFAULT_URL)


def create_session() -> str:
    """A fresh session of the server at ``SANDBOX_URL``, or at port 5000 of this machine."""
    return _client().session(timeout_minutes=LIFETIME_MINUTES).session_id


def execute(session_id: str, command: str) -> ExecuteResult:
    return _client().session_by_id(session_id).execute(command, LONGEST_COMMAND)


def cleanup(session_id: str) -> None:
    _client().session_by_id(session_id).close()


def main() -> int:
    """An example against a server on this machine."""
    url = os.environ.get("SANDBOX_URL") or DEFAULT_URL
    try:
        with SandboxClient(url) as client:
            print(f"session {client.session_id}")
            for command in ("pwd", "echo 'Hello from sandbox!' > test.txt", "cat test.txt"):
                result = client.execute(command)
                print(f"$ {command}\n{result['output']}(exit code {result['exit_code']})")
    except threadbox.SandboxError as problem:
        print(f"sandbox_client: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
