# SPDX-License-Identifier: Apache-2.0
"""A sandbox backend for deepagents, with files on the server's own file operations.

    from deepagents import create_deep_agent
    from threadbox import SandboxClient
    from threadbox.integrations.deepagents import ThreadboxSandbox

    backend = ThreadboxSandbox(SandboxClient(server_url="http://localhost:5000"))
    agent = create_deep_agent(model=model, backend=backend)
    agent.invoke(messages, config={"configurable": {"thread_id": "conversation_abc"}})

Files below the workspace are read, written, edited and searched without a program in the sandbox:
an image needs no Python, and a policy no permission for it. Other paths (/tmp, /etc) go the way
of ``BaseSandbox``, by commands, as all do where the engine has no file operations.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from .. import ConflictError, EditError, SandboxError
from ._extras import missing

try:
    from deepagents.backends import protocol
    from deepagents.backends.protocol import (
        BackendProtocol,
        EditResult,
        FileData,
        FileDownloadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )
    from langchain_core.tools import BaseTool, StructuredTool

    from ._rules import Included, Pattern, below, known
    from ._sandbox import ThreadSandboxes
    from ._shown import (
        CUT,
        WORKSPACE,
        absolute,
        cut_page,
        decodes,
        entry_of,
        is_text,
        no_lines,
        reason_of,
        search_root,
        text_data,
    )
except ImportError as problem:
    raise missing("deepagents", problem) from problem

MAX_BINARY = 500 * 1024  # of a file that a model is shown whole, as deepagents has it
MOST_MATCHES = 10000


class ThreadboxSandbox(ThreadSandboxes):
    """The sandboxes of a client, one for each thread of the agent.

    ``thread_id`` binds it to one conversation. Without it, each call belongs to the thread of the
    graph that makes it (``configurable.thread_id``), so one agent serves many conversations.
    ``timeout`` holds for commands that bring none; ``timeout_minutes`` without use end a session.
    ``rules`` are those of the installed deepagents, unless told: see ``_rules``.
    """

    # ---- the tree ----

    def ls(self, path: str) -> LsResult:
        if path == "/" and self._place(WORKSPACE) is not None:
            return LsResult(entries=[{"path": WORKSPACE, "is_dir": True}])
        place = self._place(path)
        if place is None:
            return super().ls(path)
        try:
            found = self._files(lambda files: files.list(place))
        except (SandboxError, OSError) as problem:
            return LsResult(error=f"Path '{path}': {reason_of(problem, 'path_not_found')}")
        return LsResult(entries=[entry_of(one) for one in found])

    async def als(self, path: str) -> LsResult:
        return await asyncio.to_thread(self.ls, path)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        place = self._place(search_root(path))
        if place is None:
            return super().glob(pattern, path or "/")
        made = Pattern(pattern, self.rules)
        if problem := made.problem():
            return GlobResult(error=f"Pattern '{pattern}': {problem}")
        try:
            found = self._files(
                lambda files: files.glob(made.for_server(), place, limit=MOST_MATCHES)
            )
        except (SandboxError, OSError) as refused:
            return GlobResult(error=f"Path '{path}': {reason_of(refused, 'path_not_found')}")
        cut = len(found) >= MOST_MATCHES
        chosen = [entry_of(one) for one in made.choose(found, place)]
        if self.rules == "0.6":
            for one in chosen:
                one["path"] = below(one["path"], absolute(place))
        reason = "budget" if cut else None
        return known(GlobResult, matches=chosen, truncated=cut, truncation_reason=reason)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        return await asyncio.to_thread(self.glob, pattern, path)

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        place = self._place(search_root(path))
        if place is None:
            return super().grep(pattern, path, glob)
        if max_count is not None and max_count <= 0:
            return known(GrepResult, matches=[], truncated=True)
        most = MOST_MATCHES if max_count is None else min(max_count, MOST_MATCHES)
        which = Included(glob or "")
        try:
            found = self._files(
                lambda files: files.search(
                    pattern, place, glob=which.for_server(), max_results=MOST_MATCHES
                )
            )
        except (SandboxError, OSError) as problem:
            return GrepResult(error=f"Path '{path}': {reason_of(problem, 'path_not_found')}")
        matches: list[Any] = [
            {"path": absolute(one.path), "line": one.line, "text": one.text}
            for one in found.matches
            if which.has(below(one.path, place))
        ]
        cut = not found.complete or len(matches) > most
        return known(GrepResult, matches=matches[:most], truncated=cut)

    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        return await asyncio.to_thread(self.grep, pattern, path, glob, max_count=max_count)

    # ---- contents ----

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        place = self._place(file_path)
        if place is None:
            return super().read(file_path, offset, limit)
        try:
            if not is_text(file_path):
                return self._read_binary(place)
            return self._read_lines(place, max(int(offset), 0), max(int(limit), 0))
        except (SandboxError, OSError) as problem:
            return ReadResult(error=f"File '{file_path}': {reason_of(problem, 'file_not_found')}")

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return await asyncio.to_thread(self.read, file_path, offset, limit)

    def _read_lines(self, place: str, offset: int, limit: int) -> ReadResult:
        page = self._files(lambda files: files.read_lines(place, offset + 1, max(limit, 1)))
        if "\ufffd" in page.text and self._is_binary(place, page.text):
            return self._read_binary(place)
        if limit == 0:
            return known(ReadResult, file_data=text_data(""), no_lines_requested=True)
        if page.count == 0:
            return no_lines(place, offset, page.total)
        text, shown = cut_page(page.text, page.count)
        if page.cut:
            text += CUT
        end = offset + shown
        more = page.more or shown < page.count
        return known(
            ReadResult,
            file_data=text_data(text),
            total_lines=page.total,
            start_line=offset + 1,
            end_line=end,
            next_offset=end if more else None,
        )

    def _is_binary(self, place: str, page: str) -> bool:
        """Of what has letters that are none, or that say so: the bytes tell. A large file that is
        no UTF-8 is a text in another encoding, unless it has what no text has."""
        if self._files(lambda files: files.stat(place)).size_bytes > MAX_BINARY:
            return "\0" in page
        return not decodes(self._files(lambda files: files.read(place)))

    def _read_binary(self, place: str) -> ReadResult:
        told = self._files(lambda files: files.stat(place))
        if told.type == "directory":
            return ReadResult(error=f"File '{absolute(place)}': not_a_file")
        if told.size_bytes > MAX_BINARY:
            problem = f"Binary file exceeds maximum preview size of {MAX_BINARY} bytes"
            return ReadResult(error=f"File '{absolute(place)}': {problem}")
        raw = self._files(lambda files: files.read(place))
        content = base64.b64encode(raw).decode()
        return ReadResult(file_data=FileData(content=content, encoding="base64"))

    def write(self, file_path: str, content: str) -> WriteResult:
        place = self._place(file_path)
        if place is None:
            return super().write(file_path, content)
        exclusive = self.rules == "0.6"
        try:
            self._files(lambda files: files.write(place, content, exclusive=exclusive))
        except (SandboxError, OSError) as problem:
            if exclusive and isinstance(problem, ConflictError):
                return WriteResult(error=f"Error: File already exists: '{file_path}'")
            reason = reason_of(problem, "file_not_found")
            return WriteResult(error=f"Failed to write file '{file_path}': {reason}")
        return WriteResult(path=file_path)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return await asyncio.to_thread(self.write, file_path, content)

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
    ) -> EditResult:
        place = self._place(file_path)
        if place is None:
            return super().edit(file_path, old_string, new_string, replace_all)
        if not old_string:
            return EditResult(error="Error: old_string cannot be empty. Provide the exact text.")
        try:
            count = self._edit(place, old_string, new_string, replace_all)
        except EditError as problem:
            if problem.matches == 0:
                return EditResult(error=f"Error: String not found in file: '{old_string}'")
            lines = ", ".join(map(str, problem.lines))
            return EditResult(
                error=f"Error: String '{old_string}' appears multiple times (lines {lines}). "
                "Use replace_all=True to replace all occurrences."
            )
        except FileNotFoundError:
            return EditResult(error=f"Error: File '{file_path}' not found")
        except (SandboxError, OSError) as problem:
            return EditResult(error=f"Error editing file '{file_path}': {reason_of(problem, '')}")
        return EditResult(path=file_path, occurrences=count)

    def _edit(self, place: str, old: str, new: str, replace_all: bool) -> int:
        """A model has seen the lines of a Windows file without their \\r, see ``read``."""
        try:
            return self._files(
                lambda files: files.edit(place, old, new, replace_all=replace_all)
            ).replacements
        except EditError as problem:
            if problem.matches or "\n" not in old or "\r\n" in old:
                raise
        old, new = (text.replace("\r\n", "\n").replace("\n", "\r\n") for text in (old, new))
        return self._files(
            lambda files: files.edit(place, old, new, replace_all=replace_all)
        ).replacements

    async def aedit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
    ) -> EditResult:
        return await asyncio.to_thread(self.edit, file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> protocol.DeleteResult:
        """Known to deepagents since 0.7."""
        place = self._place(file_path)
        if place is None:
            return super().delete(file_path)
        if not place:
            return protocol.DeleteResult(error="Error: the workspace itself can't be deleted")
        try:
            self._files(lambda files: files.remove(place, recursive=True))
        except FileNotFoundError:
            return protocol.DeleteResult(error=f"Error: '{file_path}' not found")
        except (SandboxError, OSError) as problem:
            return protocol.DeleteResult(
                error=f"Error deleting file '{file_path}': {reason_of(problem, '')}"
            )
        return protocol.DeleteResult(path=file_path)

    async def adelete(self, file_path: str) -> protocol.DeleteResult:
        return await asyncio.to_thread(self.delete, file_path)


def make_copy_tool(backend: BackendProtocol, name: str = "copy_file") -> BaseTool:
    """A tool that copies a file from one path of a backend to another, bytes and all, without a
    model having to read and write them. With a ``CompositeBackend`` it takes files from a permanent
    store into the workspace, and results back."""

    def run(source: str, target: str) -> str:
        return _stored(backend, backend.download_files([source])[0], target)

    async def run_async(source: str, target: str) -> str:
        return await asyncio.to_thread(run, source, target)

    return StructuredTool.from_function(
        run,
        run_async,
        name=name,
        description="Copies a file, of any kind and size, from the path source to the path target. "
        "What target had before is replaced.",
    )


def _stored(backend: BackendProtocol, got: FileDownloadResponse, target: str) -> str:
    if got.error or got.content is None:
        return f"Error: {got.path}: {got.error}"
    put = backend.upload_files([(target, got.content)])[0]
    if put.error:
        return f"Error: {target}: {put.error}"
    return f"copied {len(got.content)} bytes from {got.path} to {target}"
