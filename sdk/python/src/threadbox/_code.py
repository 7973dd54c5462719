# SPDX-License-Identifier: Apache-2.0
"""The code of a session, for blocking callers."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from . import _core as core
from . import _validate as validate
from ._engine import DEFAULT_TIMEOUT, iterate, run
from ._engine_code import Cell, CodeEvent, ContextInfo, ContextSpec, Execution


class Code:
    """Runs code in interpreters that keep their state: variables, imports, functions."""

    def __init__(self, session: core.SessionCore) -> None:
        self._session = session
        self._engine = core.code_engine(session.engine)

    def run(
        self,
        code: str,
        language: str | None = None,
        *,
        context: CodeContext | str | None = None,
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
        return run(self._engine.run_code(self._session.session_id, cell))

    def stream(
        self,
        code: str,
        language: str | None = None,
        *,
        context: CodeContext | str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Generator[CodeEvent, None, None]:
        """The same as it happens: ``CodeOutput``, ``CodeResult``, ``CodeError``, and at last an
        ``Execution`` that says how it ended. Leaving early interrupts the code."""
        cell = make_cell(code, language, context, env, timeout)
        return iterate(self._engine.stream_code(self._session.session_id, cell))

    def create_context(
        self,
        language: str = "python",
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CodeContext:
        """An interpreter of its own, which waits for code."""
        spec = ContextSpec(
            validate.check_text(language, "language"),
            None if cwd is None else validate.check_text(cwd, "cwd"),
            validate.check_env(env),
        )
        info = run(self._engine.create_context(self._session.session_id, spec))
        return CodeContext(self._session, info)

    def contexts(self) -> list[CodeContext]:
        listed = run(self._engine.contexts(self._session.session_id))
        return [CodeContext(self._session, one) for one in listed]

    def get_context(self, context_id: str) -> CodeContext:
        """Raises ``ProcessNotFoundError`` when there is none. The usual context of a language has
        the language's name."""
        validate.check_text(context_id, "context_id")
        info = run(self._engine.context(self._session.session_id, context_id))
        return CodeContext(self._session, info)


class CodeContext:
    """One interpreter. ``with`` closes it."""

    def __init__(self, session: core.SessionCore, info: ContextInfo) -> None:
        self._session, self.info = session, info
        self._engine, self._id = core.code_engine(session.engine), session.session_id

    def __repr__(self) -> str:
        return f"<CodeContext {self.context_id} {self.info.language} {self.info.state}>"

    @property
    def context_id(self) -> str:
        return self.info.context_id

    def refresh(self) -> ContextInfo:
        self.info = run(self._engine.context(self._id, self.context_id))
        return self.info

    def run(
        self,
        code: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Execution:
        """See ``Code.run``. One call runs at a time; it waits for its turn."""
        cell = make_cell(code, None, self.context_id, env, timeout)
        return run(self._engine.run_code(self._id, cell))

    def stream(
        self,
        code: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Generator[CodeEvent, None, None]:
        """See ``Code.stream``."""
        cell = make_cell(code, None, self.context_id, env, timeout)
        return iterate(self._engine.stream_code(self._id, cell))

    def restart(self) -> None:
        """It begins anew and knows nothing."""
        self.info = run(self._engine.restart_context(self._id, self.context_id))

    def interrupt(self) -> None:
        """Ctrl-C for the code that runs; ``ConflictError`` when none does."""
        run(self._engine.interrupt_context(self._id, self.context_id))

    def close(self) -> None:
        """Ends it with everything that it started."""
        run(self._engine.remove_context(self._id, self.context_id))

    def __enter__(self) -> CodeContext:
        return self

    def __exit__(self, *_: object) -> None:
        run(core.quietly(self._engine.remove_context(self._id, self.context_id)))


def make_cell(
    code: str,
    language: str | None,
    context: CodeContext | str | None,
    env: Mapping[str, str] | None,
    timeout: float,
) -> Cell:
    context_id = context.context_id if isinstance(context, CodeContext) else context
    return Cell(
        validate.check_text(code, "code"),
        None if language is None else validate.check_text(language, "language"),
        None if context_id is None else validate.check_text(context_id, "context"),
        validate.check_env(env),
        validate.check_timeout(timeout),
    )
