# SPDX-License-Identifier: Apache-2.0
"""The audit log: who did what to which session, from where, and what came of it."""
import json
import os
import time
import urllib.parse

import pytest

from live import attach_new, start
from server import wait_until
from test_openapi import assert_described


@pytest.fixture
def audited(start_server):
    return start_server(AUDIT_REDACT=r"(?i)password=\S+ sk-[a-z0-9]{8,}")


def entries(server, **query):
    reply = server.get(f"/admin/audit?{urllib.parse.urlencode(query)}")
    assert reply.status == 200, reply
    return reply.json["entries"]


def one(server, **query):
    rows = entries(server, **query)
    assert len(rows) == 1, rows
    return rows[0]


def path_of(server):
    return os.path.join(server.state_dir, "audit", "audit.jsonl")


def test_each_way_to_run_something_is_written_down(audited):
    session = audited.create("audit thread")
    made = one(audited, action="/create_session")
    assert (made["session"], made["thread"], made["user"]) == (session, "audit thread", "tester")
    assert (made["result"], made["status"], made["address"]) == ("ok", 200, "127.0.0.1")
    audited.execute(session, "echo execute")
    audited.try_execute(session, "echo streamed", stream=True)
    start(audited, session, "echo process")
    with attach_new(audited, session, {"command": "echo attached"}) as socket_:
        socket_.drain()
    shell = audited.post(f"/api/sessions/{session}/shells", {}).json["shell_id"]
    audited.post(f"/api/sessions/{session}/shells/{shell}/run", {"command": "echo shell"})
    commands = {row.get("command") for row in entries(audited, session=session)}
    wait_until(lambda: {"echo execute", "echo streamed", "echo process", "echo attached",
                        "echo shell"} <= {row.get("command")
                                          for row in entries(audited, session=session)},
               lambda: f"all commands are there: {commands}")
    for row in entries(audited, action="/execute"):
        assert (row["session"], row["thread"], row["user"]) == (session, "audit thread", "tester")
        assert row["request_id"] and row["duration_ms"] > 0


def test_what_is_refused_and_what_is_unknown_is_there_too(audited):
    session = audited.post("/create_session", {"policy": "strict"}).json["session_id"]
    assert audited.try_execute(session, "ls; rm -r x").status == 400
    row = one(audited, action="/execute", result="refused")
    assert (row["command"], row["status"], row["session"]) == ("ls; rm -r x", 400, session)
    assert audited.get("/no/such/place?token=1").status == 404
    row = one(audited, action="GET (no route)")
    assert (row["target"], row["result"]) == ("/no/such/place?token=[redacted]", "refused")
    audited.upload(session, "a.txt", b"x")
    assert one(audited, action="/upload_file")["session"] == session
    audited.get("/health")
    assert entries(audited, action="/health") == []


def test_lines_stay_lines_and_secrets_stay_out(audited):
    session = audited.create("t\u2028\u202e")
    nasty = "echo 'a\n{\"number\":1,\"action\":\"forged\"}\x1b[2J' PassWord=hunter2 sk-abcd1234"
    audited.execute(session, nasty)
    headers = {"X-Forwarded-For": "1.2.3.4, \x9b5.6.7.8"}
    audited.post("/execute", {"session_id": session, "command": "true"}, headers=headers)
    rows = entries(audited, action="/execute")
    assert "[redacted] [redacted]" in rows[1]["command"] and "hunter2" not in rows[1]["command"]
    assert rows[0]["forwarded_for"].startswith("1.2.3.4, ")
    raw = open(path_of(audited), "rb").read()
    assert b"hunter2" not in raw and b"sk-abcd" not in raw and b"\x1b" not in raw
    lines = raw.decode().splitlines()
    numbers = [json.loads(line)["number"] for line in lines]
    assert numbers == list(range(1, len(lines) + 1))
    assert not any(json.loads(line)["action"] == "forged" for line in lines)
    assert os.stat(path_of(audited)).st_mode & 0o077 == 0


def test_a_key_that_stands_in_a_path_or_a_query_stays_out(audited):
    key = "tb_3f9c0a51be72_" + "x" * 43
    for target in (f"/nowhere?api_key={key}", f"/nowhere?q={key}&page=2", f"/{key}",
                   f"/api/sessions/{key}", f"/nowhere?{key}"):
        assert audited.get(target).status == 404, target
    targets = {row.get("target") for row in entries(audited, action="GET (no route)")}
    assert "/nowhere?q=[redacted]&page=2" in targets and "/[redacted]" in targets
    assert one(audited, action="GET /api/sessions/{}")["session"] == "[redacted]"
    with open(path_of(audited), encoding="utf-8") as log:
        assert "xxx" not in log.read()


def test_a_websocket_is_written_down_when_it_begins(audited):
    """And not only when it ends: whoever ends the server with it would leave no trace."""
    session = audited.create("long")
    with attach_new(audited, session, {"command": "sleep 1000"}):
        row = wait_until(lambda: entries(audited, result="begun"), "it is there")[0]
        assert row["session"] == session and row["action"].endswith("/attach"), row
        audited.kill9()
    audited.start()
    assert [row["session"] for row in entries(audited, result="begun")] == [session]


def test_two_requests_of_one_name_are_two(audited):
    """A client chooses the id of its request: that hides nothing and mixes nothing up."""
    first, second = audited.create("a"), audited.create("b")
    headers = {"X-Request-Id": "the-same"}
    bodies = [{"session_id": session, "command": f"sleep 0.3; echo {session}"}
              for session in (first, second)]
    connections = [audited.connect() for _ in bodies]
    for connection, body in zip(connections, bodies):
        connection.request("POST", "/execute", json.dumps(body), headers)
    for connection in connections:
        assert connection.getresponse().read()
        connection.close()
    rows = entries(audited, action="/execute")
    assert {(row["session"], row["command"]) for row in rows} == {
        (body["session_id"], body["command"]) for body in bodies}
    assert [row["request_id"] for row in rows] == ["the-same"] * 2


def test_it_outlives_the_server_and_turns_pages(audited):
    session = audited.create("t")
    for i in range(12):
        audited.execute(session, f"echo {i}")
    wait_until(lambda: len(entries(audited, action="/execute")) == 12, "all of it is there")
    between = time.time()
    assert audited.terminate() == 0
    audited.start()
    audited.execute(session, "echo last")
    seen, before = [], None
    while True:
        query = {"limit": 5, "action": "/execute", **({"before": before} if before else {})}
        words = "&".join(f"{name}={value}" for name, value in query.items())
        page = audited.get(f"/admin/audit?{words}").json
        seen += [row["command"] for row in page["entries"]]
        before = page["next_before"]
        if before is None:
            break
    assert seen == ["echo last"] + [f"echo {i}" for i in reversed(range(12))]
    since = entries(audited, since=between, action="/execute")
    assert [row["command"] for row in since] == ["echo last"]
    assert len(entries(audited, until=between, action="/execute")) == 12


def test_sessions_that_expire_are_there(audited):
    session = audited.post("/create_session", {"timeout_minutes": 0.02}).json["session_id"]
    row = wait_until(lambda: entries(audited, action="session.expired"), "it is told")[0]
    assert (row["session"], row["result"]) == (session, "ok")


def test_answers_are_as_described(audited):
    spec = audited.get("/openapi.json").json
    audited.execute(audited.create("t"), "true")
    audited.get("/nowhere")
    assert_described(spec, "readAudit", audited.get("/admin/audit"), 200)
    for query in ("limit=0", "limit=1001", "result=x", "since=x", "since=-1", "before=x"):
        assert_described(spec, "readAudit", audited.get(f"/admin/audit?{query}"), 400)
    text = audited.get("/metrics").body.decode()
    assert "threadbox_audit_lost_total 0\n" in text


def test_it_can_be_off_or_elsewhere_and_wrong_settings_are_named(start_server, tmp_path, binary):
    off = start_server(AUDIT_LOG="off")
    spec = off.get("/openapi.json").json
    assert_described(spec, "readAudit", off.get("/admin/audit"), 503)
    assert not os.path.exists(os.path.join(off.state_dir, "audit"))
    place = f"/var/tmp/{os.path.basename(str(tmp_path))}-audit-{os.getpid()}"
    try:
        elsewhere = start_server(AUDIT_LOG=place, AUDIT_MAX_BYTES="64k", AUDIT_KEEP="1")
        session = elsewhere.create("t")
        for _ in range(3):
            elsewhere.execute(session, "true " + "x" * 16000)
        assert len(entries(elsewhere, action="/execute")) == 3
        assert os.path.exists(f"{place}/audit.jsonl")
    finally:
        for name in os.listdir(place):
            os.unlink(os.path.join(place, name))
        os.rmdir(place)
    for name, value in [("AUDIT_LOG", "relative"), ("AUDIT_MAX_BYTES", "1"), ("AUDIT_KEEP", "-1"),
                        ("AUDIT_REDACT", "(x"), ("AUDIT_KEEP", "1001")]:
        off.settings[name] = value
        wrong = off.command("serve")
        assert wrong.returncode != 0 and name in wrong.stderr, (name, wrong)
        del off.settings[name]
