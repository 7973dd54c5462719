# SPDX-License-Identifier: Apache-2.0
"""Clocks, slow lines, full disks, and programs that end at bad moments."""
import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from cluster import LEASE, Cluster
from redis_server import Redis, Wire, free_port
from server import Server, wait_until
from test_faults import create_until, owned_by, threads_on, wait_one_each

HOUR = 3600


class Shifted(Server):
    """In a time namespace of its own: its clocks are an hour ahead of all others."""

    ahead = HOUR

    def spawn(self, *arguments, **options):
        words = ["unshare", "-T", "--boottime", str(self.ahead), "--monotonic", str(self.ahead)]
        return subprocess.Popen([*(words if self.ahead else []), self.binary, *arguments],
                                env=self.environment(), stdin=subprocess.DEVNULL, **options)


def need_time_namespaces():
    tried = subprocess.run(["unshare", "-T", "--boottime", "60", "true"], capture_output=True)
    if tried.returncode != 0:
        pytest.skip("this kernel has no time namespaces")


def test_clocks_an_hour_apart(make_cluster):
    """Each goes by its own, and only by how much of it has passed."""
    need_time_namespaces()
    cluster = make_cluster(workers=1)
    front = cluster.coordinators[0]
    ahead = cluster.worker(kind=Shifted)
    cluster.wait_open()
    sessions = threads_on(cluster, front, 4)
    lost = owned_by(cluster, ahead, sessions)
    assert lost
    with cluster.watched() as seen:
        for thread, session in sessions.items():
            assert front.stdout(session, "cat f") == thread + "\n"
        # Now its clock steps: the server is started in another time than its keeper.
        ahead.kill9()
        ahead.ahead = 2 * HOUR
        ahead.start()
        os.kill(ahead.process.pid, signal.SIGSTOP)
        began = time.monotonic()
        made = {thread: create_until(front, thread) for thread in lost}
        print(f"taken over after {time.monotonic() - began:.1f} s, leases of {LEASE} s")
        assert all(cluster.workers[0].exists(session) for session in made.values())
        wait_one_each(cluster, sessions)
        os.kill(ahead.process.pid, signal.SIGCONT)
        wait_until(lambda: not any(ahead.exists(old) for old in lost.values()),
                   "it has given all up", 6 * LEASE)
        wait_one_each(cluster, sessions)
    assert not seen["doubles"]


def test_the_clock_of_redis_steps_by_an_hour(binary):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    cluster = Cluster(redis=Redis(clock=True))
    try:
        front = cluster.start(workers=2).coordinators[0]
        sessions = threads_on(cluster, front, 4)
        numbers = []
        with cluster.watched() as seen:
            for step in (HOUR, 0, -HOUR, 0):
                cluster.redis.step(step)
                wait_until(lambda: abs(int(cluster.redis.call("TIME")[0]) - time.time() - step) < 9,
                           "Redis has another time")
                session = create_until(front, f"new {step}")
                entry = cluster.redis.call("GET", "{tb}:t:new %d" % step)
                numbers.append(int(entry.split()[2]))
                front.cleanup(session)
                for thread, session in sessions.items():
                    assert create_until(front, thread) == session
                    assert front.stdout(session, "cat f") == thread + "\n"
        assert numbers == sorted(set(numbers)), "a later claim has a higher number"
        assert not seen["doubles"]
    finally:
        cluster.close()


@pytest.mark.parametrize("lease", [LEASE, pytest.param(10, marks=pytest.mark.long)])
def test_redis_is_slow(binary, lease):
    """A second late: within leases of ten seconds that is all; within shorter ones it is as if it
    were not there."""
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    cluster = Cluster(CLUSTER_LEASE_MS=int(lease * 1000))
    wire = Wire(cluster.redis.port)
    cluster.more["REDIS_PORT"] = wire.port
    try:
        front = cluster.start(workers=2).coordinators[0]
        sessions = threads_on(cluster, front, 4)
        refused = made = right = 0
        with cluster.watched() as seen:
            wire.delay = 1
            ends = time.monotonic() + 2 * lease
            while time.monotonic() < ends:
                for thread, session in sessions.items():
                    assert front.stdout(session, "cat f") == thread + "\n", "workers go on"
                    right += 1
                reply = front.post("/create_session", {"user_id": "u", "thread_id": f"n-{made}"})
                assert reply.status in (200, 503), reply
                made += reply.status == 200
                refused += reply.status == 503
            wire.delay = 0
            back = time.monotonic()
            create_until(front, "after")
            took = time.monotonic() - back
            for thread, session in sessions.items():
                assert create_until(front, thread) == session
        print(f"{right} right answers, {made} sessions made and {refused} refused while Redis was "
              f"slow; as ever after {took:.1f} s, leases of {lease} s")
        assert took < 2 * lease and not seen["doubles"]
        assert made if lease == 10 else refused
    finally:
        wire.close()
        cluster.close()


def fill(place):
    with contextlib.suppress(OSError), open(f"{place}/filling", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_the_disk_of_a_worker_is_full(make_cluster):
    cluster = make_cluster(workers=1)
    front = cluster.coordinators[0]
    place = None
    with contextlib.ExitStack() as stack:
        def mount(server):
            nonlocal place
            place = f"{server.state_dir}/store"
            os.chmod(server.state_dir, 0o755)
            os.mkdir(place)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=True)
            stack.callback(subprocess.run, ["umount", "-l", place], check=True)
        full = cluster.worker(before=mount)
        cluster.wait_open()
        sessions = threads_on(cluster, front, 4)
        with cluster.watched() as seen:
            fill(place)
            began = time.monotonic()
            new = [create_until(front, f"new-{i}-{'x' * 400}") for i in range(30)]
            wait_until(lambda: full.health()["status"] == "degraded", "it notices")
            more = [create_until(front, f"more-{i}") for i in range(8)]
            print(f"38 sessions made in {time.monotonic() - began:.1f} s while a disk was full")
            assert all(cluster.workers[0].exists(one) for one in more), "where there is room"
            for thread, session in sessions.items():
                assert front.stdout(session, "cat f") == thread + "\n", "what is there goes on"
            for session in new:
                assert front.stdout(session, "echo hi") == "hi\n"
            os.unlink(f"{place}/filling")
            wait_until(lambda: full.health()["status"] == "healthy", "it has healed")
        assert not seen["doubles"]
        full.stop()
        stack.close()


def test_a_coordinator_dies_between_create_and_answer(binary):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    cluster = Cluster()
    wires = []

    def behind_a_wire(server):
        """Its answers can be held back on their way to the coordinators."""
        server.settings["PORT"] = str(free_port())
        wires.append(Wire(int(server.settings["PORT"])))
        server.settings["ADVERTISE_URL"] = f"http://127.0.0.1:{wires[-1].port}"

    try:
        for _ in range(2):
            cluster.worker(before=behind_a_wire)
        doomed, other = cluster.coordinator(), cluster.coordinator()
        cluster.wait_open()
        same = 0
        with cluster.watched() as seen:
            for attempt in range(3):
                thread, failed = f"thread-{attempt}", threading.Event()

                def ask():
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        doomed.create(thread)
                        return
                    failed.set()
                for wire in wires:
                    wire.passing.clear()
                client = threading.Thread(target=ask)
                client.start()
                made, = wait_until(lambda: cluster.live().get(thread), "a worker has made it")
                doomed.kill9()
                client.join()
                assert failed.is_set(), "the client has heard of nothing"
                for wire in wires:
                    wire.passing.set()
                same += other.create(thread) == made[1]
                wait_one_each(cluster, [thread])
                doomed.start()
        print(f"3 answers lost, {same} times the thread had its session when asked again")
        assert same == 3 and not seen["doubles"]
    finally:
        for wire in wires:
            wire.close()
        cluster.close()


class Client:
    """As the SDK: 404 means to create again, 503 to wait. Each command leaves a line in its
    session, so that what was done can be counted there."""

    def __init__(self, fronts, name, stop):
        self.fronts, self.thread, self.stop = fronts, name, stop
        self.done = self.moved = self.waited = 0
        self.wrong, self.session, self.lines = [], None, set()
        self.at_work = threading.Thread(target=self.work)
        self.at_work.start()

    def work(self):
        number = 0
        while not self.stop.is_set():
            front = self.fronts[number % len(self.fronts)]
            number += 1
            try:
                if not self.session:
                    self.session, self.lines = create_until(front, self.thread, 60), set()
                word = f"{self.thread}-{number}"
                reply = front.try_execute(self.session, f"echo {word} >> done; echo {word}")
            except (OSError, http.client.HTTPException):
                continue
            if reply.status == 404:
                self.session, self.moved = None, self.moved + 1
            elif reply.status == 200:
                result = reply.json
                if result["exit_code"] == 0:
                    self.done += 1
                    self.lines.add(word)
                    if result["stdout"] != word + "\n":
                        self.wrong.append(result)
            elif reply.status == 503:
                self.waited += 1
                time.sleep(0.05)
            else:
                self.wrong.append(reply)

    def lost(self):
        """What was answered, and is not there: a session that forgot what it had done."""
        there = set(self.fronts[0].stdout(self.session, "cat done").split())
        return self.lines - there


@pytest.mark.parametrize("workers,count", [(2, 8), pytest.param(3, 50, marks=pytest.mark.long)])
def test_all_workers_are_restarted_under_load(binary, workers, count):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    lease = 2 * LEASE
    cluster = Cluster(CLUSTER_LEASE_MS=int(lease * 1000))
    stop = threading.Event()
    try:
        cluster.start(workers=workers, coordinators=2)
        with cluster.watched() as seen:
            clients = [Client(cluster.coordinators, f"load-{i}", stop) for i in range(count)]
            try:
                wait_until(lambda: all(one.done for one in clients), "all are at work", 60)
                for worker in cluster.workers:
                    worker.settings["PORT"] = str(worker.port)
                    worker.terminate()
                    worker.start()
                    wait_until(lambda: worker.health()["redis_connected"], "it is back", 4 * lease)
                    before = {one: one.done for one in clients}
                    back = time.monotonic()
                    wait_until(lambda: all(one.done > before[one] for one in clients),
                               "all go on", 60)
                    print(f"all {count} go on {time.monotonic() - back:.1f} s after a restart")
                    assert time.monotonic() - back < 2 * lease + 2
            finally:
                stop.set()
                for one in clients:
                    one.at_work.join()
            lost = set().union(*(one.lost() for one in clients if one.session))
        wrong = [one for client in clients for one in client.wrong]
        print(f"{workers} workers restarted under {count} sessions: "
              f"{sum(one.done for one in clients)} commands, {len(wrong)} wrong answers, "
              f"{len(lost)} lost, {sum(one.moved for one in clients)} sessions made again, "
              f"{sum(one.waited for one in clients)} times told to wait")
        assert not wrong and not lost and not seen["doubles"]
        assert not any(one.moved for one in clients), "a restart takes no session away"
    finally:
        cluster.close()
