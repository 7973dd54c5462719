# SPDX-License-Identifier: Apache-2.0
"""How an event loop waits for operations of the native library: it finds the answers in a mailbox.
The library's own thread never needs the GIL."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import Any

from ._native import Engine as NativeEngine
from ._native import Mailbox

STOP = 2.0  # seconds for a command to end that is not wanted any more


class _Box:
    """The mailbox of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.mailbox = Mailbox()
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        loop.add_reader(self.mailbox.fileno(), self._deliver)

    def _deliver(self) -> None:
        for token, value, problem in self.mailbox.take():
            future = self.waiting.pop(token, None)
            if future is None or future.done():
                continue
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)


class LoopCalls:
    """For asyncio. May serve one loop after another, or several at once."""

    def __init__(self, engine: NativeEngine) -> None:
        self._engine = engine
        self._boxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Box] = (
            weakref.WeakKeyDictionary()
        )
        self._tokens = itertools.count(1)

    async def __call__(self, operation: str, *arguments: object) -> Any:
        loop = asyncio.get_running_loop()
        box = self._boxes.get(loop)
        if box is None:
            box = self._boxes[loop] = _Box(loop)
        token = next(self._tokens)
        future = box.waiting[token] = loop.create_future()
        try:
            self._engine.submit(box.mailbox, token, operation, *arguments)
        except BaseException:
            del box.waiting[token]
            raise
        try:
            return await future
        except asyncio.CancelledError:
            if token in box.waiting:
                await self._stop(box, token)
            raise

    async def _stop(self, box: _Box, token: int) -> None:
        over = box.waiting[token] = asyncio.get_running_loop().create_future()
        box.mailbox.stop(token)
        await asyncio.wait([over], timeout=STOP)
        if over.done():
            over.exception()  # looked at: that it was stopped is no news
        box.waiting.pop(token, None)
