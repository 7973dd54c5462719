# SPDX-License-Identifier: Apache-2.0
"""Tenants through coordinators, which know nobody's keys: each has its own, wherever it is."""
import contextlib
import json
import uuid

import pytest

from cluster import Cluster, Guarded
from redis_server import need_redis
from server import wait_until
from websocket import WebSocket


@pytest.fixture(scope="module")
def guarded(binary):
    need_redis()
    one = Guarded(CLUSTER_LEASE_MS=6000, AUDIT_LOG="on")
    try:
        yield one.start(workers=2, coordinators=2)
    finally:
        one.close()


def name():
    return f"t-{uuid.uuid4()}"


def test_the_same_thread_of_two_tenants_is_two_boxes(guarded):
    one, two = guarded.coordinators
    for _ in range(4):
        thread, made = name(), {}
        for tenant in ("", "mine", "theirs"):
            session = guarded.ask(one, tenant).create(thread)
            assert guarded.ask(two, tenant).create(thread) == session
            for front in (one, two):
                reply = guarded.ask(front, tenant).get(f"/get_session?thread_id={thread}")
                assert (reply.status, reply.json["session_id"]) == (200, session), reply
            guarded.ask(one, tenant).stdout(session, f"echo {tenant}. > f")
            made[tenant] = session
        assert len(set(made.values())) == 3
        for tenant, session in made.items():
            assert guarded.ask(two, tenant).stdout(session, "cat f") == tenant + ".\n"
        for tenant, session in made.items():
            guarded.ask(two, tenant).cleanup(session)
            reply = guarded.ask(one, tenant).get(f"/get_session?thread_id={thread}")
            assert reply.status == 404, reply
    wait_until(lambda: not guarded.redis.call("KEYS", "{tb}:[ts]:*"), "the directory is empty")


def test_two_keys_of_a_tenant_have_the_same_threads(guarded):
    one, two = guarded.coordinators
    thread = name()
    session = guarded.ask(one, "mine").create(thread)
    assert guarded.ask(two, "another of mine").create(thread) == session
    guarded.ask(one, "mine").cleanup(session)


def test_a_thread_draws_no_other_tenants_to_its_worker(guarded):
    """Its name is nothing to them: theirs go to the least loaded."""
    front, sessions = guarded.coordinators[0], []
    together = 0
    for _ in range(4):
        thread = name()
        places = []
        for tenant in ("", "mine"):
            asked = guarded.ask(front, tenant)
            sessions.append((asked, asked.create(thread)))
            places.append(asked.get(f"/status/{sessions[-1][1]}").json["worker"])
        together += places[0] == places[1]
    for asked, session in sessions:
        asked.cleanup(session)
    assert together < 4


def test_a_thread_that_is_there_costs_no_sandbox_elsewhere(guarded):
    """The coordinator asks whose it is, and goes to the right worker at once."""
    one, two = guarded.coordinators
    threads = [name() for _ in range(6)]
    sessions = [guarded.ask(one, "mine").create(thread) for thread in threads]
    places = {guarded.ask(one, "mine").get(f"/status/{session}").json["worker"]
              for session in sessions}
    assert places == {"w1", "w2"}
    for thread in threads:
        guarded.ask(two, "mine").create(thread)
    for worker in guarded.workers:
        assert "lives on worker" not in worker.log(), "nobody was sent to the wrong one"
    for session in sessions:
        guarded.ask(one, "mine").cleanup(session)


def test_the_wrong_worker_says_who_has_a_thread_and_only_to_its_tenant(guarded):
    thread = name()
    session = guarded.ask(guarded.coordinators[0], "mine").create(thread)
    owner = guarded.worker_of(session, "mine")
    other = next(one for one in guarded.workers if one is not owner)
    reply = guarded.ask(other, "mine").get(f"/get_session?thread_id={thread}")
    assert (reply.status, reply.json["worker"]) == (421, owner.settings["WORKER_ID"]), reply
    assert reply.json["session_id"] == session
    for tenant in ("", "theirs"):
        # The last is how the directory calls it.
        for asked in (thread, f"mine%00{thread}"):
            reply = guarded.ask(other, tenant).get(f"/get_session?thread_id={asked}")
            assert reply.status == 404 and session not in reply.body.decode(), reply
            for front in guarded.coordinators:
                reply = guarded.ask(front, tenant).get(f"/get_session?thread_id={asked}")
                assert reply.status == 404 and session not in reply.body.decode(), reply
    guarded.ask(guarded.coordinators[0], "mine").cleanup(session)


def requests_for(session):
    body = {"session_id": session, "command": "cat f"}
    yield "POST", "/execute", body
    yield "POST", "/download_file", {"session_id": session, "filename": "f"}
    for path in (f"/list_files?session_id={session}", f"/status/{session}",
                 f"/api/sessions/{session}", f"/api/sessions/{session}/processes",
                 f"/api/sessions/{session}/files/content?path=f"):
        yield "GET", path, None
    yield "POST", f"/api/sessions/{session}/processes", {"command": "cat f"}
    yield "POST", f"/api/sessions/{session}/tokens", {}
    yield "DELETE", f"/api/sessions/{session}", None


def test_a_session_of_another_tenant_is_unknown(guarded):
    front, again = guarded.coordinators
    session = guarded.ask(front, "mine").create(name())
    guarded.ask(front, "mine").stdout(session, "echo secret > f")
    for asked in (front, again):
        for method, path, body in requests_for(session):
            reply = guarded.ask(asked, "theirs").request(method, path, body)
            assert reply.status == 404 and b"secret" not in reply.body, (path, reply)
            reply = guarded.ask(asked, None).request(method, path, body)
            assert reply.status == 401, (path, reply)
        assert guarded.ask(asked, "theirs").post(
            "/cleanup", {"session_id": session}).status == 200, "as for one that is not there"
    assert guarded.ask(again, "mine").stdout(session, "cat f") == "secret\n"
    guarded.ask(front, "mine").cleanup(session)


def test_a_reader_looks_and_changes_nothing(guarded):
    front, thread = guarded.coordinators[1], name()
    session = guarded.ask(guarded.coordinators[0], "mine").create(thread)
    reader = guarded.ask(front, "reader")
    assert reader.get(f"/get_session?thread_id={thread}").json["session_id"] == session
    assert reader.get(f"/list_files?session_id={session}").status == 200
    for path, body in (("/create_session", {"user_id": "u", "thread_id": thread}),
                       ("/create_session", {}), ("/cleanup", {"session_id": session}),
                       ("/execute", {"session_id": session, "command": "true"})):
        assert reader.post(path, body).status == 403, path
    guarded.ask(front, "mine").cleanup(session)


def test_a_list_has_ones_own(guarded):
    front, again = guarded.coordinators
    sessions = {tenant: {guarded.ask(front, tenant).create(name()) for _ in range(4)}
                for tenant in ("mine", "theirs")}
    for tenant, own in sessions.items():
        listed = guarded.ask(again, tenant).get("/api/sessions").json
        assert {row["session_id"] for row in listed["sessions"]} == own
        assert listed["total"] == 4
        assert {row["worker"] for row in listed["sessions"]} == {"w1", "w2"}
    assert guarded.ask(again, None).get("/api/sessions").status == 401
    assert guarded.ask(again, None).get(
        "/api/sessions", headers={"X-API-Key": guarded.keys["mine"]}).json["total"] == 4
    for tenant, own in sessions.items():
        for session in own:
            guarded.ask(front, tenant).cleanup(session)


def test_a_key_that_is_revoked_is_refused(guarded):
    front, thread = guarded.coordinators[0], name()
    guarded.add_key("brief", tenant="brief")
    asked = guarded.ask(front, "brief")
    session = asked.create(thread)
    assert asked.stdout(session, "echo hi") == "hi\n"
    done = guarded.workers[1].command("keys", "revoke", asked.key)
    assert done.returncode == 0, done
    wait_until(lambda: asked.try_execute(session, "true").status == 401, "it is refused")
    assert asked.post("/create_session", {"user_id": "u", "thread_id": thread}).status == 401
    assert asked.get(f"/get_session?thread_id={thread}").status == 401
    assert asked.get("/api/sessions").status == 401
    guarded.add_key("brief", tenant="brief")
    guarded.ask(front, "brief").cleanup(session)


def test_a_stream_needs_its_key(guarded):
    front, again = guarded.coordinators
    session = guarded.ask(front, "mine").create(name())
    body = json.dumps({"session_id": session, "stream": True,
                       "command": "mkfifo gate; echo one; read -r x < gate; echo two"})
    for tenant, status in (("theirs", 404), (None, 401), ("reader", 403)):
        assert guarded.ask(again, tenant).post("/execute", body).status == status
    with contextlib.closing(again.connect()) as connection:
        connection.request("POST", "/execute", body, {"X-API-Key": guarded.keys["mine"]})
        answer = connection.getresponse()
        while b"one" not in answer.readline():
            pass
        guarded.ask(front, "mine").stdout(session, "echo go > gate")
        assert b"two" in answer.read()
    guarded.ask(front, "mine").cleanup(session)


def test_a_token_opens_one_session_through_any_coordinator(guarded):
    front, again = guarded.coordinators
    mine = guarded.ask(front, "mine")
    threads = [name() for _ in range(6)]
    sessions = [mine.create(thread) for thread in threads]
    made = mine.post(f"/api/sessions/{sessions[0]}/tokens", {"expires_in": 600})
    guarded.keys["token"] = token = made.json["token"]
    holder = guarded.ask(again, "token")
    assert holder.stdout(sessions[0], "echo hi") == "hi\n"
    assert holder.get(f"/get_session?thread_id={threads[0]}").json["session_id"] == sessions[0]
    for thread, session in zip(threads[1:], sessions[1:]):
        for asked in (holder, *(guarded.ask(worker, "token") for worker in guarded.workers)):
            reply = asked.get(f"/get_session?thread_id={thread}")
            assert reply.status == 404 and session not in reply.body.decode(), reply
        assert holder.try_execute(session, "true").status == 404
    assert holder.get("/api/sessions").status == 403
    with WebSocket("127.0.0.1", again.port, f"/api/sessions/{sessions[0]}/attach?start=cat",
                   protocols=["threadbox", f"threadbox.token.{token}"]) as socket:
        assert socket.protocol == "threadbox"
    for session in sessions:
        mine.cleanup(session)


def test_redis_is_gone_and_known_threads_are_still_found(binary):
    need_redis()
    cluster = Guarded()
    try:
        one, two = cluster.start(workers=2, coordinators=2).coordinators
        threads = [name() for _ in range(3)]
        made = {(tenant, thread): cluster.ask(one, tenant).create(thread)
                for thread in threads for tenant in ("mine", "theirs")}
        token = cluster.ask(one, "mine").post(
            f"/api/sessions/{made['mine', threads[0]]}/tokens", {}).json["token"]
        cluster.redis.kill()
        wait_until(lambda: not two.health()["redis_connected"], "it is missed")
        for (tenant, thread), session in made.items():
            asked = cluster.ask(two, tenant)  # which has never heard of it
            assert asked.create(thread) == session
            assert asked.get(f"/get_session?thread_id={thread}").json["session_id"] == session
            assert asked.stdout(session, "echo hi") == "hi\n"
            other = cluster.ask(two, "theirs" if tenant == "mine" else "mine")
            assert other.try_execute(session, "true").status == 404
        with WebSocket("127.0.0.1", two.port,
                       f"/api/sessions/{made['mine', threads[0]]}/attach?start=cat",
                       protocols=["threadbox", f"threadbox.token.{token}"]) as socket:
            assert socket.protocol == "threadbox"
        for path in (f"/get_session?thread_id={threads[0]}", "/get_session?thread_id=new"):
            assert cluster.ask(two, None).get(path).status == 401
        reply = cluster.ask(two, "mine").get("/get_session?thread_id=new")
        assert reply.status == 503 and reply.headers["Retry-After"], "nobody knows"
        revoked = cluster.keys["theirs"]
        assert cluster.workers[0].command("keys", "revoke", revoked).returncode == 0
        wait_until(lambda: cluster.ask(two, "theirs").get("/api/sessions").status == 401,
                   "it is refused")
        assert cluster.ask(two, "theirs").post(
            "/create_session", {"user_id": "u", "thread_id": threads[0]}).status == 401
    finally:
        cluster.close()


def test_a_worker_that_has_just_joined_is_found(binary):
    """By coordinators that have not read of it yet: with such leases they look each two seconds,
    so that one of them most likely has not."""
    need_redis()
    cluster = Cluster()
    try:
        cluster.worker()
        for _ in range(3):
            cluster.coordinator(CLUSTER_LEASE_MS=10_000)
        cluster.wait_open()
        joined, thread = cluster.worker(), name()
        wait_until(lambda: joined.post("/create_session", {
            "user_id": "u", "thread_id": thread}).status in (200, 409), "it takes sessions")
        session = joined.create(thread)
        for front in cluster.coordinators:
            assert front.stdout(session, "echo hi") == "hi\n"
            assert front.get(f"/get_session?thread_id={thread}").json["session_id"] == session
    finally:
        cluster.close()
