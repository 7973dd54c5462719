# SPDX-License-Identifier: Apache-2.0
"""Tokens for one session: what they open, and above all what they don't."""
import base64
import json
import time

import pytest

import server as lib
from keys import make_key
from route_rows import ROUTES, SOCKET
from websocket import WebSocket


@pytest.fixture(scope="module")
def guarded(binary):
    server = lib.Server()
    try:
        server.start()
        server.right = make_key(server, tenant="mine")
        lib.wait_until(lambda: server.get("/api/sessions").status == 401, "the key counts")
        yield server
        server.key = None
        server.close()
    finally:
        server.remove()


@pytest.fixture
def own(guarded):
    """A session with a file, and one beside it."""
    guarded.key = guarded.right
    session, beside = guarded.create(), guarded.create("beside")
    for one in (session, beside):
        guarded.stdout(one, "echo hello > f")
    guarded.key = None
    return session, beside


def make(server, session, key=None, **fields):
    reply = server.post(f"/api/sessions/{session}/tokens", fields,
                        headers={"Authorization": f"Bearer {key or server.right}"})
    assert reply.status == 201, reply
    return reply.json["token"]


def ask(server, token, method, path, body=None, **headers):
    return server.request(method, path, body, {"Authorization": f"Bearer {token}", **headers})


def test_it_opens_its_session_and_no_other(guarded, own):
    session, beside = own
    token = make(guarded, session)
    for one, status in ((session, 200), (beside, 404)):
        body = {"session_id": one, "command": "cat f"}
        assert ask(guarded, token, "POST", "/execute", body).status == status
        for path in (f"/status/{one}", f"/api/sessions/{one}", f"/list_files?session_id={one}",
                     f"/download_file?session_id={one}&filename=f",
                     f"/api/sessions/{one}/files/content?path=f",
                     f"/api/sessions/{one}/processes", f"/api/sessions/{one}/artifacts"):
            assert ask(guarded, token, "GET", path).status == status, path
    assert ask(guarded, token, "GET", "/get_session?thread_id=beside").status == 404
    assert ask(guarded, token, "POST", "/cleanup", {"session_id": beside}).status == 200
    assert guarded.get(f"/status/{beside}", headers={
        "Authorization": f"Bearer {guarded.right}"}).status == 200


def test_whatever_is_about_more_than_a_session_is_closed(guarded, own):
    token = make(guarded, own[0])
    for route in ("POST /create_session", "POST /api/sessions", "GET /api/sessions",
                  "GET /api/volumes", "POST /api/volumes", "GET /metrics", "GET /api/registry",
                  "GET /api/webhooks/deliveries"):
        row = ROUTES[route]
        method, path = route.split()
        reply = ask(guarded, token, method, path, row.body)
        assert reply.status == 403, (route, reply)
    assert ask(guarded, token, "POST", f"/api/sessions/{own[0]}/tokens", {}).status == 403


def test_artifacts_of_other_sessions_are_unknown(guarded, own):
    guarded.key = guarded.right
    kept = [guarded.post(f"/api/sessions/{one}/artifacts", {"path": "f"}).json["artifact_id"]
            for one in own]
    guarded.key = None
    token = make(guarded, own[0])
    listed = ask(guarded, token, "GET", "/api/artifacts").json["artifacts"]
    assert [row["artifact_id"] for row in listed] == kept[:1]
    for artifact, status in zip(kept, (200, 404)):
        assert ask(guarded, token, "GET", f"/api/artifacts/{artifact}").status == status
        assert ask(guarded, token, "GET", f"/api/artifacts/{artifact}/content").status == status
    assert ask(guarded, token, "DELETE", f"/api/artifacts/{kept[1]}").status == 404


def test_a_read_only_one_looks_and_does_nothing(guarded, own):
    session = own[0]
    token = make(guarded, session, read_only=True)
    assert ask(guarded, token, "GET", f"/api/sessions/{session}/files/content?path=f").status == 200
    for method, path, body in (
            ("POST", "/execute", {"session_id": session, "command": "true"}),
            ("PUT", f"/api/sessions/{session}/files/content?path=g", "x"),
            ("DELETE", f"/api/sessions/{session}", None)):
        assert ask(guarded, token, method, path, body).status == 403
    reply = ask(guarded, token, "GET", f"/api/sessions/{session}/attach?start=true", **SOCKET)
    assert reply.status == 403


def test_it_ends_with_its_time_and_with_its_key(guarded, own):
    session = own[0]
    short = make(guarded, session, expires_in=1)
    path = f"/status/{session}"
    lib.wait_until(lambda: ask(guarded, short, "GET", path).status == 401, "its end")
    key = make_key(guarded, tenant="mine")
    lib.wait_until(lambda: ask(guarded, key, "GET", path).status == 200, "the key counts")
    token = make(guarded, session, key)
    assert ask(guarded, token, "GET", f"/status/{session}").status == 200
    assert guarded.command("keys", "revoke", key).returncode == 0
    lib.wait_until(lambda: ask(guarded, token, "GET", f"/status/{session}").status == 401, "that")


def test_a_changed_one_is_none(guarded, own):
    token = make(guarded, own[0], read_only=True)
    head, mac = token[4:].split(".")
    claims = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    for name, value in (("s", own[1]), ("r", "w"), ("e", 1 << 52), ("t", "")):
        forged = json.dumps({**claims, name: value}).encode()
        text = base64.urlsafe_b64encode(forged).decode().rstrip("=")
        reply = ask(guarded, f"tbs_{text}.{mac}", "GET", f"/status/{own[0]}")
        assert reply.status == 401, name
    assert ask(guarded, token, "GET", f"/status/{own[0]}").status == 200


@pytest.mark.parametrize("body", [{"expires_in": 0}, {"expires_in": 604801}, {"expires_in": "x"},
                                  {"expires_in": 1.5}, {"read_only": "yes"}])
def test_wrong_wishes_are_refused(guarded, own, body):
    reply = guarded.post(f"/api/sessions/{own[0]}/tokens", body,
                         headers={"Authorization": f"Bearer {guarded.right}"})
    assert reply.status == 400


def test_a_page_offers_it_as_a_protocol(guarded, own):
    session, beside = own
    token = make(guarded, session)
    offered = {"Sec-WebSocket-Protocol": f"threadbox, threadbox.token.{token}"}
    with WebSocket("127.0.0.1", guarded.port, f"/api/sessions/{session}/attach?start=true",
                   protocols=["threadbox", f"threadbox.token.{token}"]) as socket:
        assert socket.protocol == "threadbox"
    for one, headers, status in ((beside, offered, 404), (session, {}, 401)):
        reply = guarded.request("GET", f"/api/sessions/{one}/attach?start=true", None,
                                {**SOCKET, **headers})
        assert reply.status == status
    foreign = {**SOCKET, **offered, "Origin": "https://evil.example"}
    reply = guarded.request("GET", f"/api/sessions/{session}/attach?start=true", None, foreign)
    assert reply.status == 403


def test_keys_that_were_good_once_lock_nobody_out(guarded):
    """Behind a proxy all have one address: a program that goes on with its old key is no attack."""
    over = make_key(guarded, tenant="mine")

    def asked():
        return ask(guarded, over, "GET", "/api/sessions")
    lib.wait_until(lambda: asked().status == 200, "the key is known")
    assert guarded.command("keys", "revoke", over).returncode == 0
    lib.wait_until(lambda: asked().status == 401, "it is revoked")
    for _ in range(150):
        reply = asked()
        assert reply.status == 401 and "revoked" in reply.json["error"], reply


def test_A06_who_tries_many_is_told_to_wait_and_nobody_else(guarded):
    begun = time.monotonic()
    statuses = [ask(guarded, "wrong", "GET", "/api/sessions").status for _ in range(300)]
    assert set(statuses) == {401, 429}, begun
    reply = ask(guarded, "wrong", "GET", "/api/sessions")
    assert reply.status == 401 or int(reply.headers["Retry-After"]) > 0
    assert ask(guarded, guarded.right, "GET", "/api/sessions").status == 200
    assert guarded.get("/api/sessions").status == 401
