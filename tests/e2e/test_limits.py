# SPDX-License-Identifier: Apache-2.0
"""Who may have how much, and who waits for a place: 429, 503, and the headers that say when."""
import concurrent.futures
import contextlib
import os
import signal
import threading

import pytest

from keys import make_key
from live import start, try_start
from server import wait_until
from test_jwt import RULES, SECRET, token


def as_tenant(key):
    return {"Authorization": f"Bearer {key}"}


@contextlib.contextmanager
def creating(server, count, **fields):
    """Creations under way, each with a connection of its own: their futures."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        yield [pool.submit(server.post, "/create_session", dict(fields)) for _ in range(count)]


def waiting(server):
    text = server.get("/metrics").body.decode()
    return int(float(text.split("\nthreadbox_creations_waiting ")[1].split()[0]))


def test_requests_are_counted_and_told(start_server):
    server = start_server(LIMITS_PER_TENANT="requests=5/h")
    for left in range(4, -1, -1):
        reply = server.get("/api/sessions")
        assert reply.status == 200, reply
        assert reply.headers["RateLimit-Limit"] == "5"
        assert reply.headers["RateLimit-Remaining"] == str(left)
        assert reply.headers["RateLimit-Policy"] == "5;w=3600"
        assert 0 < int(reply.headers["RateLimit-Reset"]) <= 3600
    reply = server.get("/api/sessions")
    assert reply.status == 429 and "Too many requests of this tenant" in reply.json["error"], reply
    assert 600 < int(reply.headers["Retry-After"]) <= 720
    assert reply.headers["RateLimit-Remaining"] == "0"
    for path in ("/health", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert server.get(path).status == 200, path
    metrics = server.get("/metrics").body.decode()
    assert 'threadbox_quota_exceeded_total{quota="requests"} 1' in metrics


def test_creations_sessions_and_processes_are_bounded(start_server):
    server = start_server(LIMITS_PER_USER="sessions=2,processes=1,creations=4/day")
    alice = [server.create(f"t{i}", user_id="alice") for i in range(2)]
    reply = server.post("/create_session", {"user_id": "alice"})
    assert reply.status == 429 and "2 at a time" in reply.json["error"], reply
    assert int(reply.headers["Retry-After"]) >= 1
    assert server.create("t0", user_id="alice") == alice[0]  # what is there is found
    assert server.create("t0b", user_id="bob")
    process = start(server, alice[0], "sleep 1000")
    reply = try_start(server, alice[1], "true")
    assert reply.status == 429 and "processes of this user" in reply.json["error"], reply
    assert server.try_execute(alice[1], "true").status == 429
    process.delete()
    assert server.stdout(alice[1], "echo again") == "again\n"
    server.cleanup(alice[0])
    for _ in range(2):
        server.cleanup(server.create(user_id="alice"))
    reply = server.post("/create_session", {"user_id": "alice"})
    assert reply.status == 429 and "creations of this user" in reply.json["error"], reply


def test_sessions_of_an_earlier_server_count_for_their_key(start_server):
    server = start_server(LIMITS_PER_KEY="sessions=1")
    keys = [as_tenant(make_key(server)) for _ in range(2)]

    def create(number):
        return server.post("/create_session", {}, headers=keys[number]).status
    wait_until(lambda: server.get("/api/sessions", headers=keys[1]).status == 200, "the keys count")
    assert [create(0), create(0)] == [200, 429]
    server.restart()
    assert [create(0), create(1), create(1)] == [429, 200, 429]


def test_a_token_made_with_a_jwt_counts_for_its_user(start_server):
    server = start_server(JWT_SECRET=SECRET, LIMITS_PER_USER="requests=4/h", **RULES)
    server.key = token(sub="u-7")
    session = server.create("t")
    made = server.post(f"/api/sessions/{session}/tokens", {}).json["token"]
    server.key = made
    statuses = [server.get(f"/status/{session}").status for _ in range(3)]
    assert statuses == [200, 200, 429]
    server.key = token(sub="u-8")
    assert server.get(f"/status/{session}").status == 200


def test_sessions_of_an_earlier_server_count(start_server):
    server = start_server(LIMITS_PER_TENANT="sessions=1")
    kept = server.create("kept")
    server.restart()
    assert server.post("/create_session", {}).status == 429
    server.cleanup(kept)
    assert server.post("/create_session", {}).status == 200


def test_bytes_are_a_debt_that_is_paid_off(start_server):
    server = start_server(LIMITS_PER_TENANT="bytes=200k/min")
    session = server.create()
    server.upload(session, "big", bytes(300_000))
    reply = server.get("/api/sessions")
    assert reply.status == 429 and "bytes" in reply.json["error"], reply
    assert 1 <= int(reply.headers["Retry-After"]) <= 60


def test_keys_and_tenants_have_limits_of_their_own(start_server, tmp_path):
    os.chmod(tmp_path, 0o755)
    for parent in list(tmp_path.parents)[:2]:
        os.chmod(parent, 0o755)
    table = tmp_path / "limits"
    table.write_text("tenant large requests=3/day\n")
    server = start_server(LIMITS_PER_TENANT="requests=1/day", LIMITS_FILE=table)
    large, small = make_key(server, tenant="large"), make_key(server, tenant="small")

    def ask(key):
        return server.get("/api/sessions", headers=as_tenant(key)).status
    wait_until(lambda: server.get("/api/sessions").status == 401, "keys are asked for")
    assert [ask(small) for _ in range(2)] == [200, 429]
    assert [ask(large) for _ in range(4)] == [200, 200, 200, 429]
    table.write_text("tenant large requests=x\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "limits_not_reloaded" in server.log(), "the wrong file is said")
    table.write_text(f"key {small[3:].split('_')[0]} requests=1/day\ntenant small sessions=1\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "limits_reloaded" in server.log(), "the new file is read")
    assert [ask(small) for _ in range(2)] == [200, 429]  # the key's own


@pytest.mark.parametrize("name, value, words", [
    ("LIMITS_PER_KEY", "requests=5", "must have a window"),
    ("LIMITS_PER_TENANT", "friends=5", "is no limit"),
    ("LIMITS_PER_USER", "sessions=many", "must have a whole number"),
    ("LIMITS_FILE", "/nowhere", "/nowhere"),
    ("CREATE_WAIT_SECONDS", "3601", "CREATE_WAIT_SECONDS"),
    ("MAX_CREATE_WAITING", "0", "MAX_CREATE_WAITING"),
])
def test_wrong_limits_are_said_at_the_start(binary, tmp_path, name, value, words):
    import server as lib
    made = lib.Server(state_dir=str(tmp_path / "state"), **{name: value})
    done = made.command("serve", seconds=30)
    assert done.returncode == 1 and words in done.stderr, done


# ---- waiting for a place ----

def test_at_once_a_503_unless_the_server_lets_wait(start_server):
    server = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1)
    server.create()
    reply = server.post("/create_session", {})
    assert reply.status == 503 and reply.headers["Retry-After"] == "1", reply


def test_a_creation_waits_for_a_place(start_server):
    server = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1, CREATE_WAIT_SECONDS=60)
    first = server.create()
    with creating(server, 2) as both:
        wait_until(lambda: waiting(server) == 2, "both wait")
        server.cleanup(first)
        done, _ = concurrent.futures.wait(both, 30, concurrent.futures.FIRST_COMPLETED)
        reply = done.pop().result()
        assert reply.status == 200, reply
        server.cleanup(reply.json["session_id"])
        assert all(one.result(30).status == 200 for one in both)
    assert waiting(server) == 0


def test_waiting_has_an_end_and_the_line_a_length(start_server):
    server = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1, CREATE_WAIT_SECONDS=3,
                          MAX_CREATE_WAITING=1)
    server.create()
    with creating(server, 1) as (first,):
        wait_until(lambda: waiting(server) == 1, "it waits")
        second = server.post("/create_session", {})
        assert second.status == 503 and "too many wait" in second.json["error"], second
        reply = first.result(30)
        assert reply.status == 503 and "none came free" in reply.json["error"], reply


def test_who_leaves_the_line_takes_no_place(start_server):
    server = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1, CREATE_WAIT_SECONDS=60)
    first = server.create()
    connection = server.connect()
    connection.request("POST", "/create_session", "{}", {"Content-Type": "application/json"})
    wait_until(lambda: waiting(server) == 1, "it waits")
    connection.close()
    wait_until(lambda: waiting(server) == 0, "it has left")
    server.cleanup(first)
    assert server.create()
    assert 'threadbox_creation_waits_total{result="left"} 1' in server.get("/metrics").body.decode()


def test_tenants_have_their_turns(start_server):
    server = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1, CREATE_WAIT_SECONDS=60)
    server.key = make_key(server, role="admin")
    greedy, modest = make_key(server, tenant="greedy"), make_key(server, tenant="modest")
    wait_until(lambda: server.get("/api/sessions", headers=as_tenant(modest)).status == 200,
               "its key is known")
    made, lock = [], threading.Lock()

    def create_and_end(name, key):
        reply = server.post("/create_session", {}, headers=as_tenant(key), seconds=60)
        assert reply.status == 200, reply
        with lock:
            made.append(name)
        server.post("/cleanup", {"session_id": reply.json["session_id"]}, headers=as_tenant(key))
    first = server.create()
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        futures = []
        for count, (name, key) in enumerate([("greedy", greedy)] * 4 + [("modest", modest)], 1):
            futures.append(pool.submit(create_and_end, name, key))
            wait_until(lambda wanted=count: waiting(server) == wanted, f"{count} wait")
        server.cleanup(first)
        for one in futures:
            one.result(60)
    assert made.index("modest") <= 1, made
