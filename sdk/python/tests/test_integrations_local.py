# SPDX-License-Identifier: Apache-2.0
"""Agents without a server: LangChain's standard tests once more, and the bash tool, in-process."""

import asyncio
import json
import pathlib
import sys

import pytest

pytest.importorskip("langchain_tests")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_tests.integration_tests import SandboxIntegrationTests
from local_support import state_dir
from scripted_model import ScriptedModel, call

from threadbox import SandboxClient
from threadbox.integrations.deepagents import ThreadboxSandbox
from threadbox.integrations.langchain import AgentContext, make_bash_tool


@pytest.fixture(scope="module")
def settings():
    with state_dir() as where:
        yield {"mode": "local", "state_dir": where, "default_policy": "open"}


class TestStandardLocal(SandboxIntegrationTests):
    @property
    def sandbox_root_dir(self):
        return "/workspace/standard"

    @pytest.fixture(scope="class")
    def sandbox(self, settings):
        with SandboxClient(**settings) as client:
            backend = ThreadboxSandbox(client, "standard", rules="0.6")
            yield backend
            backend.close()


def test_files_need_no_process_here_either(settings, thread):
    with SandboxClient(**settings) as client:
        backend = ThreadboxSandbox(client, thread)
        before = backend.session().execute("true")["process_id"]
        backend.write("/workspace/a.txt", "one\ntwo\n")
        assert backend.edit("/workspace/a.txt", "two", "2").occurrences == 1
        assert backend.grep("2").matches[0]["line"] == 2
        assert backend.session().execute("true")["process_id"] == before + 1
        backend.close()


def test_the_bash_tool_is_the_same(settings, thread):
    steps = [call("execute_bash_command", command=one) for one in ("echo hi > f", "cat f; exit 3")]
    model = ScriptedModel(script=[[*steps, AIMessage("done")]])
    agent = create_agent(model, [make_bash_tool(**settings)], context_schema=AgentContext)
    asked, context = {"messages": [("user", "go")]}, AgentContext("u", thread)
    for state in (
        agent.invoke(asked, context=context),
        asyncio.run(agent.ainvoke(asked, context=context)),
    ):
        told = [json.loads(m.content) for m in state["messages"] if isinstance(m, ToolMessage)]
        assert [one["return_code"] for one in told] == [0, 3]
        assert told[1]["stdout"] == "hi\n" and told[1]["status"] == "error"
    with SandboxClient(**settings) as client:
        client.thread_id = thread
