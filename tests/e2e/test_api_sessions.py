# SPDX-License-Identifier: Apache-2.0
"""The /api system: sessions made of environments, their files, and clients that know only it."""
import base64
import json
import socket
import subprocess
import uuid

import pytest
from test_openapi import assert_described, spec  # noqa: F401

# As a guide for clients of the /api system has them; the ids are those that were returned.
GUIDE = r"""
curl -sS -X POST http://localhost:8000/api/sessions \
  -d '{"environment": "Python3", "provider": "e2b"}'
curl -sS -X DELETE http://localhost:8000/api/sessions/abc-123?sandbox_id=xyz
"""


@pytest.fixture
def make(server):
    """Makes sessions on the shared server, and ends them."""
    made = []

    def one(**fields):
        reply = server.post("/api/sessions", fields)
        assert reply.status == 200, reply
        made.append(reply.json["session_id"])
        return reply.json

    yield one
    for session in made:
        server.cleanup(session)


def free_port(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_the_lines_of_the_guide_work_as_written(start_server):
    if not free_port(8000):
        pytest.skip("somebody has port 8000")
    start_server(PORT=8000)
    create, delete = GUIDE.strip().split("\ncurl -sS -X DELETE")

    def run(script):
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    made = run(create)
    assert set(made) >= {"session_id", "sandbox_id", "provider", "status", "url"}
    assert (made["status"], made["provider"], made["requested_provider"]) == (
        "running", "native", "e2b")
    delete = ("curl -sS -X DELETE" + delete).replace("abc-123", made["session_id"])
    gone = run(delete.replace("xyz", made["sandbox_id"]))
    assert gone == {"status": "deleted", "session_id": made["session_id"]}


def test_the_root_greets(server, spec):  # noqa: F811
    reply = assert_described(spec, "getRoot", server.get("/"), 200)
    assert reply.json == {"message": "Sandbox System API"}


@pytest.mark.parametrize("path", ["/api/sessions", "/api/sessions/"])
@pytest.mark.parametrize("body", [None, "{}", '{"agent": "code_executor"}',
                                  '{"agent_config": {"type": "code_executor", "x": 1}}',
                                  '{"environment": "Node", "provider": "docker"}'])
def test_a_session_is_made_with_or_without_slash_and_fields(server, spec, path, body):  # noqa: F811
    reply = server.post(path, body)
    made = assert_described(spec, "makeSession", reply, 200).json
    assert made["provider"] == "native" and made["url"] is None
    session = made["session_id"]
    assert server.stdout(session, "id -un") == "sandboxuser\n"
    found = assert_described(spec, "getApiSession", server.get(f"/api/sessions/{session}/"), 200)
    assert (found.json["state"], found.json["status"]) == ({}, "active")
    assert found.json["agent"] == ("code_executor" if body and "code_exec" in body else None)
    reply = server.request("DELETE", f"{path.rstrip('/')}/{session}")
    assert_described(spec, "deleteSession", reply, 200)
    assert server.get(f"/api/sessions/{session}").status == 404


def test_what_there_is_not_is_named_with_what_there_is(server, spec):  # noqa: F811
    for body, known in [({"provider": "vm"}, "this server has native"),
                        ({"environment": "Cobol"}, "Bash, Node, Python3"),
                        ({"agent": "nobody"}, "code_executor, ml_data_scientist"),
                        ({"agent_config": {"type": "nobody"}}, "code_executor"),
                        ({"policy": "lax"}, "open, strict, wide")]:
        reply = assert_described(spec, "makeSession", server.post("/api/sessions", body), 400)
        assert known in reply.json["error"], reply
    for body in ({"agent": 1}, {"agent_config": []}, {"environment": {}}, {"provider": "a\nb"}):
        assert_described(spec, "makeSession", server.post("/api/sessions", body), 400)


def test_nobody_stands_in_where_that_is_not_wanted(start_server, spec):  # noqa: F811
    alone = start_server(PROVIDER_ALIASES="none")
    reply = alone.post("/api/sessions", {"provider": "e2b"})
    assert_described(spec, "makeSession", reply, 503)
    assert "The provider e2b is not set up" in reply.json["error"]
    assert alone.post("/api/sessions", {"environment": "Python3"}).status == 200


def test_unknown_sessions_are_404_with_their_name(server, spec):  # noqa: F811
    for operation, reply in [("getApiSession", server.get("/api/sessions/abc")),
                             ("deleteSession", server.request("DELETE", "/api/sessions/abc")),
                             ("getUrl", server.get("/api/e2b/url/abc")),
                             ("listDirectory", server.get("/api/e2b/files/abc"))]:
        assert_described(spec, operation, reply, 404)
        assert reply.json["detail"] == "Session not found: abc"


def test_only_the_right_sandbox_is_deleted(server, spec, make):  # noqa: F811
    session = make()["session_id"]
    reply = server.request("DELETE", f"/api/sessions/{session}?sandbox_id=other")
    assert_described(spec, "deleteSession", reply, 400)
    assert server.get(f"/api/sessions/{session}").status == 200


def test_a_thread_has_one_session_here_too(server, make):
    thread = f"api-{uuid.uuid4()}"
    first, again = make(thread_id=thread), make(thread_id=thread, environment="Bash")
    assert (first["existing"], again["existing"]) == (False, True)
    assert first["session_id"] == again["session_id"]
    assert server.create(thread) == first["session_id"]


def test_sessions_are_listed_filtered_and_paged(server, spec, make):  # noqa: F811
    user = f"user-{uuid.uuid4()}"
    made = [make(user_id=user, environment=name)["session_id"]
            for name in ("Python3", "Bash", "Bash")]

    def page(**query):
        text = "&".join(f"{key}={value}" for key, value in {"user_id": user, **query}.items())
        return assert_described(spec, "listSessions", server.get(f"/api/sessions?{text}"), 200).json

    whole = page()
    assert [row["session_id"] for row in whole["sessions"]] == made
    assert (whole["total"], whole["limit"], whole["offset"]) == (3, 100, 0)
    assert page(environment="Bash")["total"] == 2
    assert page(provider="native", state="running")["total"] == 3
    assert page(provider="docker")["total"] == page(thread_id="x")["total"] == 0
    assert page(state="asleep")["total"] == 0
    second = page(limit=1, offset=1)
    assert [row["session_id"] for row in second["sessions"]] == made[1:2]
    assert second["total"] == 3
    for query in ("state=odd", "limit=x", "limit=1001", "offset=-1"):
        assert_described(spec, "listSessions", server.get(f"/api/sessions?{query}"), 400)


def test_an_agent_brings_its_environment_and_that_its_variables(server, make):
    made = make(agent="code_executor")
    assert (made["agent"], made["environment"]) == ("code_executor", "python-basic")
    assert server.stdout(made["session_id"], "echo $PYTHONPATH") == "/workspace\n"
    given = server.execute(made["session_id"], "echo $PYTHONPATH", env={"PYTHONPATH": "/x"})
    assert given["stdout"] == "/x\n"
    made = make(agent="ml_data_scientist", environment="Bash")
    assert made["environment"] == "Bash"


def test_deprecated_places_say_where_to_go(server, spec):  # noqa: F811
    for operation, reply, instead in [
            ("startSandbox", server.post("/api/sandbox/start?session_id=a&environment=b"),
             "POST /api/sessions"),
            ("stopSandbox", server.post("/api/sandbox/stop?container_id=a"),
             "DELETE /api/sessions/{session_id}"),
            ("sandboxStatus", server.get("/api/sandbox/status/a"),
             "GET /api/sessions/{session_id}")]:
        assert_described(spec, operation, reply, 410)
        assert reply.json["detail"] == f"This endpoint is deprecated. Use {instead} instead."


# ---- files ----

def put(server, session, path, data):
    body = {"session_id": session, "file_path": path, "content": base64.b64encode(data).decode()}
    return server.post("/api/e2b/files", body)


def test_files_come_back_as_they_went(server, spec, session):  # noqa: F811
    data = bytes(range(256)) * 5
    for path in ("a.bin", "deep/er/b.bin", "/workspace/c.bin"):
        reply = assert_described(spec, "e2bWriteFile", put(server, session, path, data), 200)
        assert reply.json == {"status": "success", "file_path": path, "size_bytes": len(data)}
    for path in ("a.bin", "deep/er/b.bin", "/workspace/c.bin", "c.bin"):
        reply = server.get(f"/api/e2b/files/{session}/{path}")
        read = assert_described(spec, "e2bReadFile", reply, 200).json
        assert base64.b64decode(read["content"]) == data
        assert read["file_path"] == path and read["encoding"] == "base64"
    for query in ("", "?directory=/", "?directory=/workspace", "?directory=.", "?directory="):
        reply = server.get(f"/api/e2b/files/{session}{query}")
        listed = assert_described(spec, "listDirectory", reply, 200).json
        assert listed["files"] == ["a.bin", "c.bin", "deep"], query
        assert [row["type"] for row in listed["entries"]] == ["file", "file", "directory"]
    reply = server.get(f"/api/e2b/files/{session}?directory=deep/er/")
    assert reply.json["files"] == ["b.bin"]


def test_files_outside_or_wrong_are_refused(server, spec, session):  # noqa: F811
    for path in ("/etc/passwd", "/workspacex/a", "../a", "/workspace/../etc/passwd", "", "/"):
        assert_described(spec, "e2bWriteFile", put(server, session, path, b"x"), 400)
    for path, status in (("/etc/passwd", 400), ("%2e%2e/%2e%2e/etc/passwd", 400), ("none", 404)):
        reply = server.get(f"/api/e2b/files/{session}/{path}")
        assert_described(spec, "e2bReadFile", reply, status)
    for directory, status in (("/etc", 400), ("../..", 400), ("none", 404)):
        reply = server.get(f"/api/e2b/files/{session}?directory={directory}")
        assert_described(spec, "listDirectory", reply, status)
    whole = {"session_id": session, "file_path": "a", "content": "eA=="}
    for fields in ({"content": "%%%"}, {"content": "e"}, {"content": None}, {"file_path": None},
                   {"session_id": None}, {"content": 5}):
        reply = server.post("/api/e2b/files", {**whole, **fields})
        assert_described(spec, "e2bWriteFile", reply, 400)
    assert_described(spec, "e2bWriteFile", put(server, "nobody", "a", b""), 404)


def test_a_link_leads_nobody_out(server, session):
    server.execute(session, "ln -s /etc/passwd link; ln -s /etc dir")
    assert server.get(f"/api/e2b/files/{session}/link").status == 400
    assert server.get(f"/api/e2b/files/{session}/dir/passwd").status == 400
    assert put(server, session, "dir/x", b"x").status in (400, 403)


def test_limits_of_files_hold_here_too(start_server, spec):  # noqa: F811
    small = start_server(MAX_FILE_SIZE_MB=1, MAX_TOTAL_FILES=1)
    session = small.post("/api/sessions").json["session_id"]
    assert_described(spec, "e2bWriteFile", put(small, session, "big", b"x" * (2 << 20)), 413)
    assert_described(spec, "e2bWriteFile", put(small, session, "one", b"x"), 200)
    assert_described(spec, "e2bWriteFile", put(small, session, "two", b"x"), 507)
    small.execute(session, "truncate -s 20M huge")
    assert_described(spec, "e2bReadFile", small.get(f"/api/e2b/files/{session}/huge"), 413)


def test_the_url_is_null_without_a_network(server, spec, session):  # noqa: F811
    reply = assert_described(spec, "getUrl", server.get(f"/api/e2b/url/{session}"), 200)
    assert reply.json == {"session_id": session, "url": None}
