# SPDX-License-Identifier: Apache-2.0
"""Every route, with no key, wrong ones, another tenant's, a read-only and a right one.

A route that is not in ROUTES fails `test_every_route_is_here`.
"""
import json
import pathlib
import uuid

import pytest

import server as lib
from keys import make_key
from webhook_rows import ROWS as WEBHOOK_ROWS
from webhook_rows import make as make_hook

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
OPEN, READ, WRITE, SERVER, ADMIN = "open", "read", "write", "server", "admin"


def form(session):
    part = "--b\r\nContent-Disposition: form-data; name="
    return (f'{part}"session_id"\r\n\r\n{session}\r\n'
            f'{part}"file"; filename="up"\r\n\r\nx\r\n--b--\r\n')


class Request:
    """One way to ask: `{session}` and the like in it become names of things that there are."""

    def __init__(self, access, right, path, body=None, other=404, headers=None, fresh=None):
        self.access, self.right, self.path, self.body = access, right, path, body
        self.other, self.headers, self.fresh = other, headers or {}, fresh


S = "/api/sessions/{session}"
V = "?user_id=u"
# Who may, the status for the right one, what is asked. `other`: the status for another tenant.
# `fresh`: what is made anew for this row, because it will be gone.
ROUTES = {
    "POST /create_session": Request(WRITE, 409, "/create_session",
                                    {"user_id": "u", "thread_id": "t"}, other=200),
    "GET /get_session": Request(READ, 200, "/get_session?thread_id=mine"),
    "GET /status/{session_id}": Request(READ, 200, "/status/{session}"),
    "POST /cleanup": Request(WRITE, 200, "/cleanup", {"session_id": "{session}"}, other=200,
                             fresh="session"),
    "POST /execute": Request(WRITE, 200, "/execute",
                             {"session_id": "{session}", "command": "true"}),
    "POST /api/sessions/{session_id}/processes": Request(
        WRITE, 201, S + "/processes", {"command": "true"}),
    "GET /api/sessions/{session_id}/processes": Request(READ, 200, S + "/processes"),
    "GET /api/sessions/{session_id}/processes/{process_id}": Request(
        READ, 200, S + "/processes/{process}"),
    "DELETE /api/sessions/{session_id}/processes/{process_id}": Request(
        WRITE, 200, S + "/processes/{process}", fresh="process"),
    "GET /api/sessions/{session_id}/processes/{process_id}/output": Request(
        READ, 200, S + "/processes/{process}/output?limit=10"),
    "POST /api/sessions/{session_id}/processes/{process_id}/stdin": Request(
        WRITE, 200, S + "/processes/{process}/stdin", {"data": "x\n"}),
    "POST /api/sessions/{session_id}/processes/{process_id}/stdin/close": Request(
        WRITE, 200, S + "/processes/{process}/stdin/close", fresh="process"),
    "POST /api/sessions/{session_id}/processes/{process_id}/resize": Request(
        WRITE, 400, S + "/processes/{process}/resize", {"rows": 50, "cols": 132}),
    "POST /api/sessions/{session_id}/processes/{process_id}/signal": Request(
        WRITE, 200, S + "/processes/{process}/signal", {"signal": "CONT"}),
    "GET /api/sessions/{session_id}/processes/{process_id}/attach": Request(
        WRITE, 101, S + "/processes/{process}/attach", headers=SOCKET),
    "GET /api/sessions/{session_id}/attach": Request(
        WRITE, 101, S + "/attach?start=true", headers=SOCKET),
    "POST /api/sessions/{session_id}/shells": Request(WRITE, 201, S + "/shells", {}),
    "GET /api/sessions/{session_id}/shells": Request(READ, 200, S + "/shells"),
    "GET /api/sessions/{session_id}/shells/{shell_id}": Request(READ, 200, S + "/shells/{shell}"),
    "DELETE /api/sessions/{session_id}/shells/{shell_id}": Request(
        WRITE, 200, S + "/shells/{shell}", fresh="shell"),
    "POST /api/sessions/{session_id}/shells/{shell_id}/run": Request(
        WRITE, 200, S + "/shells/{shell}/run", {"command": "true"}),
    "POST /api/sessions/{session_id}/shells/{shell_id}/interrupt": Request(
        WRITE, 409, S + "/shells/{shell}/interrupt"),
    "POST /upload_file": Request(
        WRITE, 200, "/upload_file", form,
        headers={"Content-Type": "multipart/form-data; boundary=b"}),
    "GET /download_file": Request(READ, 200, "/download_file?session_id={session}&filename=f"),
    "POST /download_file": Request(READ, 200, "/download_file",
                                   {"session_id": "{session}", "filename": "f"}),
    "GET /list_files": Request(READ, 200, "/list_files?session_id={session}"),
    **{f"GET {path}": Request(OPEN, 200, path)
       for path in ("/health", "/healthz", "/readyz", "/openapi.json", "/docs", "/redoc")},
    "GET /cluster/redis": Request(OPEN, 404, "/cluster/redis"),
    "POST /cluster/arrivals": Request(OPEN, 404, "/cluster/arrivals", {}),
    "POST /cluster/arrivals/{session_id}": Request(OPEN, 404, "/cluster/arrivals/x", {}),
    "GET /cluster/leaving/{session_id}": Request(OPEN, 404, "/cluster/leaving/x"),
    **{f"{method} /admin/drain": Request(OPEN, 404, "/admin/drain")
       for method in ("POST", "GET", "DELETE")},
    "GET /metrics": Request(SERVER, 200, "/metrics"),
    "GET /api/sessions/{session_id}/files": Request(READ, 200, S + "/files?path=f"),
    "DELETE /api/sessions/{session_id}/files": Request(WRITE, 200, S + "/files?path=gone",
                                                       fresh="file"),
    "GET /api/sessions/{session_id}/files/list": Request(READ, 200, S + "/files/list"),
    "GET /api/sessions/{session_id}/files/content": Request(READ, 200, S + "/files/content?path=f"),
    "PUT /api/sessions/{session_id}/files/content": Request(
        WRITE, 201, S + "/files/content?path={unique}", "new"),
    "POST /api/sessions/{session_id}/files/edit": Request(
        WRITE, 200, S + "/files/edit", {"path": "gone", "old": "hello", "new": "bye"},
        fresh="file"),
    "GET /api/sessions/{session_id}/files/glob": Request(READ, 200, S + "/files/glob?pattern=*"),
    "POST /api/sessions/{session_id}/files/search": Request(
        READ, 200, S + "/files/search", {"pattern": "hello"}),
    "POST /api/sessions/{session_id}/files/mkdir": Request(
        WRITE, 201, S + "/files/mkdir", {"path": "{unique}"}),
    "POST /api/sessions/{session_id}/files/move": Request(
        WRITE, 200, S + "/files/move", {"from": "gone", "to": "{unique}"}, fresh="file"),
    "GET /api/sessions/{session_id}/files/archive": Request(READ, 200, S + "/files/archive"),
    "PUT /api/sessions/{session_id}/files/archive": Request(
        WRITE, 200, S + "/files/archive", "\0" * 1024),
    "POST /api/sessions": Request(WRITE, 200, "/api/sessions",
                                  {"environment": "Python3", "thread_id": "api"}, other=200),
    "GET /api/sessions": Request(READ, 200, "/api/sessions", other=200),
    "GET /api/sessions/{session_id}": Request(READ, 200, S),
    "DELETE /api/sessions/{session_id}": Request(WRITE, 200, S, fresh="session"),
    "POST /api/sessions/{session_id}/tokens": Request(WRITE, 201, S + "/tokens", {}),
    "GET /api/sessions/{session_id}/tools": Request(READ, 200, S + "/tools"),
    "POST /api/sessions/{session_id}/tools/{tool}": Request(
        WRITE, 200, S + "/tools/python_exec", {"parameters": {"file": "f"}}),
    "POST /api/e2b/files": Request(
        WRITE, 200, "/api/e2b/files",
        {"session_id": "{session}", "file_path": "e", "content": "aGVsbG8="}),
    "GET /api/e2b/files/{session_id}": Request(READ, 200, "/api/e2b/files/{session}"),
    "GET /api/e2b/files/{session_id}/{path}": Request(READ, 200, "/api/e2b/files/{session}/f"),
    "GET /api/e2b/url/{session_id}": Request(READ, 200, "/api/e2b/url/{session}"),
    "POST /api/sandbox/start": Request(WRITE, 410, "/api/sandbox/start", other=410),
    "POST /api/sandbox/stop": Request(WRITE, 410, "/api/sandbox/stop", other=410),
    "GET /api/sandbox/status/{container_id}": Request(WRITE, 410, "/api/sandbox/status/x",
                                                      other=410),
    "GET /": Request(OPEN, 200, "/"),
    "GET /api/registry": Request(READ, 200, "/api/registry", other=200),
    "GET /api/registry/{kind}": Request(READ, 200, "/api/registry/agents", other=200),
    "GET /api/registry/{kind}/{name}": Request(
        READ, 200, "/api/registry/environments/Python3", other=200),
    "POST /api/volumes": Request(WRITE, 201, "/api/volumes",
                                 {"name": "{unique}", "user_id": "u", "size_mb": 1}, other=201),
    "GET /api/volumes": Request(READ, 200, "/api/volumes", other=200),
    "GET /api/volumes/{name}": Request(READ, 200, "/api/volumes/vol" + V),
    "DELETE /api/volumes/{name}": Request(WRITE, 200, "/api/volumes/{volume}" + V, fresh="volume"),
    "GET /api/volumes/{name}/files": Request(READ, 200, "/api/volumes/vol/files" + V),
    "DELETE /api/volumes/{name}/files": Request(
        WRITE, 200, "/api/volumes/vol/files" + V + "&path=gone", fresh="volume_file"),
    "GET /api/volumes/{name}/content": Request(
        READ, 200, "/api/volumes/vol/content" + V + "&path=f"),
    "PUT /api/volumes/{name}/content": Request(
        WRITE, 201, "/api/volumes/vol/content" + V + "&path={unique}", "x"),
    "GET /api/volumes/{name}/archive": Request(READ, 200, "/api/volumes/vol/archive" + V),
    "PUT /api/volumes/{name}/archive": Request(WRITE, 200, "/api/volumes/vol/archive" + V,
                                               "\0" * 1024),
    "POST /api/sessions/{session_id}/artifacts": Request(WRITE, 201, S + "/artifacts",
                                                         {"path": "f"}),
    "GET /api/sessions/{session_id}/artifacts": Request(READ, 200, S + "/artifacts"),
    "GET /api/sessions/{session_id}/log": Request(READ, 200, S + "/log"),
    "GET /api/artifacts": Request(READ, 200, "/api/artifacts", other=200),
    "GET /api/artifacts/{artifact_id}": Request(READ, 200, "/api/artifacts/{artifact}"),
    "DELETE /api/artifacts/{artifact_id}": Request(WRITE, 200, "/api/artifacts/{artifact}",
                                                   fresh="artifact"),
    "GET /api/artifacts/{artifact_id}/content": Request(
        READ, 200, "/api/artifacts/{artifact}/content"),
    "POST /api/sessions/{session_id}/code": Request(
        WRITE, 200, S + "/code", {"code": "1", "language": "bash"}),
    "POST /api/e2b/execute": Request(
        WRITE, 200, "/api/e2b/execute",
        {"session_id": "{session}", "code": "true", "language": "bash"}),
    "POST /api/sessions/{session_id}/contexts": Request(
        WRITE, 201, S + "/contexts", {"language": "bash"}),
    "GET /api/sessions/{session_id}/contexts": Request(READ, 200, S + "/contexts"),
    "GET /api/sessions/{session_id}/contexts/{context_id}": Request(
        READ, 200, S + "/contexts/{context}"),
    "DELETE /api/sessions/{session_id}/contexts/{context_id}": Request(
        WRITE, 200, S + "/contexts/{context}", fresh="context"),
    "POST /api/sessions/{session_id}/contexts/{context_id}/restart": Request(
        WRITE, 200, S + "/contexts/{context}/restart"),
    "POST /api/sessions/{session_id}/contexts/{context_id}/interrupt": Request(
        WRITE, 409, S + "/contexts/{context}/interrupt"),
    **{route: Request(*row) for route, row in WEBHOOK_ROWS.items()},
}


def test_every_route_is_here():
    described = json.loads((ROOT / "web" / "openapi.json").read_text())
    routes = {f"{method.upper()} {path}" for path, methods in described["paths"].items()
              for method in methods if method in ("get", "post", "put", "delete", "patch")}
    assert routes == set(ROUTES)


class World:
    """A server with two tenants; the first one has a thing of every kind."""

    def __init__(self, server):
        self.server = server
        self.right = make_key(server, tenant="mine", role="user", name="right")
        self.reader = make_key(server, tenant="mine", role="readonly")
        self.other = make_key(server, tenant="theirs", role="admin")
        self.operator = make_key(server, role="admin")
        self.watcher = make_key(server, role="readonly", scope="metrics")
        lib.wait_until(lambda: server.get("/api/sessions").status == 401, "keys count")
        lib.wait_until(lambda: self.ask(self.watcher, "GET", "/metrics").status == 200, "all do")
        self.names = {}
        for kind in ("session", "process", "shell", "context", "file", "artifact", "volume",
                     "webhook", "delivery"):
            self.make(kind)
        self.post("/create_session", {"user_id": "u", "thread_id": "t"})
        self.post("/api/volumes", {"name": "vol", "user_id": "u", "size_mb": 16})
        self.put("/api/volumes/vol/content?user_id=u&path=f", "hello")

    def ask(self, key, method, path, body=None, headers=None):
        shown = {"Authorization": f"Bearer {key}"} if key else {}
        return self.server.request(method, path, body, {**shown, **(headers or {})})

    def post(self, path, body):
        reply = self.ask(self.right, "POST", path.format(**self.names), body)
        assert reply.status < 300, (path, reply)
        return reply.json

    def put(self, path, body):
        reply = self.ask(self.right, "PUT", path.format(**self.names), body)
        assert reply.status < 300, (path, reply)

    def make(self, kind):
        if kind == "session":
            first = "session" not in self.names
            fields = {"environment": "Python3", "agent": "code_executor", "user_id": "u"}
            fields["thread_id"] = "mine" if first else uuid.uuid4().hex
            self.names["session"] = self.post("/api/sessions", fields)["session_id"]
            if first:
                self.put(S + "/files/content?path=f", "hello")
        elif kind == "process":
            self.names["process"] = self.post(
                S + "/processes", {"command": "exec cat", "stdin_open": True})["process_id"]
        elif kind == "shell":
            self.names["shell"] = self.post(S + "/shells", {})["shell_id"]
        elif kind == "context":
            self.names["context"] = self.post(
                S + "/contexts", {"language": "bash"})["context_id"]
        elif kind == "file":
            self.put(S + "/files/content?path=gone", "hello")
        elif kind == "artifact":
            self.names["artifact"] = self.post(S + "/artifacts", {"path": "f"})["artifact_id"]
        elif kind == "volume":
            self.names["volume"] = "v" + uuid.uuid4().hex
            self.post("/api/volumes", {"name": self.names["volume"], "user_id": "u", "size_mb": 1})
        elif kind in ("webhook", "delivery"):
            make_hook(self, kind)
        elif kind == "volume_file":
            self.put("/api/volumes/vol/content?user_id=u&path=gone", "hello")

    def fill(self, value, names):
        if callable(value):
            return value(names["session"])
        if isinstance(value, dict):
            return {key: self.fill(one, names) for key, one in value.items()}
        if isinstance(value, str) and "{" in value:
            return value.format(**names)
        return value

    def send(self, key, route, row, names=None, headers=None):
        names = {**(names or self.names), "unique": "n" + uuid.uuid4().hex}
        return self.ask(key, route.split()[0], self.fill(row.path, names),
                        self.fill(row.body, names), {**row.headers, **(headers or {})})


@pytest.fixture(scope="module")
def world(binary):
    server = lib.Server(WEBHOOK_ALLOW_PRIVATE="true")
    try:
        yield World(server.start())
        server.close()
    finally:
        server.remove()


def wrong_credentials(right):
    """What opens nothing, though some of it looks like the key that does."""
    flipped = right[:-1] + ("A" if right[-1] != "A" else "B")
    unknown = "tb_000000000000_" + right[16:]
    for key in (flipped, unknown, right[:-1], right + "A", right.upper(), " ", "x" * 20000):
        yield {"Authorization": f"Bearer {key}"}
    yield {"X-API-Key": flipped}
    yield {"Authorization": "Bearer"}
    yield {"Authorization": f"Basic {right}"}
    yield {"Authorization": right}
    yield {"Authorization": f"Bearer {right}", "X-API-Key": right}


def refused(reply, status=401):
    assert reply.status == status, reply
    assert reply.json["error"] == reply.json["detail"]
    if status == 401:
        assert reply.headers["WWW-Authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_is_for_whom_it_is_for(world, route):
    row = ROUTES[route]
    kept = dict(world.names)
    if row.fresh:
        world.make(row.fresh)
    nobody = world.send(None, route, row)
    if row.access == OPEN:
        assert nobody.status == row.right
    else:
        refused(nobody)
        refused(world.send(None, route, row, headers={"Authorization": "Bearer " + "x" * 59}))
    check_other_tenant(world, route, row)
    reader = world.send(world.reader, route, row)
    if row.access in (OPEN, READ):
        assert reader.status == row.right, reader
    else:
        refused(reader, 403)
    key = world.operator if row.access in (SERVER, ADMIN, "tenant") else world.right
    right = world.send(key, route, row)
    assert right.status == row.right, right
    world.names = kept


def check_other_tenant(world, route, row):
    other = world.send(world.other, route, row)
    if row.access in (SERVER, ADMIN):
        return refused(other, 403)
    if row.access == OPEN:
        assert other.status == row.right
        return None
    assert other.status == row.other, other
    if row.other != 404:
        assert not any(str(name).encode() in other.body for kind, name in world.names.items()
                       if isinstance(name, str) and f"{{{kind}}}" not in str(row.body))
        return None
    nowhere = {name: str(uuid.uuid4()) if isinstance(value, str) else value
               for name, value in world.names.items()}
    unknown = world.send(world.other, route, row, names=nowhere)
    told, expected = other.body.decode(), unknown.body.decode()
    for name, value in world.names.items():
        told = told.replace(str(value), name) if isinstance(value, str) else told
        expected = expected.replace(nowhere[name], name) if isinstance(value, str) else expected
    assert (unknown.status, expected) == (other.status, told)
    assert unknown.reason.split(":")[0] == other.reason.split(":")[0]


@pytest.mark.parametrize("path", ["/api/sessions", "/execute", "/metrics"])
def test_A01_what_is_no_key_opens_nothing(world, path):
    method = "POST" if path == "/execute" else "GET"
    for headers in wrong_credentials(world.right):
        refused(world.ask(None, method, path, headers=headers))
    refused(world.ask(None, method, f"{path}?api_key={world.right}&access_token={world.right}"))
    refused(world.ask(None, method, path, headers={"Cookie": f"Authorization={world.right}"}))
    refused(world.ask(None, method, path + "/"))


@pytest.mark.parametrize("path", ["//execute", "/./execute", "/x/../execute", "/%65xecute",
                                  "/execute/", "/EXECUTE", "/execute%00", "/execute;x"])
def test_no_spelling_of_a_path_goes_around_the_guard(world, path):
    body = {"session_id": world.names["session"], "command": "true"}
    assert world.ask(None, "POST", path, body).status in (400, 401, 404)


def test_A04_each_tenant_has_threads_of_its_own(world):
    body = {"user_id": "u", "thread_id": "conv1"}
    mine = world.ask(world.right, "POST", "/create_session", body).json["session_id"]
    theirs = world.ask(world.other, "POST", "/create_session", body).json["session_id"]
    assert mine != theirs
    for key, session in ((world.right, mine), (world.other, theirs)):
        again = world.ask(key, "POST", "/create_session", body)
        assert (again.status, again.json["session_id"]) == (409, session)
        found = world.ask(key, "GET", "/get_session?thread_id=conv1")
        assert found.json["session_id"] == session
    listed = world.ask(world.other, "GET", "/api/sessions?thread_id=conv1").json
    assert [row["session_id"] for row in listed["sessions"]] == [theirs]
    assert listed["total"] == 1


def test_ending_another_tenants_session_ends_nothing(world):
    session = world.names["session"]
    assert world.ask(world.other, "POST", "/cleanup", {"session_id": session}).status == 200
    assert world.ask(world.right, "GET", f"/status/{session}").status == 200


def test_a_scope_narrows_a_key(world):
    assert world.ask(world.watcher, "GET", "/metrics").status == 200
    for path in ("/api/sessions", "/api/volumes", "/api/registry"):
        refused(world.ask(world.watcher, "GET", path), 403)


def test_A15_keys_are_neither_logged_nor_kept(world):
    keys = [world.right, world.reader, world.other, world.operator, world.watcher]
    secrets = [key[16:].encode() for key in keys]
    state = pathlib.Path(world.server.state_dir)
    files = [world.server.log_path, *(path for path in state.rglob("*") if path.is_file())]
    assert any(path.name == "keys.db" for path in files)
    for path in files:
        if path.stat().st_size < 1 << 24:
            text = path.read_bytes()
            assert not any(secret in text for secret in secrets), path
    metrics = world.ask(world.watcher, "GET", "/metrics").body
    assert b"theirs" not in metrics and b"mine" not in metrics
