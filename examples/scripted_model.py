# SPDX-License-Identifier: Apache-2.0
"""A chat model that follows a script, so that the examples run without a key or a network. Put a
real one in its place: nothing else changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

Step = AIMessage | Callable[[Sequence[BaseMessage]], AIMessage]
_numbers = itertools.count(1)


def call(tool: str, **arguments: Any) -> AIMessage:
    """The model asks for a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"c{next(_numbers)}"}])


def last_result(messages: Sequence[BaseMessage]) -> str:
    """What the last tool answered."""
    return next(str(one.text) for one in reversed(messages) if isinstance(one, ToolMessage))


class ScriptedModel(BaseChatModel):
    """For each message of a user a list of steps; a step may look at the conversation."""

    script: list[list[Any]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        asked = [n for n, one in enumerate(messages) if isinstance(one, HumanMessage)]
        done = sum(isinstance(one, AIMessage) for one in messages[asked[-1] :])
        step: Step = self.script[len(asked) - 1][done]
        message = step(messages) if callable(step) else step
        # The same step may be said in many conversations, each time by a message of its own.
        return ChatResult(generations=[ChatGeneration(message=message.model_copy())])
