# SPDX-License-Identifier: Apache-2.0
"""The routes and the shapes of their answers, as clients of every generation know them."""
import json
import re
import socket
import uuid

import pytest

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


def assert_error(reply, status, text):
    """`error` at the top, `detail` as FastAPI has it, and the text in the reason phrase."""
    assert reply.status == status, reply
    assert text in reply.json["error"], reply
    assert reply.json["detail"] == reply.json["error"]
    assert text in reply.reason
    assert reply.headers["Content-Type"] == "application/json"


def test_health_has_the_fields_of_all_generations(server):
    health = server.health()
    assert health["status"] == "healthy"
    assert health["worker_id"] == "standalone"
    assert health["redis_connected"] is False
    for field in ("pool_size", "pool_available", "active_sessions", "uptime_seconds"):
        assert isinstance(health[field], int), field
    assert set(health["pool"]) == {"available", "allocated", "total", "max_capacity"}
    assert health["config"]["max_pool_size"] == health["pool"]["max_capacity"] == 200
    assert health["isolation"]["level"] in ("full", "degraded")
    assert health["isolation"]["barriers"]["seccomp"] == "present"


def test_health_answers_HEAD_without_a_body(server):
    reply = server.request("HEAD", "/health")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("body", [None, "", "{}", {"user_id": "u"}])
def test_create_without_a_thread_gives_a_fresh_anonymous_session(server, body):
    first, second = server.post("/create_session", body), server.post("/create_session", body)
    assert (first.status, second.status) == (200, 200)
    assert first.json["session_id"] != second.json["session_id"]
    for answer in (first.json, second.json):
        assert uuid.UUID(answer["session_id"]).version == 4
        assert answer["status"] == "created"
        assert answer["user"] == "sandboxuser"
        assert answer["workspace"] == answer["workspace_dir"] == "/workspace"
        assert answer["worker"] == "standalone"
        server.cleanup(answer["session_id"])


def test_create_with_a_thread_then_again_answers_409_existing(server):
    thread = f"thread-{uuid.uuid4()}"
    body = {"user_id": "u1", "thread_id": thread, "timeout_minutes": 30}
    created = server.post("/create_session", body)
    assert created.status == 200
    assert created.json["status"] == "created"
    assert created.json["thread_id"] == thread
    assert TIME.match(created.json["expires_at"])
    existing = server.post("/create_session", body)
    assert existing.status == 409
    assert existing.json["status"] == "existing"
    assert existing.json["session_id"] == created.json["session_id"]
    assert existing.json["thread_id"] == thread
    assert existing.json["workspace_dir"] == "/workspace"
    assert TIME.match(existing.json["created_at"]) and TIME.match(existing.json["last_activity"])
    assert "detail" not in existing.json
    server.cleanup(created.json["session_id"])
    again = server.post("/create_session", body)
    assert again.status == 200
    assert again.json["session_id"] != created.json["session_id"]
    server.cleanup(again.json["session_id"])


def test_execute_answers_the_union_of_fields(server, session):
    answer = server.execute(session, "echo out; echo err >&2")
    assert answer["exit_code"] == 0
    assert answer["stdout"] == "out\n"
    assert answer["stderr"] == "err\n"
    assert sorted(answer["output"].split()) == ["err", "out"]
    assert answer["session_id"] == session
    assert isinstance(answer["execution_time_ms"], int)
    assert answer["cause"] == "exited"
    assert answer["timed_out"] is False
    assert answer["truncated"] is False
    assert answer["signal"] is None
    assert answer["limits_hit"] == []
    assert (answer["stdout_bytes"], answer["stderr_bytes"]) == (4, 4)
    assert answer["peak_memory_bytes"] > 100000
    assert answer["cpu_time_ms"] >= 0


@pytest.mark.parametrize("body", [{}, {"command": "true"}, {"session_id": "x"},
                                  {"session_id": None, "command": "true"}])
def test_execute_without_its_fields_is_400(server, body):
    assert_error(server.post("/execute", body), 400, "session_id and command required")


def test_execute_in_an_unknown_session_is_404(server):
    reply = server.try_execute("no-such-session", "true")
    assert_error(reply, 404, "Invalid or expired session")
    assert reply.json["session_id"] == "no-such-session"


@pytest.mark.parametrize("command", ["", " ", "\n\t "])
def test_execute_refuses_an_empty_command(server, session, command):
    reply = server.try_execute(session, command)
    assert_error(reply, 400, "Empty command")
    assert reply.json["command"] == command


@pytest.mark.parametrize("field,value", [("command", 5), ("command", ["ls"]), ("cwd", 1),
                                         ("stdin", {}), ("env", "A=1"), ("env", {"A": 1}),
                                         ("session_id", 7), ("timeout", "5"), ("timeout", [])])
def test_execute_names_the_field_of_the_wrong_type(server, session, field, value):
    reply = server.post("/execute", {"session_id": session, "command": "true", field: value})
    assert_error(reply, 400, field)


@pytest.mark.parametrize("field,value", [("thread_id", 5), ("user_id", []),
                                         ("timeout_minutes", "x"), ("timeout_minutes", 0),
                                         ("timeout_minutes", -1), ("timeout_minutes", 1e12),
                                         ("thread_id", "t" * 513), ("thread_id", "a\nb")])
def test_create_names_the_field_that_is_wrong(server, field, value):
    body = {"user_id": "u", "thread_id": "t-bad", field: value}
    assert_error(server.post("/create_session", body), 400, field)


@pytest.mark.parametrize("body", ["{", "[]", "null", "5", '"x"', "{} {}", '{"a":NaN}', "nonsense",
                                  "[" * 1000, '{"a":' * 100 + "1" + "}" * 100,
                                  b'{"session_id":"\xff\xfe","command":"true"}'])
def test_malformed_bodies_are_400(server, body):
    reply = server.post("/execute", body, headers={"Content-Type": "application/json"})
    assert_error(reply, 400, "")


def test_a_body_beyond_the_limit_is_413(server, session):
    reply = server.try_execute(session, "true # " + "x" * (17 << 20))
    assert_error(reply, 413, "")


def test_cleanup_is_idempotent_and_says_which(server):
    session = server.create()
    for _ in range(2):
        reply = server.post("/cleanup", {"session_id": session})
        assert reply.status == 200
        assert reply.json == {"status": "cleaned_up", "session_id": session}
    assert server.try_execute(session, "true").status == 404


def test_cleanup_without_a_session_is_400(server):
    assert_error(server.post("/cleanup", {}), 400, "session_id required")


def test_unknown_paths_are_404_and_wrong_methods_405(server):
    assert_error(server.get("/nothing"), 404, "Not Found")
    assert_error(server.get("/execute"), 405, "Method Not Allowed")
    assert_error(server.post("/health"), 405, "Method Not Allowed")


def test_processes_are_listed_and_shown(server, session):
    server.execute(session, "exit 3")
    server.execute(session, "echo -n four >&2; exit 4")
    rows = server.processes(session)
    assert [row["exit_code"] for row in rows] == [3, 4]
    one = server.process_of(session, rows[1]["process_id"])
    assert one["state"] == "exited"
    assert (one["stdout_bytes"], one["stderr_bytes"]) == (0, 4)
    assert one["cause"] == "exited"


@pytest.mark.parametrize("tail,status", [("processes/999", 404), ("processes/x", 400),
                                         ("processes/1/output?stream=both", 400),
                                         ("processes/1/output?offset=-1", 400),
                                         ("processes/1/output?limit=many", 400),
                                         ("processes/99999999999999999999", 400),
                                         ("processes/4294967297", 404)])
def test_bad_questions_about_processes_are_refused(server, session, tail, status):
    server.execute(session, "true")
    assert_error(server.get(f"/api/sessions/{session}/{tail}"), status, "")


def test_processes_of_an_unknown_session_are_404(server):
    assert_error(server.get("/api/sessions/none/processes"), 404, "Invalid or expired session")


def test_output_pages_say_where_they_are(server, session):
    number = server.execute(session, "printf 0123456789")["process_id"]
    reply = server.get(f"/api/sessions/{session}/processes/{number}/output"
                       "?stream=stdout&offset=3&limit=4")
    assert reply.body == b"3456"
    assert reply.headers["X-Output-Offset"] == "3"
    assert reply.headers["X-Output-Total"] == "10"
    assert reply.headers["X-Process-State"] == "exited"
    assert server.output(session, number, offset=10) == b""
    assert server.output(session, number, offset=2**63) == b""


def test_many_requests_share_one_connection(server, session):
    connection = server.connect()
    for number in range(20):
        body = json.dumps({"session_id": session, "command": f"echo {number}"})
        connection.request("POST", "/execute", body)
        answer = connection.getresponse()
        assert json.loads(answer.read())["stdout"] == f"{number}\n"
    connection.close()


def test_a_client_that_leaves_does_not_disturb_others(server, session):
    body = json.dumps({"session_id": session, "command": "sleep 0.3; echo done > left"}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(body), body))
    # The command was sent before we left: its end is told by the list of processes.
    assert server.stdout(session, "until [ -s left ]; do sleep 0.02; done; cat left") == "done\n"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_page_of_another_site_cannot_post_here(server, kind):
    reply = server.post("/create_session", "{}", headers={"Origin": "http://evil.example",
                                                          "Content-Type": kind})
    assert_error(reply, 415, "")
