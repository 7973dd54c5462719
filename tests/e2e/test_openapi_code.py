# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says of code is true, and what it does not allow is refused."""
import concurrent.futures

import pytest

from cells import show, try_run
from server import wait_until
from test_openapi import assert_described, validator


@pytest.fixture(scope="module")
def spec(server):
    return server.get("/openapi.json").json


def test_the_life_of_a_context_is_as_described(server, session, spec):
    base = f"/api/sessions/{session}/contexts"
    fields = {"language": "python", "cwd": "/tmp", "env": {"A": "1"}}
    validator(spec, spec["components"]["schemas"]["CreateContext"]).validate(fields)
    made = assert_described(spec, "createContext", server.post(base, fields), 201)
    mine = f"{base}/{made.json['context_id']}"
    assert_described(spec, "listContexts", server.get(base), 200)
    assert_described(spec, "getContext", server.get(mine), 200)
    assert_described(spec, "interruptContext", server.post(f"{mine}/interrupt"), 409)
    assert_described(spec, "restartContext", server.post(f"{mine}/restart"), 200)
    assert_described(spec, "deleteContext", server.request("DELETE", mine), 200)
    for operation, reply in (("getContext", server.get(mine)),
                             ("deleteContext", server.request("DELETE", mine)),
                             ("interruptContext", server.post(f"{mine}/interrupt")),
                             ("restartContext", server.post(f"{mine}/restart"))):
        assert_described(spec, operation, reply, 404)
    assert_described(spec, "createContext", server.post(base, {"language": "x"}), 400)


def test_calls_are_as_described(server, session, spec):
    bodies = [{"code": "print(1); 2"}, {"code": "1 / 0", "env": {"A": "1"}, "timeout": 5},
              {"code": "import os; os._exit(1)"}, {"code": "false", "language": "bash"},
              {"code": "display(1)", "stream": True}]
    for body in bodies:
        validator(spec, spec["components"]["schemas"]["RunCode"]).validate(body)
        assert_described(spec, "runCode", try_run(server, session, **body), 200)
    assert_described(spec, "runCode", try_run(server, session, "1", language="x"), 400)
    assert_described(spec, "runCode", try_run(server, session, "1", context_id="x"), 404)
    body = {"session_id": session, "code": "1"}
    assert_described(spec, "e2bExecute", server.post("/api/e2b/execute", body), 200)
    body["session_id"] = "x"
    assert_described(spec, "e2bExecute", server.post("/api/e2b/execute", body), 404)


def test_a_context_that_is_deleted_under_its_calls(server, session, spec):
    base = f"/api/sessions/{session}/contexts"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = pool.submit(try_run, server, session, "import time; time.sleep(100)")
        wait_until(lambda: server.get(base).json["contexts"], "there is a context")
        wait_until(lambda: show(server, session, "python")["state"] == "running", "it runs")
        waiting = pool.submit(try_run, server, session, "1")
        wait_until(lambda: show(server, session, "python")["waiting_calls"] == 1, "one waits")
        assert server.post(f"{base}/python/interrupt").status == 200
        assert_described(spec, "runCode", running.result(), 200)
        assert waiting.result().json["text"] == "1"
        running = pool.submit(try_run, server, session, "import time; time.sleep(100)")
        wait_until(lambda: show(server, session, "python")["state"] == "running", "it runs")
        waiting = pool.submit(try_run, server, session, "1")
        wait_until(lambda: show(server, session, "python")["waiting_calls"] == 1, "one waits")
        assert_described(spec, "deleteContext", server.request("DELETE", f"{base}/python"), 200)
        assert running.result().json["state_lost"]
        assert_described(spec, "runCode", waiting.result(), 409)
