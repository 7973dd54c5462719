# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says of live processes is true."""
import json
import urllib.parse

import pytest

from server import Reply
from test_openapi import assert_described, response_of, validator
from websocket import Refused, WebSocket


@pytest.fixture(scope="module")
def spec(server):
    return server.get("/openapi.json").json


@pytest.fixture
def base(session):
    return f"/api/sessions/{session}/processes"


@pytest.fixture
def start(server, spec, base):
    """Starts a process with fields that the schema must allow; its path."""
    def run(**fields):
        validator(spec, spec["components"]["schemas"]["StartProcess"]).validate(fields)
        reply = assert_described(spec, "startProcess", server.post(base, fields), 201)
        return f"{base}/{reply.json['process_id']}"
    return run


def assert_process(spec, value):
    validator(spec, spec["components"]["schemas"]["Process"]).validate(value)


def events_of(reply):
    """[(name, id, data)] of an answer in events; comments are left out."""
    found = []
    for block in reply.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def test_the_life_of_a_process_is_as_described(server, spec, start):
    path = start(command="cat", stdin_open=True, tag="mine", env={"A": "1"}, cwd="/tmp", timeout=60)
    shown = assert_described(spec, "getProcess", server.get(path), 200).json
    assert (shown["tag"], shown["cwd"], shown["stdin_open"]) == ("mine", "/tmp", True)
    for body in (b"\0\xff", {"data": "é"}):
        reply = assert_described(spec, "writeInput", server.post(f"{path}/stdin", body), 200)
        assert reply.json["written"] == 2
    for body in ({"signal": "CONT"}, {"signal": "SIGCONT", "tree": False}, {"signal": 18}):
        validator(spec, spec["components"]["schemas"]["Signal"]).validate(body)
        assert_described(spec, "signalProcess", server.post(f"{path}/signal", body), 200)
    assert_described(spec, "closeInput", server.post(f"{path}/stdin/close"), 200)
    for _ in range(2):
        assert_described(spec, "endProcess", server.request("DELETE", path), 200)
    assert_described(spec, "closeInput", server.post(f"{path}/stdin/close"), 409)
    assert_described(spec, "writeInput", server.post(f"{path}/stdin", b"x"), 409)
    assert_described(spec, "signalProcess", server.post(f"{path}/signal", {"signal": 15}), 409)


def test_terminals_are_as_described(server, spec, start):
    path = start(argv=["cat"], pty={"rows": 11, "cols": 22})
    size = {"rows": 50, "cols": 132}
    validator(spec, spec["components"]["schemas"]["TerminalSize"]).validate(size)
    reply = assert_described(spec, "resizeTerminal", server.post(f"{path}/resize", size), 200)
    assert reply.json["pty"] is True
    server.request("DELETE", path)
    assert_described(spec, "resizeTerminal", server.post(f"{path}/resize", size), 409)


def test_a_start_with_a_known_key_is_as_described(server, spec, start, base):
    path = start(command="true", idempotency_key="once")
    reply = server.post(base, {"command": "true"}, headers={"Idempotency-Key": "once"})
    again = assert_described(spec, "startProcess", reply, 201)
    assert path == f"{base}/{again.json['process_id']}"


@pytest.mark.parametrize("fields", [
    {}, {"command": "ls", "argv": ["ls"]}, {"command": ""}, {"argv": []}, {"argv": [1]},
    {"command": "ls", "stdin_open": 1}, {"command": "ls", "pty": "yes"},
    {"command": "ls", "pty": {"rows": 0}}, {"command": "ls", "tag": "x" * 257},
    {"command": "ls", "idempotency_key": "x" * 257}, {"command": "ls", "timeout": 0}])
def test_what_a_start_refuses_the_schema_refuses(server, spec, base, fields):
    assert not validator(spec, spec["components"]["schemas"]["StartProcess"]).is_valid(fields)
    assert_described(spec, "startProcess", server.post(base, fields), 400)


def test_other_refused_starts_are_as_described(server, spec, base):
    for fields in ({"argv": ["no-such-program"]}, {"command": "ls", "cwd": "/nowhere"}):
        assert_described(spec, "startProcess", server.post(base, fields), 400)
    gone = server.post("/api/sessions/nobody/processes", {"command": "ls"})
    assert_described(spec, "startProcess", gone, 404)
    strict = server.create(policy="strict")
    reply = server.post(f"/api/sessions/{strict}/processes", {"command": "ls", "pty": True})
    server.cleanup(strict)
    assert "no terminals" in assert_described(spec, "startProcess", reply, 400).json["error"]


@pytest.mark.parametrize("operation,tail,body,status", [
    ("signalProcess", "/signal", {"signal": "NOPE"}, 400), ("signalProcess", "/signal", {}, 400),
    ("signalProcess", "/signal", {"signal": 65}, 400),
    ("signalProcess", "/signal", {"signal": 1, "tree": 1}, 400),
    ("writeInput", "/stdin", {"text": "x"}, 400), ("writeInput", "/stdin", b"not open", 409),
    ("closeInput", "/stdin/close", None, 409),
    ("resizeTerminal", "/resize", {"rows": 1, "cols": 1}, 400),
    ("resizeTerminal", "/resize", {"rows": 0, "cols": 1}, 400)])
def test_refusals_of_a_process_are_as_described(server, spec, start, operation, tail, body,
                                                status):
    path = start(command="sleep 60")
    assert_described(spec, operation, server.post(path + tail, body), status)
    place, _, _ = path.rpartition("/")
    elsewhere = {"signal": 15, "rows": 1, "cols": 1, "data": ""}
    assert_described(spec, operation, server.post(f"{place}/99{tail}", elsewhere), 404)
    server.request("DELETE", path)


def test_ending_what_is_not_there_is_as_described(server, spec, base):
    assert_described(spec, "endProcess", server.request("DELETE", f"{base}/99"), 404)
    assert_described(spec, "endProcess", server.request("DELETE", f"{base}/x"), 400)


def test_events_of_output_are_as_described(server, spec, start):
    path = start(command="printf 123456")
    follow = {"Accept": "text/event-stream"}
    for more, name, data in (({}, "output", "123456"), ({"Last-Event-ID": "4"}, "output", "56")):
        reply = server.get(f"{path}/output", headers={**follow, **more})
        *pieces, last = events_of(assert_described(spec, "readOutput", reply, 200))
        assert "".join(piece["data"] for _, _, piece in pieces) == data
        assert (pieces[-1][0], pieces[-1][1], last[0]) == (name, "6", "exit")
        assert_process(spec, last[2])
    bad = server.get(f"{path}/output", headers={**follow, "Last-Event-ID": "x"})
    assert_described(spec, "readOutput", bad, 400)


def test_streams_of_execute_are_as_described(server, spec, session):
    body = {"session_id": session, "command": "echo a; echo b >&2", "stream": True}
    validator(spec, spec["components"]["schemas"]["Execute"]).validate(body)
    reply = assert_described(spec, "execute", server.post("/execute", body), 200)
    lines = [json.loads(line) for line in reply.body.splitlines() if line]
    assert sorted(line["type"] for line in lines[1:-1]) == ["stderr", "stdout"]
    assert (lines[0]["type"], lines[-1]["type"]) == ("start", "exit")
    assert_process(spec, lines[-1])
    reply = server.post("/execute", body, headers={"Accept": "text/event-stream"})
    events = events_of(assert_described(spec, "execute", reply, 200))
    assert [events[0][0], events[-1][0]] == ["start", "exit"]
    assert_process(spec, events[-1][2])


# ---- WebSockets ----

def messages_until_close(socket):
    found = []
    while not found or found[-1][0] != "close":
        found.append(socket.receive())
    return found


def assert_conversation(spec, target, server):
    with WebSocket("127.0.0.1", server.port, target) as socket:
        for name in response_of(spec, "attach", 101)["headers"]:
            assert name.lower() in socket.headers, name
        hello = json.loads(socket.receive()[1])
        assert (hello["type"], hello["offset"]) == ("attached", 0)
        assert_process(spec, hello)
        socket.send_text('{"type": "resize", "rows": 1, "cols": 1}')
        assert json.loads(socket.receive()[1])["type"] == "error"
        socket.send_text('{"type": "signal", "signal": "CONT"}')
        socket.send_binary(b"a\0b")
        assert socket.receive() == ("binary", b"a\0b")
        socket.send_text('{"type": "stdin_close"}')
        end, close = messages_until_close(socket)
    assert_process(spec, json.loads(end[1]))
    assert (json.loads(end[1])["type"], json.loads(end[1])["offset"]) == ("exit", 3)
    assert close == ("close", 1000, "the process has ended")
    return hello["process_id"]


def test_attaching_is_as_described(server, spec, start):
    path = start(argv=["cat"], stdin_open=True)
    assert_conversation(spec, f"{path}/attach", server)
    with WebSocket("127.0.0.1", server.port, f"{path}/attach?offset=2") as socket:
        assert socket.receive()[0] == "text"
        assert socket.receive() == ("binary", b"b")


@pytest.mark.parametrize("start", ["cat", '{"argv": ["cat"], "stdin_open": true}'])
def test_starting_and_attaching_is_as_described(server, spec, session, start):
    query = urllib.parse.urlencode({"start": start})
    number = assert_conversation(spec, f"/api/sessions/{session}/attach?{query}", server)
    assert server.output(session, number) == b"a\0b"


@pytest.mark.parametrize("status,operation,tail,headers", [
    (403, "attach", "processes/1/attach", {"Origin": "http://evil.example"}),
    (403, "startAndAttach", "attach?start=cat", {"Origin": "http://evil.example"}),
    (404, "attach", "processes/99/attach", {}), (400, "attach", "processes/x/attach", {}),
    (400, "attach", "processes/1/attach?stream=both", {}),
    (400, "startAndAttach", "attach", {}), (400, "startAndAttach", "attach?start={", {}),
    (400, "startAndAttach", "attach?start=", {})])
def test_refused_handshakes_are_as_described(server, spec, session, start, status, operation, tail,
                                             headers):
    start(command="true")
    with pytest.raises(Refused) as refused:
        WebSocket("127.0.0.1", server.port, f"/api/sessions/{session}/{tail}", headers=headers)
    told = refused.value
    names = {"content-type": "Content-Type"}
    reply = Reply(told.status, "", {names.get(k, k): v for k, v in told.headers.items()}, told.body)
    assert_described(spec, operation, reply, status)


def test_plain_requests_to_a_websocket_are_as_described(server, spec, session, start):
    assert_described(spec, "attach", server.get(start(command="true") + "/attach"), 426)
    reply = server.get(f"/api/sessions/{session}/attach?start=true")
    assert_described(spec, "startAndAttach", reply, 426)
