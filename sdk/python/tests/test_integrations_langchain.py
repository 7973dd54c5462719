# SPDX-License-Identifier: Apache-2.0
"""The bash tool in LangChain agents, against the real server."""

import asyncio
import json
import logging
import pathlib
import sys
from dataclasses import dataclass

import pytest

pytest.importorskip("langchain")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from live import people
from scripted_model import ScriptedModel, call
from server import wait_until

from threadbox import SandboxClient
from threadbox.integrations.langchain import (
    BASH_TOOLS,
    AgentContext,
    execute_bash_command,
    get_sandbox_client,
    make_bash_tool,
)

NAME = "execute_bash_command"


@pytest.fixture
def tool(url):
    return make_bash_tool(server_url=url, policy="open")


@pytest.fixture(autouse=True)
def closed(url, thread):
    yield
    with SandboxClient(server_url=url) as client:
        client.thread_id = thread


def run(tool, *commands, context=None, config=None, asynchronous=False, **arguments):
    """What the tool answered for each command of one conversation."""
    steps = [call(NAME, command=command, **arguments) for command in commands]
    model = ScriptedModel(script=[[*steps, AIMessage("done")]])
    agent = create_agent(model, [tool], context_schema=type(context) if context else None)
    asked = {"messages": [("user", "go")]}
    if asynchronous:
        state = asyncio.run(agent.ainvoke(asked, context=context, config=config))
    else:
        state = agent.invoke(asked, context=context, config=config)
    answers = [one.content for one in state["messages"] if isinstance(one, ToolMessage)]
    return [json.loads(one) for one in answers]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_answer_has_four_keys(tool, thread, caplog, asynchronous):
    caplog.set_level(logging.INFO, "threadbox.integrations.langchain")
    context = AgentContext(user_id="user-123456", session_id=thread)
    commands = ("echo hi > f; cat f", "cat f; echo no >&2; exit 7")
    good, bad = run(tool, *commands, context=context, asynchronous=asynchronous)
    assert good == {"status": "success", "stdout": "hi\n", "stderr": "", "return_code": 0}
    assert bad == {"status": "error", "stdout": "hi\n", "stderr": "no\n", "return_code": 7}
    lines = [one.getMessage() for one in caplog.records]
    assert lines[0] == f"[BASH] user=user-123... thread={thread[:12]}... cmd=echo hi > f; cat f"
    assert lines[1].startswith("[BASH] Using session ") and lines[1].endswith("(status=created)")
    assert lines[2].startswith("[BASH] Command completed successfully (")
    assert lines[-2:] == ["[BASH] Command failed (exit=7)", "[BASH] STDERR: no\n"]


def test_a_refusal_is_an_answer(url, thread, caplog):
    strict = make_bash_tool(server_url=url, policy="strict")
    context = AgentContext("u", thread)
    refused, fine = run(strict, "curl http://example.com", "echo ok", context=context)
    assert refused["status"] == "error" and refused["return_code"] == -1
    assert refused["stdout"] == refused["stderr"] == "" and "curl" in refused["error"]
    assert refused["command"] == "curl http://example.com"
    assert fine["stdout"] == "ok\n"
    assert any("[BASH] Execution failed: " in one.getMessage() for one in caplog.records)


def test_a_server_that_is_away_is_an_answer():
    away = make_bash_tool(server_url="http://127.0.0.1:9")
    (answer,) = run(away, "true", context=AgentContext("u", "t"))
    assert answer["status"] == "error" and answer["return_code"] == -1 and answer["error"]


def test_without_a_context_there_is_no_sandbox(tool):
    assert tool.invoke({"command": "true"}) == {
        "status": "error",
        "error": "Runtime context not provided",
    }
    assert asyncio.run(tool.ainvoke({"command": "true"}))["error"] == "Runtime context not provided"
    (answer,) = run(tool, "true", context=AgentContext("u", ""))
    assert answer == {"status": "error", "error": "No thread_id in context"}


def test_other_contexts_do(tool, thread):
    @dataclass
    class Mine:
        user_id: str
        session_id: str
        more: int = 1

    (one,) = run(tool, "echo x > f", context=Mine("u", thread))
    (two,) = run(tool, "cat f", config={"configurable": {"thread_id": thread}})
    assert one["return_code"] == 0 and two["stdout"] == "x\n"


def test_a_model_sees_what_it_may_choose(tool, thread):
    assert [execute_bash_command] == BASH_TOOLS and execute_bash_command.name == NAME
    assert set(execute_bash_command.tool_call_schema.model_json_schema()["properties"]) == {
        "command",
        "working_dir",
    }
    assert "persist" in execute_bash_command.description
    assert "5 min idle" in make_bash_tool(timeout_minutes=5).description
    context = AgentContext("u", thread)
    (made,) = run(tool, "mkdir sub", context=context)
    (where,) = run(tool, "pwd", context=context, working_dir="/workspace/sub")
    assert made["return_code"] == 0 and where["stdout"] == "/workspace/sub\n"


def test_a_cancelled_command_is_killed(tool, server, url, thread):
    async def test():
        model = ScriptedModel(script=[[call(NAME, command="sleep 600")]])
        agent = create_agent(model, [tool], context_schema=AgentContext)
        asked = {"messages": [("user", "go")]}
        with SandboxClient(server_url=url, policy="open") as client:
            session = client.session(thread).session_id
            going = asyncio.create_task(agent.ainvoke(asked, context=AgentContext("u", thread)))
            await asyncio.to_thread(wait_until, lambda: people(server, session), "it runs")
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            await asyncio.to_thread(wait_until, lambda: not people(server, session), "it is gone")

    asyncio.run(test())


def test_settings_come_from_the_environment(url, thread, monkeypatch):
    monkeypatch.setenv("SANDBOX_URL", url)
    monkeypatch.setenv("SANDBOX_MODE", "remote")
    (answer,) = run(execute_bash_command, "echo hello", context=AgentContext("u", thread))
    assert answer["stdout"] == "hello\n"
    assert get_sandbox_client() is get_sandbox_client() and get_sandbox_client().server_url == url
