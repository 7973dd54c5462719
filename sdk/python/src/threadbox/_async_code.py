# SPDX-License-Identifier: Apache-2.0
# Made from _code.py by tools/make_async.py: change that file, not this one.
"""The code of a session, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from . import _core as core
from . import _validate as validate
from ._engine import DEFAULT_TIMEOUT
from ._engine_code import Cell, CodeEvent, ContextInfo, ContextSpec, Execution


class AsyncCode:
    """Runs code in interpreters that keep their state: variables, imports, functions."""

    def __init__(self, session: core.SessionCore) -> None:
        self._session = session
        self._engine = core.code_engine(session.engine)

    async def run(
        self,
        code: str,
        language: str | None = None,
        *,
        context: AsyncCodeContext | str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Execution:
        """Runs code where the last call left off, in Python unless ``language`` or the context
        says otherwise ("python", "javascript", "bash").

            execution = session.code.run("x = 20; x + 22")
            print(execution.text, execution.logs.stdout, execution.error)

        What it raises is an answer: ``error``. After ``timeout`` seconds it is interrupted, and
        what it has set is kept. A ``KeyboardInterrupt`` interrupts it too.
        """
        cell = make_cell(code, language, context, env, timeout)
        return await self._engine.run_code(self._session.session_id, cell)

    def stream(
        self,
        code: str,
        language: str | None = None,
        *,
        context: AsyncCodeContext | str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AsyncGenerator[CodeEvent, None]:
        """The same as it happens: ``CodeOutput``, ``CodeResult``, ``CodeError``, and at last an
        ``Execution`` that says how it ended. Leaving early interrupts the code."""
        cell = make_cell(code, language, context, env, timeout)
        return self._engine.stream_code(self._session.session_id, cell)

    async def create_context(
        self,
        language: str = "python",
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AsyncCodeContext:
        """An interpreter of its own, which waits for code."""
        spec = ContextSpec(
            validate.check_text(language, "language"),
            None if cwd is None else validate.check_text(cwd, "cwd"),
            validate.check_env(env),
        )
        info = await self._engine.create_context(self._session.session_id, spec)
        return AsyncCodeContext(self._session, info)

    async def contexts(self) -> list[AsyncCodeContext]:
        listed = await self._engine.contexts(self._session.session_id)
        return [AsyncCodeContext(self._session, one) for one in listed]

    async def get_context(self, context_id: str) -> AsyncCodeContext:
        """Raises ``ProcessNotFoundError`` when there is none. The usual context of a language has
        the language's name."""
        validate.check_text(context_id, "context_id")
        info = await self._engine.context(self._session.session_id, context_id)
        return AsyncCodeContext(self._session, info)


class AsyncCodeContext:
    """One interpreter. ``async with`` closes it."""

    def __init__(self, session: core.SessionCore, info: ContextInfo) -> None:
        self._session, self.info = session, info
        self._engine, self._id = core.code_engine(session.engine), session.session_id

    def __repr__(self) -> str:
        return f"<AsyncCodeContext {self.context_id} {self.info.language} {self.info.state}>"

    @property
    def context_id(self) -> str:
        return self.info.context_id

    async def refresh(self) -> ContextInfo:
        self.info = await self._engine.context(self._id, self.context_id)
        return self.info

    async def run(
        self,
        code: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Execution:
        """See ``AsyncCode.run``. One call runs at a time; it waits for its turn."""
        cell = make_cell(code, None, self.context_id, env, timeout)
        return await self._engine.run_code(self._id, cell)

    def stream(
        self,
        code: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AsyncGenerator[CodeEvent, None]:
        """See ``AsyncCode.stream``."""
        cell = make_cell(code, None, self.context_id, env, timeout)
        return self._engine.stream_code(self._id, cell)

    async def restart(self) -> None:
        """It begins anew and knows nothing."""
        self.info = await self._engine.restart_context(self._id, self.context_id)

    async def interrupt(self) -> None:
        """Ctrl-C for the code that runs; ``ConflictError`` when none does."""
        await self._engine.interrupt_context(self._id, self.context_id)

    async def close(self) -> None:
        """Ends it with everything that it started."""
        await self._engine.remove_context(self._id, self.context_id)

    async def __aenter__(self) -> AsyncCodeContext:
        return self

    async def __aexit__(self, *_: object) -> None:
        await core.quietly(self._engine.remove_context(self._id, self.context_id))


def make_cell(
    code: str,
    language: str | None,
    context: AsyncCodeContext | str | None,
    env: Mapping[str, str] | None,
    timeout: float,
) -> Cell:
    context_id = context.context_id if isinstance(context, AsyncCodeContext) else context
    return Cell(
        validate.check_text(code, "code"),
        None if language is None else validate.check_text(language, "language"),
        None if context_id is None else validate.check_text(context_id, "context"),
        validate.check_env(env),
        validate.check_timeout(timeout),
    )
