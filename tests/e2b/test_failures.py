# SPDX-License-Identifier: Apache-2.0
"""An E2B cloud that fails: what is tried again, what is not, and what people are told."""
import io
import tarfile

import pytest

import e2b_server as lib
from live import start
from server import Server, wait_until

SEQUENCE = "for i in $(seq 2000); do echo line $i; done; echo end >&2; exit 3"


def create(server, **fields):
    return server.post("/api/sessions", {"provider": "e2b", "environment": "base", **fields})


# ---- the key and the control plane ----

def test_a_refused_key_is_told_and_other_providers_go_on(cloud, start_cloud_server):
    server = start_cloud_server(E2B_API_KEY="e2b_wrong", SANDBOX_PROVIDER="native")
    reply = create(server)
    assert reply.status == 503, reply
    assert "refused the key" in reply.json["error"] and "E2B_API_KEY" in reply.json["error"]
    asked = cloud.count("POST", "/v2/sandboxes")
    again = create(server)
    assert "refused the key" in again.json["error"], again
    assert cloud.count("POST", "/v2/sandboxes") == asked  # known for a while
    assert server.stdout(server.create(), "echo fine") == "fine\n"


def test_without_a_key_it_is_said_how_to_have_one(start_server):
    server = start_server(PROVIDER_ALIASES="none")
    reply = create(server)
    assert reply.status == 503 and "E2B_API_KEY" in reply.json["error"], reply


def test_too_many_requests_are_waited_for(cloud, server):
    cloud.fail("status", "POST /v2/sandboxes", times=2, status=429, headers=[("Retry-After", "1")])
    asked = cloud.count("POST", "/v2/sandboxes")
    session = server.create()
    assert cloud.count("POST", "/v2/sandboxes") == asked + 3
    server.cleanup(session)


@pytest.mark.parametrize("wait,tries", [("3600", 1), ("0", 4)])
def test_but_not_for_ever(cloud, server, wait, tries):
    cloud.fail("status", "POST /v2/sandboxes", times=9, status=429, headers=[("Retry-After", wait)])
    asked = cloud.count("POST", "/v2/sandboxes")
    reply = create(server)
    assert reply.status in (429, 503) and "no more for now" in reply.json["error"], reply
    assert cloud.count("POST", "/v2/sandboxes") == asked + tries


def test_what_may_have_been_done_is_not_done_twice(cloud, server):
    """Another sandbox might cost somebody money; ending one twice does not."""
    session = server.create()
    cloud.fail("abort", "POST /v2/sandboxes")
    asked = cloud.count("POST", "/v2/sandboxes")
    assert create(server).status == 503
    assert cloud.count("POST", "/v2/sandboxes") == asked + 1
    cloud.fail("abort", "DELETE /sandboxes")
    server.cleanup(session)
    assert session not in server.machines()


@pytest.mark.parametrize("kind", ["garbage", "type"])
def test_answers_that_are_none(cloud, server, kind):
    cloud.fail(kind, "POST /v2/sandboxes")
    reply = create(server)
    assert reply.status == 503 and "E2B" in reply.json["error"], reply


def test_a_sandbox_that_can_not_be_set_up_is_ended(cloud, server):
    before = set(cloud.boxes)
    cloud.fail("type", "POST /process.Process/Start")
    reply = create(server)
    assert reply.status == 503 and "text/html" in reply.json["error"], reply
    assert set(cloud.boxes) == before


def test_slow_headers_keep_nobody_else_waiting(cloud, server, session):
    slow = cloud.fail("slow", "POST /v2/sandboxes")
    reply = server.connect()
    reply.request("POST", "/api/sessions", '{"provider": "e2b", "environment": "base"}',
                  {"Content-Type": "application/json"})
    assert server.stdout(session, "echo fine") == "fine\n"
    slow.go.set()
    assert reply.getresponse().status in (200, 201)
    reply.close()


# ---- the certificate ----

@pytest.mark.parametrize("names,expired,why", [
    ("DNS:another.example", False, "mismatch"), ("DNS:localhost", True, "expired")])
def test_a_wrong_certificate_is_no_connection(certificates, start_cloud_server, names, expired,
                                              why):
    cloud = lib.E2bServer(certificates, names, expired)
    try:
        server = start_cloud_server(cloud, SANDBOX_PROVIDER="native")
        reply = create(server)
        assert reply.status == 503 and why in reply.json["error"], reply
        assert cloud.asked == []
        assert server.stdout(server.create(), "echo fine") == "fine\n"
    finally:
        cloud.remove()


def test_an_unknown_authority_is_no_connection(cloud, start_cloud_server, tmp_path):
    other = lib.Certificates(tmp_path)
    server = start_cloud_server(E2B_CA_FILE=other.authority, SANDBOX_PROVIDER="native")
    reply = create(server)
    assert reply.status == 503 and "certificate" in reply.json["error"], reply


@pytest.mark.parametrize("setting,value", [
    ("E2B_CA_FILE", "/nowhere"), ("E2B_API_URL", "ftp://x"), ("E2B_SANDBOX_URL", "x y"),
    ("E2B_DOMAIN", "a/b"), ("E2B_API_KEY", "a b")])
def test_wrong_settings_are_named_at_the_start(binary, setting, value):
    server = Server(**{"E2B_API_KEY": "x", setting: value})
    try:
        done = server.command("serve")
        assert done.returncode != 0 and setting in done.stderr, done
        assert value != "a b" or value not in done.stderr  # a key is not for a log
    finally:
        server.remove()


# ---- a sandbox that is gone ----

def test_a_sandbox_that_e2b_has_ended_is_a_session_that_is_gone(cloud, server):
    session = server.create("gone")
    live = start(server, session, "echo up; sleep 1000")
    live.wait_said(b"up\n")
    cloud.end(server.machines()[session])
    wait_until(lambda: server.try_execute(session, "true").status == 404, "it is gone")
    again = server.create("gone")
    assert again != session and server.stdout(again, "echo new") == "new\n"
    server.cleanup(again)


def test_one_that_ended_while_no_server_was_there(cloud, start_cloud_server):
    server = start_cloud_server()
    session = server.create("t")
    server.kill9()
    cloud.end(server.machines()[session])
    server.start()
    assert server.try_execute(session, "true").status == 404


def test_a_cloud_that_is_away_at_the_start_is_reached_later(cloud, start_cloud_server):
    server = start_cloud_server()
    session = server.create("t")
    server.stdout(session, "echo mine > f")
    server.kill9()
    away = cloud.fail("status", "GET /v2/sandboxes", times=100, status=500)
    server.start()
    away.times = 0
    assert server.stdout(session, "cat f") == "mine\n"


# ---- streams ----

@pytest.mark.parametrize("kind", ["cut", "half", "nonsense"])
def test_a_stream_that_breaks_is_opened_again(cloud, server, session, kind):
    cloud.fail(kind, "Process/Start", events=0)
    live = start(server, session, "echo lost; read x; echo after $x; exit 3", stdin_open=True)
    wait_until(lambda: b"was lost here" in live.output("stderr"), "the gap is told")
    assert live.write("one\n").status == 200
    assert live.wait_exited()["exit_code"] == 3
    assert live.output() == b"after one\n"


def test_an_end_that_came_while_the_stream_was_broken_is_known(cloud, server, session):
    cloud.fail("cut", "Process/Start", events=1)
    live = start(server, session, SEQUENCE)
    assert live.wait_exited()["exit_code"] == 3


def test_a_stream_that_breaks_with_its_sandbox_is_lost(cloud, server):
    session = server.create()
    live = start(server, session, "echo up; sleep 1000")
    live.wait_said(b"up\n")
    cloud.end(server.machines()[session])
    wait_until(lambda: server.get(live.path).status == 404, "it is gone")


def test_a_start_that_breaks_off_is_an_error_not_a_second_command(cloud, server, session):
    cloud.fail("abort", "Process/Start")
    reply = server.try_execute(session, "echo once >> f")
    assert reply.status == 503, reply
    assert server.execute(session, "cat f")["exit_code"] != 0
    assert server.stdout(session, "echo fine") == "fine\n"


def test_a_gateway_that_fails_for_a_moment_is_no_end(cloud, server, session):
    cloud.fail("status", "Process/Start", status=502, body={"message": "bad gateway", "code": 502})
    assert server.try_execute(session, "true").status == 503
    assert server.stdout(session, "echo fine") == "fine\n"


def test_an_archive_of_which_only_errors_come_is_given_up(cloud, server, session):
    server.execute(session, "echo x > f")
    cloud.fail("chatter", "process.Process/Start")
    reply = server.get(f"/api/sessions/{session}/files/archive")
    assert reply.status == 503, reply
    assert server.get(f"/api/sessions/{session}/files/archive").status == 200


def test_an_archive_with_a_name_that_begins_at_the_root_is_refused(server, session):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name in ("fine", "/workspace/other"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    reply = server.request("PUT", f"/api/sessions/{session}/files/archive", data.getvalue())
    assert reply.status == 400, reply
    assert server.stdout(session, "ls -A") == ""
