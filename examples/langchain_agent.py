# SPDX-License-Identifier: Apache-2.0
"""A LangChain agent with the bash tool; whose sandbox it is comes from the runtime context.

SANDBOX_URL=http://localhost:5000 python examples/langchain_agent.py
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from scripted_model import ScriptedModel, call, last_result

from threadbox.integrations.langchain import BASH_TOOLS, AgentContext, get_sandbox_client
from threadbox.integrations.prompts import SYSTEM_PROMPT

TOOL = "execute_bash_command"


def tell(messages: Sequence[BaseMessage]) -> AIMessage:
    return AIMessage(f"The sum is {json.loads(last_result(messages))['stdout'].strip()}.")


MODEL = ScriptedModel(
    script=[
        [
            call(TOOL, command="printf '42\\n100\\n' > amounts.txt"),
            AIMessage("The amounts are in amounts.txt."),
        ],
        [call(TOOL, command="awk '{sum += $1} END {print sum}' amounts.txt"), tell],
    ]
)


async def main() -> None:
    agent = create_agent(
        MODEL, BASH_TOOLS, system_prompt=SYSTEM_PROMPT, context_schema=AgentContext
    )
    context = AgentContext(user_id="user123", session_id=f"conversation-{uuid.uuid4().hex}")
    messages: list[BaseMessage] = []
    for question in ("Note 42 and 100.", "What is their sum?"):
        asked = {"messages": [*messages, ("user", question)]}
        messages = (await agent.ainvoke(asked, context=context))["messages"]
        print(f"user: {question}\nagent: {messages[-1].text}")
    client = get_sandbox_client()
    client.thread_id = context.session_id
    client.close_session()


if __name__ == "__main__":
    asyncio.run(main())
