# SPDX-License-Identifier: Apache-2.0
"""What is left of many commands and many sessions: nothing may be, and the memory stays."""
import concurrent.futures

import place
from client import Threadbox

import census

WORKERS = POOL = 4
SETTINGS = {"POOL_SIZE": str(POOL), "MIN_POOL_SIZE": str(POOL), "PRESTART_SECONDS": "2"}


def work(port, commands, sessions):
    """One worker's share: sessions that come and go, and the commands spread over them."""
    client = Threadbox(port)
    kept = client.create()
    each = commands // max(sessions, 1)
    for number in range(sessions):
        session = client.create()
        client.execute(session, "echo hello > f")
        client.cleanup(session)
        for _ in range(each - 1):
            client.execute(kept, f"echo {number}")
    client.cleanup(kept)
    client.close()


def load(port, commands, sessions):
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        jobs = [pool.submit(work, port, commands // WORKERS, max(sessions // WORKERS, 1))
                for _ in range(WORKERS)]
        for job in jobs:
            job.result()


def run(measured, options):
    with place.connected(**SETTINGS) as (server, client):
        client.close()
        load(server.port, max(options.commands // 20, 40), max(options.churn // 20, 8))
        before, memory_before = census.settled(server, POOL), census.memory_kib(server)
        load(server.port, options.commands, options.churn)
        after, memory_after = census.settled(server, POOL), census.memory_kib(server)
        for who in ("server", "keeper"):
            measured.add(f"{who} memory before", memory_before[who], "KiB")
            measured.add(f"{who} memory after", memory_after[who], "KiB")
        left = census.left(before, after)
        measured.add("things left", sum(max(after[kind] - before[kind], 0) for kind in after),
                     "things")
        measured.details["left"] = left
        for line in left:
            measured.say(f"left: {line}")
