# SPDX-License-Identifier: Apache-2.0
"""Code that keeps its state between calls, in both modes."""

import asyncio
import threading

import pytest
from server import wait_until

from threadbox import (
    CodeError,
    CodeOutput,
    CodeResult,
    ConflictError,
    Execution,
    InvalidRequestError,
    ProcessNotFoundError,
)


@pytest.fixture(params=["remote", "local"])
def mode(request):
    return request.param


def test_code_keeps_its_state_and_shows_its_last_value(client):
    first = client.code.run("x = 41\nprint('hello')\nimport sys; print('err', file=sys.stderr)")
    assert (first.logs.stdout, first.logs.stderr) == (["hello\n"], ["err\n"])
    assert (first.text, first.results, first.error) == (None, [], None)
    second = client.execute_code("x + 1")
    assert (second.text, second.execution_count) == ("42", 2)
    assert second.results == [CodeResult(text="42", is_main_result=True)]
    assert second.results[0].formats() == ["text"] and second.results[0]["text"] == "42"
    failed = client.code.run("1 / 0")
    assert failed.error is not None and failed.error.name == "ZeroDivisionError"
    assert "<cell 3>" in failed.error.traceback and failed.stdout == ""


def test_languages_and_what_is_unknown(client):
    assert client.execute_code("cd /tmp; pwd", "bash").stdout == "/tmp\n"
    assert client.code.run("pwd; exit_code() { :; }; false", "bash").exit_code == 1
    with pytest.raises(InvalidRequestError, match="python, javascript, bash"):
        client.execute_code("1", "cobol")
    with pytest.raises(ProcessNotFoundError):
        client.code.run("1", context="nosuch")


def test_contexts_are_apart(client):
    with client.code.create_context(cwd="/tmp", env={"A": "1"}) as mine:
        look = "import os; (os.getcwd(), os.environ.get('A'))"
        assert mine.run(look).text == "('/tmp', '1')"
        assert client.code.run(look, env={"A": "2"}).text == "('/workspace', '2')"
        mine.run("x = 1")
        assert client.code.run("x", context=mine).text == "1"
        assert {one.context_id for one in client.code.contexts()} == {mine.context_id, "python"}
        with pytest.raises(ConflictError):
            mine.interrupt()
        mine.restart()
        assert mine.run("x").error.name == "NameError"
        assert client.code.get_context("python").info.execution_count == 1
    assert [one.context_id for one in client.code.contexts()] == ["python"]


def test_a_stream_comes_as_it_happens(client):
    events = list(client.code.stream("print('a'); display(1)\nprint('b'); 1 / 0"))
    assert [type(event) for event in events] == [
        CodeOutput, CodeResult, CodeOutput, CodeError, Execution]  # fmt: skip
    assert (events[0].stream, events[0].text, events[1].text) == ("stdout", "a\n", "1")
    assert events[-1].error == events[-2] and events[-1].execution_count == 1
    for event in client.code.stream("import time\nx = 1\nprint('begun')\ntime.sleep(100)"):
        if isinstance(event, CodeOutput):
            break
    assert client.code.run("x").text == "1"


def test_time_and_interrupts_keep_the_state(client):
    late = client.code.run("x = 1\nwhile True: pass", timeout=0.3)
    assert late.timed_out and late.error.name == "TimeoutError" and not late.state_lost
    answers = []
    call = threading.Thread(
        target=lambda: answers.append(client_code.run("import time; time.sleep(100)"))
    )
    client_code = client.code
    call.start()
    wait_until(lambda: client.code.get_context("python").info.state == "running", "it runs")
    client.code.get_context("python").interrupt()
    call.join()
    assert answers[0].interrupted and answers[0].error.name == "KeyboardInterrupt"
    assert client.code.run("x").text == "1"
    lost = client.code.run("import os; os._exit(3)")
    assert lost.state_lost and lost.error.name == "InterpreterLost"
    assert client.code.run("1").restarted


def test_for_asyncio(in_loop):
    async def use(client):
        done = await client.execute_code("import asyncio; await asyncio.sleep(0, 'awaited')")
        assert done.text == "awaited"
        texts = [event.text async for event in client.code.stream("print(1); 2")
                 if isinstance(event, CodeOutput | CodeResult)]  # fmt: skip
        assert texts == ["1\n", "2"]
        call = asyncio.create_task(client.code.run("y = 1\nwhile True: pass"))
        while (  # noqa: ASYNC110 (the event is the server's)
            await client.code.get_context("python")
        ).info.state != "running":
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.code.run("y")).text == "1"

    in_loop(use)
