# SPDX-License-Identifier: Apache-2.0
"""A LangGraph of your own with the bash tool: the thread of the checkpointer is the thread of the
sandbox, so that each conversation finds both its messages and its files again.

    SANDBOX_URL=http://localhost:5000 python examples/langgraph_agent.py
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from scripted_model import ScriptedModel, call, last_result

from threadbox.integrations.langchain import BASH_TOOLS, get_sandbox_client

TOOL = "execute_bash_command"


def tell(messages: Sequence[BaseMessage]) -> AIMessage:
    return AIMessage(f"It says: {json.loads(last_result(messages))['stdout'].strip()}")


MODEL = ScriptedModel(
    script=[
        [
            lambda messages: call(TOOL, command=f"echo {messages[0].text} > note"),
            AIMessage("Noted."),
        ],
        [call(TOOL, command="cat note"), tell],
    ]
)


def make_graph() -> CompiledStateGraph:
    def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [MODEL.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(BASH_TOOLS))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=InMemorySaver())


def main() -> None:
    graph = make_graph()
    threads = {name: f"{name}-{uuid.uuid4().hex}" for name in ("ada", "bob")}
    for text in ("hello-from-{}", "What was it?"):
        for name, thread in threads.items():
            config: RunnableConfig = {"configurable": {"thread_id": thread}}
            state = graph.invoke({"messages": [("user", text.format(name))]}, config)
            print(f"{name}: {state['messages'][-1].text}")
    client = get_sandbox_client()
    for thread in threads.values():
        client.thread_id = thread
        client.close_session()


if __name__ == "__main__":
    main()
