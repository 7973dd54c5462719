# SPDX-License-Identifier: Apache-2.0
"""Mixed load for as long as ./test --soak says: every answer is checked, and at the end the server
holds what it held at the beginning."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import socket
import time

import pytest

import census

POOL, WORKERS = 4, 6
# A shorter try tells nothing about memory: the allocator is still finding its size.
ENOUGH_FOR_MEMORY = 300


def short(server, session, choose):
    number = choose.randrange(256)
    told = server.execute(session, f"echo {number}; echo e{number} >&2; exit {number % 100}")
    assert (told["stdout"], told["stderr"]) == (f"{number}\n", f"e{number}\n")
    assert told["exit_code"] == number % 100


def long_output(server, session, choose):
    lines = choose.randrange(1000, 60000)
    told = server.execute(session, f"seq {lines}")
    assert server.output(session, told["process_id"]) == \
        "".join(f"{i}\n" for i in range(1, lines + 1)).encode()


def files(server, session, choose):
    data = os.urandom(choose.randrange(1, 500_000))
    name = f"f{choose.randrange(20)}"
    assert server.upload(session, name, data).status == 200
    assert server.download(session, name).body == data
    digest = server.stdout(session, f"sha256sum {name}").split()[0]
    assert digest == hashlib.sha256(data).hexdigest()
    listed = server.get(f"/list_files?session_id={session}").json
    assert name in {one["name"] for one in listed["files"]}


def out_of_time(server, session, _):
    told = server.execute(session, "echo begun; sleep 60", timeout=1)
    assert told["timed_out"] and told["stdout"] == "begun\n"


def left_running(server, session, _):
    """Ends with its session."""
    assert server.stdout(session, "sleep 1000 > /dev/null 2>&1 & echo started") == "started\n"


def refused(server, session, _):
    assert server.try_execute(session, "").status == 400
    assert server.get("/list_files?session_id=nobody").status == 404


def hung_up(server, session, choose):
    """A client that goes away in the middle, sometimes of its request."""
    body = json.dumps({"session_id": session, "command": "seq 100000", "stream": True}).encode()
    request = (b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        client.sendall(request[:choose.randrange(1, len(request) + 1)])
        if choose.random() < 0.5:
            client.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                client.recv(1000)


def another_session(server, _, choose):
    session = server.create(f"soak-{choose.getrandbits(64):x}")
    assert server.stdout(session, "echo hello > f; cat f") == "hello\n"
    server.cleanup(session)
    assert not server.exists(session)


STEPS = [(short, 12), (long_output, 2), (files, 4), (out_of_time, 1), (left_running, 1),
         (refused, 1), (hung_up, 2), (another_session, 4)]


def work(server, index, deadline):
    """Until the deadline; how many steps of each kind."""
    choose = random.Random(int(os.environ.get("THREADBOX_SEED", "1")) * 1000 + index)
    counts, session = {}, None
    kinds, weights = zip(*STEPS)
    while time.monotonic() < deadline:
        if session is None:
            session = server.create()
        step = choose.choices(kinds, weights)[0]
        step(server, session, choose)
        counts[step.__name__] = counts.get(step.__name__, 0) + 1
        if choose.random() < 0.02:
            server.cleanup(session)
            session = None
    if session:
        server.cleanup(session)
    return counts


def load(server, seconds):
    deadline = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        jobs = [pool.submit(work, server, index, deadline) for index in range(WORKERS)]
        done = [job.result() for job in jobs]
    return {step.__name__: sum(one.get(step.__name__, 0) for one in done) for step, _ in STEPS}


@pytest.mark.mixed_load
def test_mixed_load_leaves_nothing_behind(start_server, pytestconfig):
    seconds = pytestconfig.getoption("--soak")
    server = start_server(POOL_SIZE=POOL, MIN_POOL_SIZE=POOL, PRESTART_SECONDS=2,
                          LOG_LEVEL="warning")
    load(server, max(seconds / 10, 3))
    before, memory_before = census.settled(server, POOL), census.memory_kib(server)
    done = load(server, seconds)
    after, memory_after = census.settled(server, POOL), census.memory_kib(server)
    print(f"\n{done}\nheld {before} → {after}\nmemory in KiB {memory_before} → {memory_after}")
    assert all(done.values()), done
    assert not census.left(before, after)
    if seconds >= ENOUGH_FOR_MEMORY:
        for who, kib in memory_after.items():
            assert kib <= 1.1 * memory_before[who], who
