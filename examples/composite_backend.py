# SPDX-License-Identifier: Apache-2.0
"""A permanent store and a sandbox behind one tree: the sandbox computes, the store keeps.

/store/ is a directory here; it could be a database or a bucket. The agent copies what it needs
into the workspace, works on the copy, and copies the result back. When the session ends, the
workspace is gone, and the store has what was kept.

    SANDBOX_URL=http://localhost:5000 python examples/composite_backend.py
"""

from __future__ import annotations

import pathlib
import tempfile
import uuid

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, FilesystemBackend
from langchain_core.messages import AIMessage, ToolMessage
from scripted_model import ScriptedModel, call, last_result

from threadbox import SandboxClient
from threadbox.integrations.deepagents import ThreadboxSandbox, make_copy_tool

SORT = "sort -t, -k2 -rn sales.csv | head -2 > top.csv"
MODEL = ScriptedModel(
    script=[
        [
            call("ls", path="/store/"),
            call("copy_file", source="/store/sales.csv", target="/workspace/sales.csv"),
            call("execute", command=SORT),
            call("copy_file", source="/workspace/top.csv", target="/store/reports/top.csv"),
            lambda messages: AIMessage(f"Done: {last_result(messages)}"),
        ]
    ]
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, SandboxClient() as client:
        store = pathlib.Path(folder)
        (store / "sales.csv").write_text("tea,30\ncoffee,75\nmilk,12\ncocoa,41\n")
        thread = f"conversation-{uuid.uuid4().hex}"
        sandbox = ThreadboxSandbox(client, thread)
        backend = CompositeBackend(
            default=sandbox,
            routes={"/store/": FilesystemBackend(root_dir=folder, virtual_mode=True)},
            artifacts_root="/workspace/.agent",  # long outputs that deepagents puts aside
        )
        agent = create_deep_agent(model=MODEL, backend=backend, tools=[make_copy_tool(backend)])
        state = agent.invoke({"messages": [("user", "Which two products sold best?")]})
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                print(f"{message.name}: {message.text.strip()}")
        print(state["messages"][-1].text)
        sandbox.close()
        print(f"the workspace is gone: {sandbox.ls('/workspace').entries}")
        print(f"the store has: {(store / 'reports' / 'top.csv').read_text().split()}")
        sandbox.close()


if __name__ == "__main__":
    main()
