# SPDX-License-Identifier: Apache-2.0
"""What sessions and commands cost Redis, measured."""
import shutil
import socket
import uuid

import pytest

from redis_server import Redis, encode, read_reply

MOST_BYTES = 600
MOST_OPERATIONS = 0.05


def memory(redis):
    return int(redis.call("INFO", "memory").split("used_memory:")[1].split()[0])


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_session_takes_at_most_600_bytes(count):
    """As src/cluster writes them: thread and session are UUIDs."""
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    redis = Redis(keep=False).start()
    try:
        before = memory(redis)
        wire = socket.create_connection(("127.0.0.1", redis.port))
        stream = wire.makefile("rb")
        for start in range(0, count, 5000):
            batch = []
            for number in range(start, start + 5000):
                thread, session = uuid.uuid4(), uuid.uuid4()
                entry = f"worker-17 0123abcd-0123-0123 {1763230000000 + number} {session}"
                batch += [encode("SET", f"{{tb}}:t:{thread}", entry, "PX", 604800000),
                          encode("SET", f"{{tb}}:s:{session}", "worker-17", "PX", 604800000)]
            wire.sendall(b"".join(batch))
            for _ in batch:
                read_reply(stream)
        each = (memory(redis) - before) / count
        print(f"{count} sessions: {each:.0f} bytes each")
        assert each <= MOST_BYTES
    finally:
        redis.close()


def operations(redis):
    """Commands of clients; what a script calls is no operation of its own here."""
    text = redis.call("INFO", "commandstats")
    rows = {line.split(":")[0][8:]: int(line.split("calls=")[1].split(",")[0])
            for line in text.splitlines() if line.startswith("cmdstat_")}
    inside = {"hget", "hset", "hgetall", "incr", "hdel", "time"}
    return sum(n for name, n in rows.items() if name not in inside | {"info", "get", "set", "del"})


def test_a_command_takes_no_operation(shared_cluster):
    """Only the leases of the workers are renewed meanwhile, whatever the number of commands."""
    front = shared_cluster.coordinators[0]
    session = front.create(f"t-{uuid.uuid4()}")
    redis = shared_cluster.redis
    front.stdout(session, "true")
    gets = int(redis.call("INFO", "commandstats").split("cmdstat_get:calls=")[1].split(",")[0])
    renewals = operations(redis)
    for _ in range(200):
        front.stdout(session, "true")
    renewals = operations(redis) - renewals
    more = int(redis.call("INFO", "commandstats").split("cmdstat_get:calls=")[1].split(",")[0])
    # Each renewal reads two keys inside of its script.
    lookups = more - gets - 2 * renewals
    print(f"200 commands: {renewals} operations of leases, {lookups} lookups")
    assert lookups <= 200 * MOST_OPERATIONS
    front.cleanup(session)
