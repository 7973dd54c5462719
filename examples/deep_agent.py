# SPDX-License-Identifier: Apache-2.0
"""A deep agent whose files and commands live in a sandbox.

SANDBOX_URL=http://localhost:5000 python examples/deep_agent.py
"""

from __future__ import annotations

import uuid

from deepagents import create_deep_agent
from langchain_core.messages import AIMessage, ToolMessage
from scripted_model import ScriptedModel, call, last_result

from threadbox import SandboxClient
from threadbox.integrations.deepagents import ThreadboxSandbox

PROGRAM = "total = 0\nfor n in range(10):\n    total += n\nprint('total', total)\n"
MODEL = ScriptedModel(
    script=[
        [
            call("write_file", file_path="/workspace/src/sum.py", content=PROGRAM),
            call("execute", command="python3 src/sum.py"),
            call(
                "edit_file",
                file_path="/workspace/src/sum.py",
                old_string="range(10)",
                new_string="range(11)",
            ),
            call("grep", pattern="range", path="/workspace", output_mode="content"),
            call("glob", pattern="*.py", path="/workspace"),
            call("execute", command="python3 src/sum.py"),
            lambda messages: AIMessage(f"Now it prints: {last_result(messages).splitlines()[0]}"),
        ]
    ]
)


def main() -> None:
    with SandboxClient() as client:  # SANDBOX_URL, or in this process
        backend = ThreadboxSandbox(client)
        agent = create_deep_agent(model=MODEL, backend=backend)
        thread = f"conversation-{uuid.uuid4().hex}"
        state = agent.invoke(
            {"messages": [("user", "Sum the numbers up to 10.")]},
            config={"configurable": {"thread_id": thread}},
        )
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                print(f"{message.name}: {message.text.strip()}")
        print(state["messages"][-1].text)
        ThreadboxSandbox(client, thread).close()


if __name__ == "__main__":
    main()
