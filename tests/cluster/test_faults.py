# SPDX-License-Identifier: Apache-2.0
"""Workers and Redis die, stop and are cut off: a thread never has two live sandboxes."""
import contextlib
import http.client
import os
import signal
import threading
import time

import pytest

from cluster import LEASE
from redis_server import Wire
from server import wait_until


def live_count(cluster, threads):
    live = cluster.live()
    return [len(live[thread]) for thread in threads]


def wait_one_each(cluster, threads):
    """Each has one. On a busy machine a keeper that has not heard of its lease for a moment holds
    them still, and goes on with them."""
    wait_until(lambda: live_count(cluster, threads) == [1] * len(threads), "each has one box")


def create_until(front, thread, seconds=6 * LEASE):
    """As a client with patience does it."""
    def made():
        reply = front.post("/create_session", {"user_id": "u", "thread_id": thread})
        assert reply.status in (200, 409, 503), reply
        if reply.status == 503:
            assert reply.headers["Retry-After"]
            time.sleep(0.05)
            return None
        return reply.json["session_id"]
    return wait_until(made, f"{thread} has a session", seconds)


def threads_on(cluster, front, count):
    """Threads to sessions, some on each worker, each with a file and something that runs."""
    made = {}
    for index in range(count):
        thread = f"thread-{index}"
        made[thread] = front.create(thread)
        front.stdout(made[thread], f"echo {thread} > f; (while sleep 0.1; do date >> ticks; done) "
                                   "> /dev/null 2>&1 &")
    return made


def owned_by(cluster, worker, sessions):
    return {thread: one for thread, one in sessions.items() if cluster.worker_of(one) is worker}


def test_kill_9_of_a_worker_gives_its_threads_to_others(make_cluster):
    cluster = make_cluster(workers=2)
    front = cluster.coordinators[0]
    sessions = threads_on(cluster, front, 6)
    dead = cluster.workers[0]
    lost = owned_by(cluster, dead, sessions)
    assert lost and len(lost) < 6
    with cluster.watched() as seen:
        dead.kill9()
        died = time.monotonic()
        for thread, session in lost.items():
            wait_until(lambda: front.try_execute(session, "true").status == 404,
                       "the session answers 404", 4 * LEASE)
        print(f"404 after {time.monotonic() - died:.1f} s, leases of {LEASE} s")
        assert time.monotonic() - died < 2 * LEASE + 1
        for thread, session in lost.items():
            again = create_until(front, thread)
            assert again != session and cluster.worker_of(again) is cluster.workers[1]
        for thread, session in sessions.items():
            if thread not in lost:
                assert front.stdout(session, "cat f") == thread + "\n", "others go on"
        wait_one_each(cluster, sessions)
        dead.start()  # with its files: they are another's now
        wait_until(lambda: "session_moved" in dead.log(), "it has seen that", 4 * LEASE)
        wait_until(lambda: not any(dead.exists(session) for session in lost.values()),
                   "it has given them up", 4 * LEASE)
    assert not seen["doubles"]


@pytest.mark.long
def test_a_restarted_worker_keeps_what_nobody_took(make_cluster):
    cluster = make_cluster(workers=2)
    front = cluster.coordinators[0]
    sessions = threads_on(cluster, front, 4)
    worker = cluster.workers[0]
    mine = owned_by(cluster, worker, sessions)
    with cluster.watched() as seen:
        worker.kill9()
        worker.start()
        for thread, session in mine.items():
            wait_until(lambda: front.try_execute(session, "true").status == 200,
                       "its sessions are there again", 4 * LEASE)
            assert front.stdout(session, "cat f") == thread + "\n"
        assert "resumed=yes" in worker.log()
    assert not seen["doubles"]


def test_a_worker_that_was_stopped_comes_back_to_nothing(make_cluster):
    cluster = make_cluster(workers=2)
    front = cluster.coordinators[0]
    sessions = threads_on(cluster, front, 6)
    stopped = cluster.workers[1]
    lost = owned_by(cluster, stopped, sessions)
    with cluster.watched() as seen:
        os.kill(stopped.process.pid, signal.SIGSTOP)
        began = time.monotonic()
        made = {thread: create_until(front, thread) for thread in lost}
        for thread, session in made.items():
            assert cluster.worker_of(session) is cluster.workers[0]
        wait_one_each(cluster, sessions)
        time.sleep(max(0, began + 2 * LEASE - time.monotonic()))
        os.kill(stopped.process.pid, signal.SIGCONT)
        wait_until(lambda: "event=lease_lost" in stopped.log(), "it knows", 4 * LEASE)
        wait_until(lambda: not any(stopped.exists(old) for old in lost.values()),
                   "it has given all up", 4 * LEASE)
        for thread, session in made.items():
            front.stdout(session, "true")
        wait_one_each(cluster, sessions)
    assert not seen["doubles"]


def test_a_worker_cut_off_from_redis_loses_its_sandboxes(make_cluster):
    cluster = make_cluster(workers=1)
    wire = Wire(cluster.redis.port)
    with contextlib.closing(wire):
        cut = cluster.worker(REDIS_PORT=wire.port)
        front = cluster.coordinators[0]
        cluster.wait_open()
        sessions = threads_on(cluster, front, 6)
        lost = owned_by(cluster, cut, sessions)
        assert lost
        with cluster.watched() as seen:
            wire.cut()
            for thread, session in lost.items():
                wait_until(lambda: create_until(front, thread) != session,
                           "the thread has another session", 4 * LEASE)
            made = {thread: create_until(front, thread) for thread in lost}
            assert all(cluster.worker_of(one) is cluster.workers[0] for one in made.values())
            reply = cut.try_execute(next(iter(lost.values())), "true")
            assert reply.status in (503, 404), reply
            wire.join()
            wait_until(lambda: cut.health()["redis_connected"], "it is back", 4 * LEASE)
            wait_until(lambda: not any(cut.exists(old) for old in lost.values()),
                       "it has given all up", 4 * LEASE)
            wait_one_each(cluster, sessions)
        assert not seen["doubles"]


@pytest.mark.parametrize("keep", [pytest.param(True, marks=pytest.mark.long), False],
                         ids=["with its data", "without"])
def test_redis_dies_and_comes_back(make_cluster, keep):
    cluster = make_cluster(keep=keep, workers=2)
    front = cluster.coordinators[0]
    sessions = threads_on(cluster, front, 4)
    unknown = cluster.coordinator()  # has no session in mind
    with cluster.watched() as seen:
        cluster.redis.kill()
        ends = time.monotonic() + 2 * LEASE
        while time.monotonic() < ends:
            for thread, session in sessions.items():
                assert front.stdout(session, "cat f") == thread + "\n", "workers go on"
                assert unknown.stdout(session, "cat f") == thread + "\n"
            reply = front.post("/create_session", {"user_id": "u", "thread_id": "new"})
            assert reply.status == 503 and reply.headers["Retry-After"], reply
            assert front.create("thread-1") == sessions["thread-1"], "known threads are found"
        cluster.redis.start()
        back = time.monotonic()
        new = create_until(front, "new")
        print(f"a new thread {time.monotonic() - back:.1f} s after Redis, leases of {LEASE} s")
        assert time.monotonic() - back > LEASE, "creation waits for a lease"
        for thread, session in sessions.items():
            assert create_until(front, thread) == session
            assert front.stdout(session, "cat f") == thread + "\n"
            assert cluster.redis.call("GET", "{tb}:t:%s" % thread), "the directory is rebuilt"
            assert cluster.redis.call("GET", "{tb}:s:%s" % session)
        assert sorted(live_count(cluster, [*sessions, "new"])) == [1] * 5
        assert front.stdout(new, "echo hi") == "hi\n"
    assert not seen["doubles"]


@pytest.mark.long
def test_redis_emptied_in_place_is_filled_again(make_cluster):
    cluster = make_cluster(workers=2)
    front = cluster.coordinators[0]
    sessions = threads_on(cluster, front, 4)
    with cluster.watched() as seen:
        cluster.redis.call("FLUSHALL")
        wait_until(lambda: all(cluster.redis.call("GET", "{tb}:t:%s" % t) for t in sessions),
                   "all threads are known again", 4 * LEASE)
        for thread, session in sessions.items():
            assert create_until(front, thread) == session
            assert front.stdout(session, "cat f") == thread + "\n"
    assert not seen["doubles"]


def test_a_load_goes_on_while_a_worker_dies(make_cluster):
    """Clients as the SDK: 404 means to create again, 503 to wait."""
    cluster = make_cluster(workers=2)
    front = cluster.coordinators[0]
    stop, counts, wrong = threading.Event(), [], []

    def client(index):
        thread, session, done = f"load-{index}", None, 0
        while not stop.is_set():
            try:
                if not session:
                    session = create_until(front, thread)
                reply = front.try_execute(session, f"echo {thread}")
            except (OSError, http.client.HTTPException):
                continue
            if reply.status == 404:
                session = None
            elif reply.status == 200:
                done += 1
                if reply.json["exit_code"] == 0 and reply.json["stdout"] != thread + "\n":
                    wrong.append(reply)
            elif reply.status != 503:
                wrong.append(reply)
            else:
                time.sleep(0.05)
        counts.append(done)
    clients = [threading.Thread(target=client, args=(index,)) for index in range(8)]
    with cluster.watched() as seen:
        for one in clients:
            one.start()
        wait_until(lambda: len(cluster.live()) == 8, "all have a sandbox", 4 * LEASE)
        dead = cluster.workers[0]
        dead.kill9()
        wait_until(lambda: "event=worker_reaped" in cluster.workers[1].log(), "it is reaped",
                   4 * LEASE)
        wait_until(lambda: sum(live_count(cluster, [f"load-{i}" for i in range(8)])) == 8,
                   "all have a sandbox again", 4 * LEASE)
        stop.set()
        for one in clients:
            one.join()
        dead.start()
    print(f"{sum(counts)} commands, {len(wrong)} wrong answers")
    assert not wrong and all(counts) and not seen["doubles"]
