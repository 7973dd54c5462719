# SPDX-License-Identifier: Apache-2.0
"""Where the rules for sandbox backends differ between versions of deepagents.

Up to 0.6 ``write`` refuses a file that is there, and ``glob`` is that of Python: paths relative to
where it began, directories too. Since 0.7 ``write`` replaces, and ``glob`` answers with absolute
paths of files alone (its permission rules look at nothing else), a pattern without a slash meaning
names at any depth. LangChain's standard tests are those of 0.6.
"""

from __future__ import annotations

import importlib.metadata
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from wcmatch import glob as wcglob

from .. import FileInfo

Version = Literal["0.6", "0.7"]
T = TypeVar("T")
NEVER_SEARCHED = (".git",)  # packed objects: no text to find, and most of a checkout's bytes


def installed() -> Version:
    found = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("deepagents"))
    newer = found is None or (int(found[1]), int(found[2])) >= (0, 7)
    return "0.7" if newer else "0.6"


def known(kind: type[T], **values: Any) -> T:
    """An answer with those of the fields that this version's class has."""
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True)
class Pattern:
    """A pattern of ``glob``: how the server is asked, and which of its answers count. The server
    treats names with a leading dot like all others; here they must be asked for."""

    text: str
    version: Version

    def problem(self) -> str | None:
        if not self.text:
            return "the pattern is empty"
        if ".." in re.split(r"[/\\]", self.text):
            return "a pattern can't contain '..'"
        return None

    @property
    def _names_alone(self) -> bool:
        return self.version != "0.6" and "/" not in self.text

    @property
    def _relative(self) -> str:
        return self.text.lstrip("/")

    def for_server(self) -> str:
        return f"**/{self.text}" if self._names_alone else self._relative

    def choose(self, found: Iterable[FileInfo], base: str) -> list[FileInfo]:
        """Those that count, of entries below the directory ``base``."""
        return [one for one in found if self._wanted(one, base)]

    def _wanted(self, one: FileInfo, base: str) -> bool:
        if self.version != "0.6" and one.type == "directory":
            return False
        path = posixpath.basename(one.path) if self._names_alone else below(one.path, base)
        pattern = self.text if self._names_alone else self._relative
        flags = wcglob.BRACE | wcglob.GLOBSTAR
        return bool(wcglob.globmatch(path, pattern, flags=flags))


def below(path: str, base: str) -> str:
    """Of two paths in the workspace, the one relative to the other."""
    return path.removeprefix(f"{base}/") if base else path


@dataclass(frozen=True)
class Included:
    """Which files ``grep`` looks into. A leading slash means the place where it begins, which the
    server has no sign for."""

    text: str

    def for_server(self) -> str:
        return self.text.lstrip("/")

    def has(self, path: str) -> bool:
        """Of a path relative to that place."""
        if any(part in NEVER_SEARCHED for part in path.split("/")[:-1]):
            return False
        if not self.text.startswith("/"):
            return True
        flags = wcglob.BRACE | wcglob.GLOBSTAR | wcglob.DOTGLOB
        return bool(wcglob.globmatch(path, self.for_server(), flags=flags))
