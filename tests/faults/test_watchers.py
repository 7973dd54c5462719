# SPDX-License-Identifier: Apache-2.0
"""Many watchers, much output, clients that misbehave, and long silence."""
import asyncio
import concurrent.futures
import contextlib
import hashlib
import json
import os
import statistics
import threading

import pytest

from live import start, stream
from websocket import BINARY, PING, TEXT, frame

SESSIONS, EACH, LINES = 50, 10, 40
MARK = 4  # lines of the median between two looks
# `read` waits without a process of its own.
COUNT = ("until [ -e go ]; do read -t 0.1; done; "
         "for i in {1..%d}; do echo $i; read -t 0.2; done; true")


class Watcher:
    """Follows a process by events; notes how far it has come."""

    def __init__(self, process):
        self.process, self.lines, self.exit = process, 0, None
        self.connected = asyncio.Event()

    async def watch(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.process.server.port,
                                                       limit=1 << 20)
        writer.write(f"GET {self.process.path}/output?stream=stdout HTTP/1.1\r\nHost: x\r\n"
                     "Accept: text/event-stream\r\n\r\n".encode())
        with contextlib.closing(writer):
            while self.exit is None:
                line = await reader.readline()
                assert line, "the stream ended too early"
                self.connected.set()
                if line.startswith(b"data: "):
                    self.take(json.loads(line[6:]))

    def take(self, event):
        if "data" not in event:
            self.exit = event["exit_code"]
            return
        for number in event["data"].split():
            assert int(number) == self.lines + 1, "a gap or a repetition"
            self.lines += 1


async def measure(watchers, begin):
    """Follows all. Returns, for each time that the median was four lines further, how many lines
    that and the slowest had come since all had their first one."""
    marks = []

    async def look():
        while not all(watcher.lines for watcher in watchers):
            await asyncio.sleep(0.02)
        base = [watcher.lines for watcher in watchers]
        while True:
            come = [watcher.lines - first for watcher, first in zip(watchers, base)]
            if statistics.median(come) >= (marks[-1][0] if marks else 0) + MARK:
                marks.append((statistics.median(come), min(come)))
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(watcher.watch()) for watcher in watchers]
    looking = asyncio.create_task(look())
    await asyncio.gather(*(watcher.connected.wait() for watcher in watchers))
    await asyncio.get_running_loop().run_in_executor(None, begin)
    await asyncio.gather(*tasks)
    looking.cancel()
    return marks


def test_of_five_hundred_live_processes_none_starves(start_server):
    """Not starved: whenever half of the watchers have come so far, the slowest has come at least a
    fifth of what they had a mark before; and all get every line, in order, and the end."""
    server = start_server(POOL_SIZE=SESSIONS, MAX_POOL_SIZE=2 * SESSIONS)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(lambda _: server.create(), range(SESSIONS)))
        places = [session for session in sessions for _ in range(EACH)]
        processes = list(pool.map(
            lambda session: start(server, session, COUNT % LINES, stdin_open=True), places))
        watchers = [Watcher(process) for process in processes]

        places = [f"/proc/{server.guest_pid(session)}/root/workspace/go" for session in sessions]

        def begin():
            for place in places:
                open(place, "w").close()

        marks = asyncio.run(asyncio.wait_for(measure(watchers, begin), 120))
    assert [watcher.exit for watcher in watchers] == [0] * SESSIONS * EACH
    assert {watcher.lines for watcher in watchers} == {LINES}
    assert len(marks) >= 5, marks
    assert all(slowest >= (median - MARK) / 5 for median, slowest in marks), marks


def test_a_hundred_watchers_of_one_process_get_the_same_bytes(server, session):
    process = start(server, session, "read x; head -c 300000 /dev/urandom | tee copy",
                    stdin_open=True)
    ready = threading.Barrier(101)

    def watch(_):
        with process.attach("?stream=stdout", timeout=60) as attached:
            attached.expect_told("attached")
            ready.wait(60)
            assert attached.drain()[0] == 1000
        return hashlib.md5(attached.data).hexdigest(), attached.told[-1]["type"]

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        results = [pool.submit(watch, number) for number in range(100)]
        ready.wait(60)
        process.write(b"\n")
        told = {result.result() for result in results}
    assert told == {(server.stdout(session, "md5sum copy").split()[0], "exit")}


def disk_use(folder):
    return sum(os.lstat(os.path.join(path, name)).st_blocks * 512
               for path, _, names in os.walk(folder) for name in names)


def test_a_gigabyte_of_output_takes_little_disk(start_server):
    server = start_server(OUTPUT_LIMIT_MB=8, CPU_QUOTA=100000)
    session = server.create()
    total = 1 << 30
    process = start(server, session, "head -c 1073741824 /dev/zero; echo over")
    process.wait_exited(60)
    row = process.show()
    assert (row["exit_code"], row["stdout_bytes"]) == (0, total + 5)
    assert disk_use(f"{server.state_dir}/output") < 9 << 20
    # The beginning is kept, and what comes after the gap says where it stands.
    kept = process.page(stream="stdout", offset=(8 << 20) - 10)
    assert int(kept.headers["X-Output-Offset"]) == (8 << 20) - 10 and len(kept.body) == 10
    page = process.page(stream="stdout", offset=8 << 20)
    begin = int(page.headers["X-Output-Offset"])
    assert begin > total // 2 and int(page.headers["X-Output-Total"]) == total + 5
    assert begin + len(page.body) == total + 5 and page.body.endswith(b"\0over\n")
    with process.follow(stream="stdout", last_id=8 << 20) as events:
        first = next(events)
    assert (first.data["offset"], first.data["dropped"]) == (begin, begin - (8 << 20))


@pytest.mark.parametrize("bytes_,code", [
    (frame(BINARY, b"x", masked=False), 1002),
    (frame(BINARY, b"x", reserved=4), 1002),
    (frame(3, b"x"), 1002),
    (frame(PING, b"x" * 126), 1002),
    (frame(TEXT, b"\xff\xfe"), 1007),
    (frame(BINARY, b"", length=1 << 62, form=64), 1009),
], ids=["unmasked", "reserved bit", "opcode", "long ping", "no text", "endless"])
def test_a_frame_that_nobody_may_send_ends_the_attachment_alone(server, session, bytes_, code):
    process = start(server, session, "cat", stdin_open=True)
    with process.attach() as attached, process.attach() as other:
        attached.expect_told("attached")
        attached.send_raw(bytes_)
        assert attached.drain()[0] == code
        other.send_binary(b"still here")
        other.expect(b"still here")


def test_pings_without_end_are_ended(server, session):
    process = start(server, session, "sleep 1000")
    with process.attach() as attached:
        attached.expect_told("attached")
        with contextlib.suppress(OSError):  # it may be closed before all are sent
            attached.send_raw(frame(PING, b"x") * 5000)
        code, reason = attached.drain()
        assert code == 1008 and "pings" in reason
    assert process.show()["state"] == "running"


def test_who_waits_long_sees_signs_of_life(server, session):
    """So that proxies keep a connection on which nothing is said."""
    process = start(server, session, "sleep 1000")

    def comment():
        with process.follow_raw() as answer:
            return answer.readline()

    def empty_line():
        with stream(server, session, "sleep 1000", timeout=60) as answer:
            answer.readline()
            return answer.readline()

    def ping():
        with process.attach(timeout=60) as attached:
            attached.expect_told("attached")
            return attached.receive_frame()[0]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        told = [pool.submit(wait) for wait in (comment, empty_line, ping)]
        assert [one.result() for one in told] == [b":\n", b"\n", PING]
