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
from route_rows import ADMIN, OPEN, READ, ROUTES, SERVER, S
from webhook_rows import make as make_hook

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


def make_world():
    server = lib.Server(WEBHOOK_ALLOW_PRIVATE="true")
    try:
        yield World(server.start())
        server.close()
    finally:
        server.remove()


@pytest.fixture(scope="module")
def world(binary):
    yield from make_world()


@pytest.fixture(scope="module")
def other_world(binary):
    """Where nobody has shown so many wrong keys that no more are looked at."""
    yield from make_world()


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
def test_A01_what_is_no_key_opens_nothing(other_world, path):
    world = other_world
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
