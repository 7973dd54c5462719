# SPDX-License-Identifier: Apache-2.0
"""Sessions key by key: create_session, get_session, status and cleanup."""
import socket
import time
import uuid

import pytest
import requests

from answers import (cleanup, create, execute, get, moment, ok, post, refused, unique,
                     wait_expired)
from server import wait_until

HALF_HOUR = 30 * 60


def full(thread, **more):
    return {"user_id": "user_12345678", "thread_id": thread, "timeout_minutes": 30, **more}


def test_a_new_session_is_a_200_with_all_generations_fields(url, server):
    thread = unique()
    body = ok(post(url, "/create_session", full(thread)), "session_id", "worker")
    assert (body["thread_id"], body["status"], body["workspace_dir"], body["workspace"],
            body["user"]) == (thread, "created", "/workspace", "/workspace", "sandboxuser")
    assert isinstance(body["session_id"], str) and len(body["session_id"]) >= 12
    assert 0 < moment(body["expires_at"]) - time.time() <= HALF_HOUR + 2
    cleanup(url, body["session_id"])


def test_a_thread_with_a_session_is_a_409_that_is_not_wrapped(url):
    thread = unique()
    session = create(url, thread)
    body = ok(post(url, "/create_session", full(thread)), status=409)
    assert (body["session_id"], body["thread_id"], body["status"], body["workspace_dir"],
            body["user"]) == (session, thread, "existing", "/workspace", "sandboxuser")
    assert moment(body["created_at"]) <= moment(body["last_activity"])
    assert "detail" not in body
    cleanup(url, session)


@pytest.mark.parametrize("body", [None, {}, {"user_id": "u"}])
def test_without_a_thread_each_request_is_a_session_of_its_own(url, body):
    told = [ok(post(url, "/create_session", body), "session_id", "worker") for _ in range(2)]
    assert told[0]["session_id"] != told[1]["session_id"]
    for one in told:
        assert (one["status"], one["workspace"], one["user"]) == ("created", "/workspace",
                                                                  "sandboxuser")
        assert str(uuid.UUID(one["session_id"])) == one["session_id"]
        assert cleanup(url, one["session_id"])["status"] in ("cleaned_up", "cleaned up")


@pytest.mark.parametrize("body", [
    {"user_id": "u", "thread_id": 5}, {"user_id": ["u"], "thread_id": "t"},
    {"user_id": "u", "thread_id": "t", "timeout_minutes": "soon"},
    {"user_id": "u", "thread_id": "t", "timeout_minutes": -1}, ["a", "list"]])
def test_ill_typed_fields_are_a_400(url, body):
    refused(post(url, "/create_session", body), 400)


def test_what_is_no_json_is_a_400(url):
    headers = {"Content-Type": "application/json"}
    for path in ("/create_session", "/execute", "/cleanup", "/download_file"):
        refused(requests.post(url + path, data=b'{"user_id": ', headers=headers), 400)


def test_thirty_minutes_unless_told_otherwise(url):
    for more, seconds in (({}, HALF_HOUR), ({"timeout_minutes": 7}, 7 * 60),
                          ({"timeout_minutes": 90}, 90 * 60)):
        body = ok(post(url, "/create_session", {"user_id": "u", "thread_id": unique(), **more}))
        assert abs(moment(body["expires_at"]) - moment(body["created_at"]) - seconds) <= 2
        cleanup(url, body["session_id"])


def test_idle_containers_of_the_pool_have_a_time_of_their_own(start_server):
    url = start_server(SESSION_TIMEOUT_MINUTES=60, CONTAINER_IDLE_TIMEOUT_MINUTES=1)
    body = ok(post(url, "/create_session"))
    assert abs(moment(body["expires_at"]) - moment(body["created_at"]) - 2 * HALF_HOUR) <= 2


def test_an_expired_session_goes_with_its_thread_and_makes_room_for_a_new_one(url):
    thread = unique()
    session = create(url, thread, timeout_minutes=0.01)  # 0.6 s
    execute(url, session, "echo data > f")
    wait_expired(url, session)
    body = refused(get(url, "/get_session", thread_id=thread), 404, thread_id=thread)
    assert body["error"] in ("No active session found for thread_id", "Session expired")
    refused(post(url, "/execute", {"session_id": session, "command": "ls"}), 404,
            "Invalid or expired session", session_id=session)
    fresh = create(url, thread)
    assert fresh != session
    assert execute(url, fresh, "ls -A")["stdout"] == ""
    cleanup(url, fresh)


def test_use_renews_the_idle_time(url):
    session = create(url, unique(), timeout_minutes=0.025)  # 1.5 s
    for _ in range(4):
        assert execute(url, session, "sleep 0.6; echo on")["stdout"] == "on\n"
    before = ok(get(url, f"/status/{session}"))
    assert moment(before["last_activity"]) > moment(before["created_at"])
    cleanup(url, session)


def test_get_session_by_thread(url):
    thread = unique()
    session = create(url, thread)
    execute(url, session, "echo 1 > a; mkdir d; echo 2 > d/b")
    body = ok(get(url, "/get_session", thread_id=thread))
    assert (body["session_id"], body["thread_id"], body["status"], body["workspace_dir"]) == (
        session, thread, "active", "/workspace")
    assert moment(body["created_at"]) <= moment(body["last_activity"])
    assert type(body["files_count"]) is int and body["files_count"] >= 2
    cleanup(url, session)


@pytest.mark.parametrize("thread", ["with space", "a+b&c=d?e#f", "ünï \U0001f600", "x/y", "100%"])
def test_threads_with_any_name_are_found(url, thread):
    thread = unique(thread)
    session = create(url, thread)
    body = ok(get(url, "/get_session", thread_id=thread))
    assert (body["session_id"], body["thread_id"]) == (session, thread)
    cleanup(url, session)


def test_get_session_that_is_not_there(url):
    thread = unique()
    refused(get(url, "/get_session", thread_id=thread), 404,
            "No active session found for thread_id", thread_id=thread)
    refused(get(url, "/get_session"), 400, "thread_id required")


def test_session_and_thread_vanish_together(url):
    for _ in range(10):
        thread = unique()
        session = create(url, thread)
        body = cleanup(url, session)
        assert (body["status"], body["session_id"]) == ("cleaned_up", session)
        refused(get(url, "/get_session", thread_id=thread), 404, thread_id=thread)
        refused(post(url, "/execute", {"session_id": session, "command": "ls"}), 404,
                "Invalid or expired session", session_id=session)


def test_cleanup_of_what_never_was(url):
    session = str(uuid.uuid4())
    body = cleanup(url, session)
    assert body["session_id"] == session
    refused(post(url, "/cleanup", {}), 400, "session_id required")


def test_status(url, server):
    session = create(url, unique())
    body = ok(get(url, f"/status/{session}"), "worker")
    assert body["status"] == "active"
    assert body["worker"] == ok(get(url, "/health"))["worker_id"]
    assert moment(body["created_at"]) <= moment(body["last_activity"])
    cleanup(url, session)
    gone = get(url, f"/status/{session}")
    assert gone.status_code == 404
    assert gone.json()["status"] == "not found"
    assert gone.json()["error"] and gone.json()["detail"]


def test_what_a_session_leaves_is_nothing_for_the_next(start_server):
    url = start_server(POOL_SIZE=1, MAX_POOL_SIZE=1)
    session = create(url)
    execute(url, session, "touch f /tmp/f ~/f /dev/shm/f; sleep 300 > /dev/null 2>&1 &")
    cleanup(url, session)
    fresh = wait_until(lambda: post(url, "/create_session").json().get("session_id"), "room")
    told = execute(url, fresh, "ls -A . /tmp ~ /dev/shm")["stdout"].split()
    assert told == [".:", "/dev/shm:", "/home/sandboxuser:", "/tmp:"]
    assert execute(url, fresh, "grep -l sleep /proc/[0-9]*/comm")["stdout"] == ""


def test_a_body_may_come_after_its_head(server):
    """As `requests` sends it: in a segment of its own."""
    body = b'{"user_id": "u", "thread_id": "%s"}' % unique().encode()
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"POST /create_session HTTP/1.1\r\nHost: x\r\n"
                           b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                           % len(body))
        for byte in body:
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
