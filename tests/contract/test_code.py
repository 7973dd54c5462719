# SPDX-License-Identifier: Apache-2.0
"""Code in interpreters that live on, and beyond the server that started them."""
import pytest

from cells import run, show, stream, try_run


@pytest.fixture
def box(server):
    name = server.create(policy="open")
    yield name
    server.cleanup(name)


def test_bash_keeps_its_state(server, box):
    run(server, box, "cd /tmp; a=1", language="bash")
    answer = run(server, box, "pwd; echo $a; false", language="bash")
    assert (answer["stdout"], answer["exit_code"]) == ("/tmp\n1\n", 1)


def test_python_keeps_its_state_and_is_interrupted(server, box):
    reply = try_run(server, box, "x = 1; print('hello'); x + 1")
    if reply.status == 400 and "no python3" in reply.json["error"]:
        pytest.skip("there is no python3 in the image")
    assert (reply.json["stdout"], reply.json["text"]) == ("hello\n", "2")
    late = run(server, box, "x = 2\nwhile True: pass", timeout=0.5)
    assert late["timed_out"] and not late["state_lost"]
    assert run(server, box, "x")["text"] == "2"
    assert len(run(server, box, "'z' * 1_000_000")["text"]) == 1_000_000
    with stream(server, box, "print('a'); 1") as events:
        kinds = [kind for kind, _ in events]
    assert kinds == ["number_of_executions", "stdout", "result", "end_of_execution"]
    assert show(server, box, "python")["state"] == "waiting"
    assert run(server, box, "import os; os._exit(3)")["state_lost"]
    assert run(server, box, "1")["restarted"]
