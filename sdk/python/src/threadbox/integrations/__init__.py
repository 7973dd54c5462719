# SPDX-License-Identifier: Apache-2.0
"""Threadbox inside agent frameworks.

``BashTool`` and the prompts need nothing but this package. ``threadbox.integrations.langchain``
(``BASH_TOOLS``, ``execute_bash_command``) needs ``threadbox[langchain]``, and
``threadbox.integrations.deepagents`` (``ThreadboxSandbox``) ``threadbox[deepagents]``. The names of
both are here as well, and are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .bash_tool import BashTool
from .prompts import (
    FILES_PROMPT,
    FILES_PROMPT_BEFORE,
    SYSTEM_PROMPT,
    SYSTEM_PROMPT_BEFORE,
    system_prompt,
    update_prompt,
)

if TYPE_CHECKING:
    from .deepagents import ThreadboxSandbox, make_copy_tool
    from .langchain import BASH_TOOLS, AgentContext, execute_bash_command, make_bash_tool

_LATER = {
    "AgentContext": "langchain",
    "BASH_TOOLS": "langchain",
    "ThreadboxSandbox": "deepagents",
    "execute_bash_command": "langchain",
    "make_bash_tool": "langchain",
    "make_copy_tool": "deepagents",
}

__all__ = [
    "BASH_TOOLS",
    "FILES_PROMPT",
    "FILES_PROMPT_BEFORE",
    "SYSTEM_PROMPT",
    "SYSTEM_PROMPT_BEFORE",
    "AgentContext",
    "BashTool",
    "ThreadboxSandbox",
    "execute_bash_command",
    "make_bash_tool",
    "make_copy_tool",
    "system_prompt",
    "update_prompt",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
