# SPDX-License-Identifier: Apache-2.0
"""Which session a client means when a call names none.

One client often serves many conversations at once: `get_or_create_session(...)`, then
`execute(...)`, in threads or tasks of their own. So a choice holds for the thread or task that
made it, and what one conversation runs never lands in the sandbox of another. Who has chosen
nothing uses the last choice of anybody, as a program with one conversation expects.
"""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from ._core import NO_SESSION, SessionCore

_chosen: contextvars.ContextVar[Mapping[Any, SessionCore | None]] = contextvars.ContextVar(
    "threadbox_chosen"
)


class Current:
    """The current session of one client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: SessionCore | None = None
        self._key = weakref.ref(self)

    def find(self) -> SessionCore | None:
        mine = _chosen.get({}).get(self._key, self._last)
        return None if mine is None or mine.closed else mine

    def get(self) -> SessionCore:
        session = self.find()
        if session is None:
            raise ValueError(NO_SESSION)
        return session

    def choose(self, session: SessionCore | None) -> None:
        self._remember(session)
        with self._lock:
            self._last = session

    def drop(self) -> SessionCore | None:
        """The current session, which is none from now on; what others have chosen stays."""
        session = self.find()
        self._remember(None)
        with self._lock:
            if self._last is session:
                self._last = None
        return session

    def _remember(self, session: SessionCore | None) -> None:
        others = {key: held for key, held in _chosen.get({}).items() if key() is not None}
        _chosen.set({**others, self._key: session})
