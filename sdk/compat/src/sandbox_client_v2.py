# SPDX-License-Identifier: Apache-2.0
"""The client of the second generation, under its name. New programs import ``threadbox``.

Two clients have had this name. The later one finds its session by thread
(``get_or_create_session``) and runs in-process or remotely. The earlier one has a URL only,
``create_session()`` and ``cleanup()``, and ``with`` makes its session. Both work here.

As a program it is the command line of the SDK:

    python sandbox_client_v2.py [--mode local|remote] [--url URL] --test | --batch C… | 'command'
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

import threadbox
from threadbox import BatchSandboxClient, SessionExpiredError
from threadbox.__main__ import main

__all__ = ["BatchSandboxClient", "SandboxClient", "SessionExpiredError"]


class SandboxClient(threadbox.SandboxClient):
    """See ``threadbox.SandboxClient``, which has more."""

    def __init__(
        self, mode: str | None = None, server_url: str | None = None, **options: Any
    ) -> None:
        super().__init__(mode, server_url, **options)
        by_url = mode is None or mode.startswith(("http://", "https://"))
        self._with_creates = by_url and self.mode == "remote"
        self._will_create = False

    def __enter__(self) -> SandboxClient:
        # Not yet: a program that names its thread first needs no other session.
        self._will_create = self._with_creates
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_session()  # and no more: the client may be used again

    def close_session(self) -> None:
        self._will_create = False
        super().close_session()

    cleanup = close_session

    def _session(self) -> threadbox._core.SessionCore:
        self._create_if_due()
        return super()._session()

    def _create_if_due(self) -> None:
        if self._will_create and super().session_id is None:
            self.create_session()

    @property
    def session_id(self) -> str | None:
        """Of the current session, or None. Within ``with SandboxClient(url)`` there is always
        one."""
        self._create_if_due()
        return super().session_id

    @property
    def user_id(self) -> str | None:
        """Whom the current session was opened for, or None."""
        session = self._current.find()
        return None if session is None else session.spec.user_id or None

    @property
    def worker(self) -> str | None:
        """The server that has the current session, or None."""
        session = self._current.find()
        return None if session is None else session.info.worker or None


if __name__ == "__main__":
    sys.exit(main())
