# SPDX-License-Identifier: Apache-2.0
"""Limits hold for all workers of a cluster together, and without Redis for each of them."""
import pathlib
import re
import shutil
import time

import pytest

from cluster import LEASE, Cluster
from redis_server import Redis
from server import wait_until

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src" / "cluster" / "shared_limits.cpp"
REQUESTS = "{tb}:limit:requests:tenant\n"
HELD = "{tb}:held:tenant\n"
INTERVAL = LEASE / 5


@pytest.fixture
def workers_with(binary):
    """A cluster of two workers with these settings; its requests are all the test's own."""
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    made = []

    def make(**settings):
        made.append(Cluster(**settings))
        for _ in range(2):
            made[-1].worker()

        def ready():
            state = made[-1].redis.call("GET", "{tb}:run") or ""
            rows = made[-1].redis.call("HVALS", "{tb}:workers")
            return state.endswith(" open") and len(rows) == 2 and all(
                int(row.split()[5]) > 0 for row in rows)
        wait_until(ready, "both workers take sessions", 10 * LEASE)
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def redis():
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    one = Redis(keep=False).start()
    one.script = re.search(r'R"\((.*?)\)"', SOURCE.read_text(), re.S)[1]
    yield one
    one.close()


def left(cluster, key=REQUESTS, most=None):
    """What Redis says is left of a bucket; `most` while nobody has taken anything."""
    text = cluster.redis.call("GET", key)
    return float(text.split()[0]) if text else most


def ask(worker):
    return worker.get("/api/sessions").status


def try_create(worker):
    return worker.post("/create_session", {"user_id": "u"})


def passed_until_refused(worker):
    """How many requests get through before one is refused."""
    passed = 0

    def refused():
        nonlocal passed
        status = ask(worker)
        passed += status == 200
        if status == 200:
            time.sleep(INTERVAL / 2)  # a worker that knows of nobody else goes on as fast as this
        return status == 429
    wait_until(refused, "requests are refused")
    return passed


def test_what_one_worker_has_given_another_does_not_give_again(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="requests=40/h")
    one, two = cluster.workers
    assert [ask(one) for _ in range(41)] == [200] * 40 + [429]
    wait_until(lambda: left(cluster, most=40) < 1, "the first one has told")
    assert passed_until_refused(two) < 10
    assert two.get("/api/sessions").headers["RateLimit-Remaining"] == "0"
    wait_until(lambda: left(cluster) < 0, "what was too much is a debt")


def test_requests_to_both_come_out_of_one_bucket(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="requests=40/h")
    for _ in range(10):
        assert [ask(worker) for worker in cluster.workers] == [200, 200]
    wait_until(lambda: 19.9 < left(cluster) < 21, lambda: f"20 of 40 are left: {left(cluster)}")


def test_sessions_are_counted_wherever_they_are(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="sessions=3")
    one, two = cluster.workers
    first = [one.create() for _ in range(2)]
    wait_until(lambda: cluster.redis.call("HGET", HELD, "w1"), "the first one has told")

    def refused():
        reply = try_create(two)
        if reply.status == 200:
            made.append(reply.json["session_id"])
            if len(made) > 1:
                two.cleanup(made.pop())
        return reply.status == 429 and "sessions of this tenant" in reply.json["error"]
    made = []
    wait_until(refused, "the fourth one is refused")
    assert len(made) == 1
    # Told again and again, for longer than it would be remembered.
    deadline = time.monotonic() + 1.5 * LEASE
    while time.monotonic() < deadline:
        assert try_create(two).status == 429
        time.sleep(INTERVAL)
    one.cleanup(first.pop())
    wait_until(lambda: try_create(two).status == 200, "what was given back is there for the other")


def test_what_a_dead_worker_held_is_free_again(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="sessions=1")
    one, two = cluster.workers
    one.create()
    wait_until(lambda: cluster.redis.call("HGET", HELD, "w1"), "it has told")

    def refused():
        reply = try_create(two)
        if reply.status == 200:
            two.cleanup(reply.json["session_id"])
        return reply.status == 429
    wait_until(refused, "the other one knows")
    one.kill9()
    one.kill9_keeper()
    wait_until(lambda: try_create(two).status == 200, "its place is free", 10 * LEASE)
    one.start()  # and takes away what is left


def test_sessions_that_were_there_before_count_elsewhere_too(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="sessions=5")
    one = cluster.workers[0]
    one.create()
    wait_until(lambda: cluster.redis.call("HGET", HELD, "w1"), "it has told")
    one.restart()
    cluster.redis.call("DEL", HELD)
    held = wait_until(lambda: cluster.redis.call("HGET", HELD, "w1"), "it tells again")
    assert held.split()[:2] == ["1", "0"]


def test_without_redis_each_worker_has_its_own_limits(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="requests=40/h")
    one = cluster.workers[0]
    assert ask(one) == 200
    cluster.redis.kill()
    assert [ask(one) for _ in range(40)] == [200] * 39 + [429]
    cluster.redis.start()
    assert ask(one) == 429
    # An empty Redis gives nobody back what is used up.
    cluster.redis.call("DEL", REQUESTS)
    assert ask(one) == 429


def test_a_request_costs_no_redis(workers_with):
    cluster = workers_with(LIMITS_PER_TENANT="requests=1000000/h,sessions=10,processes=10",
                           LIMITS_PER_USER="requests=1000000/h")
    one = cluster.workers[0]
    session = one.create()

    def commands():
        text = one.get("/metrics").body.decode()
        return float(re.search(r"^threadbox_cluster_redis_commands (\S+)", text, re.M)[1])
    before, began = commands(), time.monotonic()
    for _ in range(300):
        assert one.stdout(session, "echo x") == "x\n"
    beats = (time.monotonic() - began) / INTERVAL + 2
    # One of the lease, one of the limits; and those that begin a connection or load a script.
    assert commands() - before <= 2 * beats + 8


def test_without_limits_nothing_is_shared(workers_with):
    cluster = workers_with()
    one = cluster.workers[0]
    one.cleanup(one.create())
    keys = cluster.redis.call("KEYS", "{tb}:*")
    assert not [key for key in keys if "limit" in key or "held" in key]


# ---- The script ----

def bucket(redis, key, most, window, taken, ago=0):
    said = redis.call("EVAL", redis.script, 1, key, "w", 1000, 1, most, window, taken, ago)
    return float(said[0])


def hold(redis, worker, sessions, processes, life=60000):
    return [int(one) for one in redis.call("EVAL", redis.script, 1, "{tb}:h", worker, life, 0,
                                           sessions, processes)]


HOUR = 3600 * 1000


def test_a_bucket_takes_what_all_take_and_keeps_debts(redis):
    assert bucket(redis, "{tb}:a", 10, HOUR, 4) == 6
    assert 6 - 8 <= bucket(redis, "{tb}:a", 10, HOUR, 8) < -1.9
    assert -12 <= bucket(redis, "{tb}:a", 10, HOUR, 10) < -11.9
    assert redis.call("PTTL", "{tb}:a") > 2 * HOUR


def test_what_comes_back_while_it_is_taken_is_not_lost(redis):
    # 100 taken over an hour in which 100 come back.
    assert bucket(redis, "{tb}:b", 100, HOUR, 100, HOUR) == 100
    assert bucket(redis, "{tb}:b", 100, HOUR, 100) < 0.1
    # It was known a moment ago how much there is: more can't have come back since.
    assert bucket(redis, "{tb}:b", 100, HOUR, 10, HOUR) < -9.9


def test_nonsense_in_a_bucket_is_survived(redis):
    redis.call("SET", "{tb}:c", "50 99999999999999")  # of a clock that was ahead
    assert bucket(redis, "{tb}:c", 10, HOUR, 1) == 9
    assert bucket(redis, "{tb}:c", 5, HOUR, 1) == 4  # the limit was made smaller


def test_counts_are_those_of_others_that_live(redis):
    assert hold(redis, "w1", 2, 1) == [0, 0]
    assert hold(redis, "w2", 1, 5) == [2, 1]
    assert hold(redis, "w1", 3, 0) == [1, 5]
    assert hold(redis, "w2", 0, 0) == [3, 0]
    assert hold(redis, "w1", 0, 0) == [0, 0]
    assert redis.call("EXISTS", "{tb}:h") == 0
    redis.call("HSET", "{tb}:h", "dead", "7 7 1")
    assert hold(redis, "w1", 1, 0) == [0, 0]
    assert redis.call("HKEYS", "{tb}:h") == ["w1"]
