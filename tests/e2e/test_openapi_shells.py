# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says of shells is true, and what it does not allow is refused."""
import concurrent.futures

import pytest

from shells import Shell, open_shell, try_open
from test_openapi import assert_described, validator


@pytest.fixture(scope="module")
def spec(server):
    return server.get("/openapi.json").json


@pytest.fixture
def shell(server, session):
    return open_shell(server, session)


def test_the_life_of_a_shell_is_as_described(server, session, spec):
    fields = {"cwd": "/tmp", "env": {"A": "1"}, "tag": "mine"}
    validator(spec, spec["components"]["schemas"]["OpenShell"]).validate(fields)
    opened = assert_described(spec, "openShell", try_open(server, session, **fields), 201)
    mine = Shell(server, session, opened.json["shell_id"])
    base = f"/api/sessions/{session}/shells"
    assert_described(spec, "listShells", server.get(base), 200)
    for command in ("echo $A", "exit 3", "kill -9 $$"):
        body = {"command": command, "timeout": 5}
        validator(spec, spec["components"]["schemas"]["RunInShell"]).validate(body)
        assert_described(spec, "runInShell", mine.try_run(**body), 200)
    assert_described(spec, "runInShell", mine.try_run("echo x", stream=True), 200)
    assert_described(spec, "getShell", server.get(mine.path), 200)
    assert_described(spec, "interruptShell", mine.interrupt(), 409)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(mine.try_run, "sleep 300")
        mine.wait_running("sleep 300")
        assert_described(spec, "interruptShell", mine.interrupt(), 200)
        waiting = pool.submit(mine.try_run, "true")
        assert_described(spec, "closeShell", mine.delete(), 200)
        assert_described(spec, "runInShell", future.result(), 200)
        assert waiting.result().status in (404, 409)
    for operation, reply in [("closeShell", mine.delete()), ("getShell", server.get(mine.path)),
                             ("runInShell", mine.try_run("true")),
                             ("interruptShell", mine.interrupt())]:
        assert_described(spec, operation, reply, 404)
    assert_described(spec, "getShell", server.get(f"{base}/x"), 400)
    assert_described(spec, "openShell", try_open(server, "nobody"), 404)


@pytest.mark.parametrize("fields,words", [
    ({}, "missing"), ({"command": 5}, "string"), ({"command": "a\0b"}, "NUL"),
    ({"command": "ls", "timeout": 0}, "timeout"), ({"command": "ls", "stream": 1}, "stream"),
    ({"command": "ls", "cwd": "/tmp"}, "cwd"), ({"command": "ls", "stdin": ""}, "stdin")])
def test_wrong_runs_are_refused(server, spec, shell, fields, words):
    reply = server.post(f"{shell.path}/run", fields)
    assert words in assert_described(spec, "runInShell", reply, 400).json["error"], reply
    assert shell.say("echo fine") == "fine\n"


@pytest.mark.parametrize("fields,words", [
    ({"cwd": "/nowhere"}, "cwd"), ({"env": {"A": 1}}, "env"), ({"tag": "x" * 257}, "tag"),
    ({"env": {"": "x"}}, "variable"), ({"cwd": "a\0b"}, "NUL")])
def test_wrong_shells_are_refused(server, session, spec, fields, words):
    reply = try_open(server, session, **fields)
    assert words in assert_described(spec, "openShell", reply, 400).json["error"], reply
    assert server.stdout(session, "ls -A /dev/shm") == ""


def test_there_is_a_limit_of_shells(server, session):
    for _ in range(16):
        open_shell(server, session)
    assert try_open(server, session).status == 429
    Shell(server, session, 3).delete()
    open_shell(server, session).say("true")


def test_unknown_ones(server, session):
    for path in (f"/api/sessions/{session}/shells/9", "/api/sessions/nobody/shells/1"):
        assert server.get(path).status == 404
        assert server.request("DELETE", path).status == 404
        assert server.post(f"{path}/run", {"command": "ls"}).status == 404
        assert server.post(f"{path}/interrupt").status == 404
    assert server.get(f"/api/sessions/{session}/shells/x").status == 400


def test_a_callback_s_address_is_looked_at_as_everywhere(server, shell):
    body = {"command": "true", "notify_url": "http://127.0.0.1:1/x"}
    plain = server.post("/execute", {"session_id": shell.session, **body})
    within = server.post(f"{shell.path}/run", body)
    assert (within.status, within.json["error"]) == (400, plain.json["error"])
