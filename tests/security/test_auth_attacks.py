# SPDX-License-Identifier: Apache-2.0
"""What a second reader got through the guard with: each opens something that it must not."""
import base64
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import threading
import time

import pytest

import server as lib
from keys import make_key
from receiver import KEY, Receiver, verify
from route_rows import SOCKET

SECRET = "0123456789abcdef0123456789abcdef"


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(seconds, **claims):
    """A token of the identity provider, good for `seconds`."""
    whole = {"iss": "https://idp", "aud": "threadbox", "exp": time.time() + seconds, **claims}
    text = b64(b'{"alg":"HS256"}') + "." + b64(json.dumps(whole).encode())
    return text + "." + b64(hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest())


@pytest.fixture
def open_server(binary):
    """One that asks nobody: as it is after one command on a developer's machine."""
    server = lib.Server()
    try:
        yield server.start()
        server.close()
    finally:
        server.remove()


@pytest.fixture(scope="module")
def guarded(binary):
    server = lib.Server(DEFAULT_POLICY="strict", WEBHOOK_ALLOW_PRIVATE="true", WEBHOOK_SECRET=KEY,
                        WEBHOOK_RETRY_SECONDS="1", JWT_SECRET=SECRET, JWT_ISSUER="https://idp",
                        JWT_AUDIENCE="threadbox", JWT_LEEWAY_SECONDS="0")
    try:
        server.start()
        server.mine = make_key(server, tenant="mine")
        server.theirs = make_key(server, tenant="theirs")
        server.operator = make_key(server, role="admin")
        server.clerk = make_key(server)  # a plain user of the default tenant
        lib.wait_until(lambda: ask(server, server.clerk, "GET", "/metrics").status == 200, "keys")
        yield server
        server.close()
    finally:
        server.remove()


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()


def ask(server, key, method, path, body=None, **headers):
    shown = {"Authorization": f"Bearer {key}"} if key else {}
    return server.request(method, path, body, {**shown, **headers})


def make_session(server, key, **fields):
    reply = ask(server, key, "POST", "/api/sessions", fields)
    assert reply.status == 200, reply
    return reply.json["session_id"]


def make_token(server, key, session, **fields):
    reply = ask(server, key, "POST", f"/api/sessions/{session}/tokens", fields)
    assert reply.status == 201, reply
    return reply.json["token"]


def audit_of(server, **wanted):
    """The newest entries that have these values, once there are any."""
    def look():
        rows = ask(server, server.operator, "GET", "/admin/audit?limit=200").json["entries"]
        return [row for row in rows if wanted.items() <= row.items()]
    return lib.wait_until(look, f"the audit log has {wanted}")


# ---- a server that asks nobody ----

def test_a_page_can_not_rebind_its_name_to_loopback(open_server):
    """evil.example resolves to 127.0.0.1: to the browser, page and server are the same origin."""
    host = f"evil.example:{open_server.port}"
    page = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    reply = open_server.post("/create_session", {}, headers=page)
    assert reply.status in (400, 403, 421), reply
    session = open_server.create()
    reply = open_server.post("/execute", {"session_id": session, "command": "id"}, headers=page)
    assert reply.status in (400, 403, 421), reply
    reply = open_server.request("GET", f"/api/sessions/{session}/attach?start=id", None,
                                {**SOCKET, **page})
    assert reply.status in (400, 403, 421), reply


# ---- scopes ----

def test_a_key_without_volumes_reads_none_by_mounting_it(guarded):
    volume = {"name": "papers", "user_id": "u", "size_mb": 2}
    assert ask(guarded, guarded.mine, "POST", "/api/volumes", volume).status == 201
    path = "/api/volumes/papers/content?user_id=u&path=f"
    assert ask(guarded, guarded.mine, "PUT", path, "secret").status == 201
    key = make_key(guarded, tenant="mine", scope="sessions")
    lib.wait_until(lambda: ask(guarded, key, "GET", "/api/sessions").status == 200, "the key")
    assert ask(guarded, key, "GET", path).status == 403
    for route in ("/api/sessions", "/create_session"):
        mounted = {"user_id": "u", "volumes": [{"name": "papers", "path": "/data/papers"}]}
        reply = ask(guarded, key, "POST", route, mounted)
        assert reply.status == 403, reply


# ---- tokens ----

def test_a_token_ends_with_the_jwt_that_it_was_made_with(guarded):
    session = make_session(guarded, guarded.mine)
    visitor = jwt(3, tenant="mine", sub="dismissed tomorrow")
    token = make_token(guarded, visitor, session, expires_in=604800)
    path = f"/status/{session}"
    assert ask(guarded, token, "GET", path).status == 200
    lib.wait_until(lambda: ask(guarded, visitor, "GET", path).status == 401, "the JWT has ended")
    assert ask(guarded, token, "GET", path).status == 401


def test_a_token_ends_with_its_session(guarded):
    """docs/auth.md: it ends with its time, with the session, and with its key."""
    session = make_session(guarded, guarded.mine)
    ask(guarded, guarded.mine, "PUT", f"/api/sessions/{session}/files/content?path=f", "x")
    kept = ask(guarded, guarded.mine, "POST", f"/api/sessions/{session}/artifacts", {"path": "f"})
    artifact = kept.json["artifact_id"]
    token = make_token(guarded, guarded.mine, session)
    assert ask(guarded, guarded.mine, "DELETE", f"/api/sessions/{session}").status == 200
    for method, path in (("GET", f"/api/sessions/{session}/log"),
                         ("GET", f"/api/artifacts/{artifact}/content"),
                         ("DELETE", f"/api/artifacts/{artifact}")):
        reply = ask(guarded, token, method, path)
        assert reply.status in (401, 404), (method, path, reply)


# ---- revoking ----

def test_a_revoked_key_is_revoked_in_a_file_that_was_put_there_anew(binary):
    """As rsync, a restored backup or a Kubernetes secret do it: another file by the same name."""
    server = lib.Server()
    try:
        server.start()
        key = make_key(server)
        lib.wait_until(lambda: server.get("/api/sessions").status == 401, "the key counts")
        place = pathlib.Path(server.state_dir) / "auth"
        shutil.copy2(place / "keys.db", place / "keys.new")
        owner = (place / "keys.db").stat()
        os.chown(place / "keys.new", owner.st_uid, owner.st_gid)
        os.rename(place / "keys.new", place / "keys.db")
        assert server.command("keys", "revoke", key).returncode == 0
        lib.wait_until(lambda: ask(server, key, "GET", "/api/sessions").status == 401,
                       "the revoked key opens nothing", 5)
        server.close()
    finally:
        server.remove()


# ---- tenants ----

def test_refused_commands_are_told_to_no_other_tenant(guarded, receiver):
    """A command for a session that is gone, or another's, is checked for nobody: its text goes to
    the default tenant's webhooks, and not to those of who sent it."""
    own = Receiver()
    try:
        for key, url in ((guarded.clerk, receiver.base), (guarded.mine, own.base)):
            body = {"url": url + "/hook", "events": ["command.refused"]}
            assert ask(guarded, key, "POST", "/api/webhooks", body).status == 201
        command = {"session_id": "00000000-0000-4000-8000-000000000000",
                   "command": "sudo echo password-of-mine"}
        assert ask(guarded, guarded.mine, "POST", "/execute", command).status == 400
        time.sleep(1.5)
        assert not [one for one in receiver.got if b"password-of-mine" in one.body]
        assert [one for one in own.got if b"password-of-mine" in one.body]
    finally:
        own.close()


def test_a_callback_is_not_signed_like_another_tenants(guarded, receiver):
    """Who verifies with the server's secret takes another tenant's callback for its own."""
    for key, thread in ((guarded.mine, "ours"), (guarded.theirs, "ours")):
        session = make_session(guarded, key, thread_id=thread)
        reply = ask(guarded, key, "POST", f"/api/sessions/{session}/processes",
                    {"command": "echo paid", "notify_url": receiver.base + "/mine"})
        assert reply.status == 201, reply
    lib.wait_until(lambda: len(receiver.got) == 2, "both callbacks")
    taken = [one for one in receiver.got if verify(KEY, one.headers, one.body)
             and "tenant" not in json.loads(one.body)["data"]]
    assert len(taken) < 2, "nothing in them says whose they are"


def test_a_tenant_takes_no_other_ones_turns_to_test_webhooks(guarded, receiver):
    receiver.answers += ["hang"] * 4
    ids = [ask(guarded, guarded.theirs, "POST", "/api/webhooks",
               {"url": f"{receiver.base}/{i}", "active": False}).json["id"] for i in range(4)]
    threads = [threading.Thread(target=ask, args=(guarded, guarded.theirs, "POST",
                                                  f"/api/webhooks/{one}/test")) for one in ids]
    for thread in threads:
        thread.start()
    other = Receiver()
    try:
        lib.wait_until(lambda: len(receiver.got) == 4, "they hang")
        hook = ask(guarded, guarded.mine, "POST", "/api/webhooks",
                   {"url": other.base, "active": False}).json["id"]
        reply = ask(guarded, guarded.mine, "POST", f"/api/webhooks/{hook}/test")
        assert reply.status == 200 and reply.json["delivered"], reply
    finally:
        receiver.over.set()
        for thread in threads:
            thread.join()
        other.close()


def test_64_webhooks_are_64_also_at_once(guarded):
    key = make_key(guarded, tenant="many")
    lib.wait_until(lambda: ask(guarded, key, "GET", "/api/webhooks").status == 200, "the key")
    body = {"url": "http://127.0.0.1:9/", "active": False}
    for _ in range(60):
        assert ask(guarded, key, "POST", "/api/webhooks", body).status == 201
    threads = [threading.Thread(target=ask, args=(guarded, key, "POST", "/api/webhooks", body))
               for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ask(guarded, key, "GET", "/api/webhooks").json["total"] == 64


# ---- the audit log ----

def test_the_audit_log_says_who_was_refused(guarded):
    """403: the key is known, and tried what it may not."""
    reader = make_key(guarded, tenant="mine", role="readonly")
    lib.wait_until(lambda: ask(guarded, reader, "GET", "/api/sessions").status == 200, "the key")
    request = "refused-" + os.urandom(6).hex()
    reply = ask(guarded, reader, "POST", "/create_session", {}, **{"X-Request-Id": request})
    assert reply.status == 403
    row = audit_of(guarded, request_id=request)[0]
    assert row.get("tenant") == "mine" and row.get("key") == reader.split("_")[1], row


def test_the_audit_log_tells_a_token_from_its_key(guarded):
    """The one is in a browser, the other with the operator of the tenant."""
    session = make_session(guarded, guarded.mine)
    token = make_token(guarded, guarded.mine, session)
    rows = []
    for credential in (guarded.mine, token):
        request = "told-" + os.urandom(6).hex()
        body = {"session_id": session, "command": "true"}
        assert ask(guarded, credential, "POST", "/execute", body,
                   **{"X-Request-Id": request}).status == 200
        rows.append(audit_of(guarded, request_id=request)[0])
    same = ("key", "tenant", "role", "action", "session", "address", "command")
    shown = [{name: value for name, value in row.items()
              if name not in ("number", "time", "duration_ms", "request_id")} for row in rows]
    assert shown[0] != shown[1], {name: shown[0].get(name) for name in same}


# ---- other doors ----

@pytest.mark.parametrize("secret", ["x", "cluster", "0123456789"])
def test_a_secret_of_a_cluster_can_not_be_guessed(binary, secret):
    """It opens /admin/drain and /cluster/… without a key, and wrong ones are not counted."""
    server = lib.Server(CLUSTER_SECRET=secret)
    try:
        assert server.command("config").returncode != 0
    finally:
        server.remove()


def test_nothing_is_sent_to_the_host_of_an_azure_machine(open_server):
    """168.63.129.16 is public by its number and the hypervisor's by its meaning (WireServer)."""
    hook = {"url": "http://168.63.129.16/machine?comp=goalstate", "active": False}
    assert open_server.post("/api/webhooks", hook).status == 400
