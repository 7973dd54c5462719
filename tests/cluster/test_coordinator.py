# SPDX-License-Identifier: Apache-2.0
"""Through a coordinator everything is as with one server, whichever worker has it."""
import concurrent.futures
import hashlib
import json
import os
import uuid

import pytest

from live import start
from server import read_text, wait_until


@pytest.fixture
def fronts(shared_cluster):
    return shared_cluster.coordinators


def name():
    return f"t-{uuid.uuid4()}"


def test_a_thread_has_one_box_whoever_is_asked(shared_cluster, fronts):
    one, two = fronts
    sessions = {}
    for _ in range(6):
        thread = name()
        sessions[thread] = one.create(thread)
        assert two.create(thread) == sessions[thread]
        reply = two.get(f"/get_session?thread_id={thread}")
        assert reply.status == 200 and reply.json["session_id"] == sessions[thread]
        one.stdout(sessions[thread], f"echo {thread} > f")
        assert two.stdout(sessions[thread], "cat f") == thread + "\n"
    workers = {two.get(f"/status/{session}").json["worker"] for session in sessions.values()}
    assert workers == {"w1", "w2"}, "new threads go to the least loaded"
    listed = two.get("/api/sessions?limit=1000").json
    assert {row["session_id"] for row in listed["sessions"]} >= set(sessions.values())
    assert {row["worker"] for row in listed["sessions"]} == {"w1", "w2"}
    for session in sessions.values():
        two.cleanup(session)
        assert one.try_execute(session, "true").status == 404
    for thread in sessions:
        assert one.get(f"/get_session?thread_id={thread}").status == 404
    assert not shared_cluster.redis.call("KEYS", "{tb}:t:*")


def test_the_wrong_worker_says_where_the_thread_is(shared_cluster, fronts):
    thread = name()
    session = fronts[0].create(thread)
    owner = shared_cluster.worker_of(session)
    other = next(worker for worker in shared_cluster.workers if worker is not owner)
    reply = other.post("/create_session", {"user_id": "u", "thread_id": thread})
    assert reply.status == 421, reply
    assert reply.json["worker"] == owner.settings["WORKER_ID"]
    assert reply.json["session_id"] == session
    fronts[0].cleanup(session)


def test_health_and_workers_are_told(shared_cluster, fronts):
    health = fronts[0].health()
    assert (health["status"], health["workers_total"], health["workers_healthy"]) == (
        "healthy", 2, 2)
    assert {row["url"] for row in health["workers"]} == {
        f"http://127.0.0.1:{worker.port}" for worker in shared_cluster.workers}
    rows = fronts[1].get("/cluster/workers").json["workers"]
    assert {row["worker"] for row in rows} == {"w1", "w2"}
    assert shared_cluster.workers[0].health()["redis_connected"] is True


def test_unknown_sessions_and_paths_are_refused_in_the_words_of_a_worker(fronts):
    front, = fronts[:1]
    reply = front.try_execute("7190db9a-e7c5-40f5-a3f5-49947e2bdb45", "true")
    assert reply.status == 404 and reply.json["error"] == "Invalid or expired session"
    assert front.get("/status/none").json["status"] == "not found"
    assert front.get("/nowhere").status == 404
    assert front.post("/execute", "{").status == 400
    assert front.get("/").json == {"message": "Sandbox System API"}
    refused = front.post("/execute", {"session_id": "x", "command": "(("})
    assert refused.status in (400, 404) and ":" in refused.reason, "the reason is passed on"


def test_files_of_any_size_pass_in_flat_memory(fronts):
    front, = fronts[:1]
    session = front.create(name())
    data = os.urandom(1 << 20) * 48
    before = resident(front)
    reply = front.upload(session, "big", data)
    assert reply.status == 200 and reply.json["size_bytes"] == len(data), reply
    assert front.stdout(session, "sha256sum big").split()[0] == hashlib.sha256(data).hexdigest()
    assert front.download(session, "big").body == data
    assert resident(front) - before < 16 << 20, "no body is held"
    head = front.request("HEAD", f"/api/sessions/{session}/files/content?path=big")
    assert (head.status, int(head.headers["Content-Length"])) == (200, len(data))
    part = front.get(f"/api/sessions/{session}/files/content?path=big",
                     headers={"Range": "bytes=5-9"})
    assert (part.status, part.body) == (206, data[5:10])
    front.cleanup(session)


def resident(server):
    status = read_text(f"/proc/{server.process.pid}/status")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def test_a_stream_comes_as_it_is_printed(fronts):
    front, = fronts[:1]
    session = front.create(name())
    connection = front.connect()
    connection.request("POST", "/execute", json.dumps(
        {"session_id": session, "stream": True,
         "command": "mkfifo gate; echo one; read -r x < gate; echo two"}))
    answer = connection.getresponse()
    while b"one" not in answer.readline():
        pass
    front.stdout(session, "echo go > gate")  # only now can it go on
    assert b"two" in answer.read()
    connection.close()
    front.cleanup(session)


def test_a_client_that_leaves_is_missed_by_the_worker(fronts):
    """`detach: false`: then its command ends."""
    front, = fronts[:1]
    session = front.create(name())
    connection = front.connect()
    connection.request("POST", "/execute", json.dumps(
        {"session_id": session, "stream": True, "detach": False, "timeout": 600,
         "command": "echo up; sleep 1000"}))
    answer = connection.getresponse()
    while b"up" not in answer.readline():
        pass
    answer.close()
    connection.close()
    row, = front.processes(session)
    assert front.wait_exited(session, row["process_id"])["cause"] == "killed"
    front.cleanup(session)


def test_a_list_is_of_all_workers_and_its_question_is_checked(fronts):
    front, = fronts[:1]
    refused = front.get("/api/sessions?limit=none")
    assert refused.status == 400 and "limit" in refused.json["error"], refused
    sessions = [front.create(name()) for _ in range(5)]
    page = front.get("/api/sessions?limit=2&offset=1").json
    assert (page["total"], page["limit"], page["offset"], len(page["sessions"])) == (5, 2, 1, 2)
    for session in sessions:
        front.cleanup(session)


def test_a_websocket_passes_both_ways(fronts):
    front, = fronts[:1]
    session = front.create(name())
    process = start(front, session, "cat; exit 3", stdin_open=True)
    data = bytes(range(256)) * 400
    with process.attach() as socket:
        socket.expect_told("attached")
        socket.send_binary(data)
        socket.until(lambda: len(socket.data) == len(data))
        assert socket.data == data
        socket.tell(type="stdin_close")
        assert socket.drain()[0] == 1000
        assert socket.told[-1]["exit_code"] == 3
    front.cleanup(session)


def test_a_body_that_names_its_session_too_late_is_refused(fronts):
    front, = fronts[:1]
    late = json.dumps({"command": "x" * (300 << 10), "session_id": "s"})
    reply = front.post("/execute", late)
    assert reply.status == 400 and "first 256 KiB" in reply.json["error"], reply


@pytest.mark.parametrize("waves", [1, pytest.param(25, marks=pytest.mark.long)])
def test_two_coordinators_create_the_same_threads_at_once(shared_cluster, fronts, waves):
    """Forty at a time."""
    asked = 0
    for _ in range(waves):
        threads = [name() for _ in range(40)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            jobs = [(thread, pool.submit(front.post, "/create_session",
                                         {"user_id": "u", "thread_id": thread}))
                    for thread in threads for front in fronts]
            replies = [(thread, job.result()) for thread, job in jobs]
        made = {}
        for thread, reply in replies:
            assert reply.status in (200, 409), reply
            made.setdefault(thread, set()).add(reply.json["session_id"])
        assert all(len(ids) == 1 for ids in made.values())
        live = shared_cluster.live()
        assert all(len(places) <= 1 for places in live.values()), live
        # Whose a box is, its keeper writes down a moment after the answer.
        wait_until(lambda: [len(shared_cluster.live()[thread]) for thread in threads] == [1] * len(
            threads), "each has one box")
        asked += len(replies)
        for ids in made.values():
            fronts[0].cleanup(ids.pop())
        wait_until(lambda: not shared_cluster.live(), "all are gone")
    print(f"{40 * waves} threads, {asked} requests, {40 * waves} sessions")


def test_a_list_names_the_workers_that_do_not_answer(make_cluster):
    cluster = make_cluster(workers=2)
    front = cluster.coordinators[0]
    sessions = [front.create(name()) for _ in range(4)]
    dead, alive = cluster.workers
    kept = [session for session in sessions if alive.exists(session)]
    dead.kill9()
    for _ in range(4):
        reply = front.get("/api/sessions")
        assert reply.status == 200, reply
        assert [row["session_id"] for row in reply.json["sessions"]] == kept
        assert reply.json.get("silent_workers", []) in ([], ["w1"]), "none: it was given up"
    alive.kill9()
    reply = front.get("/api/sessions")
    assert reply.status == 503 and reply.headers["Retry-After"], "nobody says who may see it"
