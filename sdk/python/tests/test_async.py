# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client: the same, in an event loop."""

import asyncio
import pathlib
import subprocess
import sys
import threading

import pytest
import requests
from live import people
from server import wait_until

from threadbox import (
    AsyncBatchSandboxClient,
    AsyncSandboxClient,
    Exited,
    Output,
    SessionExpiredError,
)


def test_a_conversation(in_loop, tmp_path):
    async def test(client):
        await client.execute("echo kept > file")
        assert (await client.execute("cat file"))["stdout"] == "kept\n"
        (tmp_path / "a.txt").write_text("up")
        assert (await client.upload_file(tmp_path / "a.txt"))["size_bytes"] == 2
        await client.upload_file_from_bytes("b.txt", b"bytes")
        path = await client.download_file("b.txt", tmp_path / "down")
        assert (tmp_path / "down").read_bytes() == b"bytes" and path == str(tmp_path / "down")
        assert (await client.list_files())["total_files"] == 3

    in_loop(test)


def test_errors_are_the_same(server, in_loop):
    async def test(client):
        server.cleanup(client.session_id)
        with pytest.raises(SessionExpiredError) as caught:
            await client.execute("true", auto_retry=False)
        assert isinstance(caught.value, requests.HTTPError)
        assert (await client.execute("echo again"))["stdout"] == "again\n"
        with pytest.raises(FileNotFoundError):
            await client.download_file_to_bytes("none")
        with pytest.raises(ValueError, match="Empty command"):
            await client.execute("")

    in_loop(test)


def test_commands_run_at_the_same_time_without_threads(in_loop):
    async def test(client):
        before = threading.active_count()
        # Each waits for all others: one after another would never end.
        meet = "touch in$N; until [ $(ls in* | wc -l) = 8 ]; do sleep 0.02; done; echo $N"
        running = asyncio.gather(
            *(client.execute(meet, env={"N": str(n)}, timeout=60) for n in range(8)))
        results = await running
        assert threading.active_count() == before
        return [one["stdout"].strip() for one in results]

    assert in_loop(test) == [str(n) for n in range(8)]


def test_tasks_with_sessions_of_their_own_do_not_mix(url, thread):
    async def converse(client, number):
        for turn in range(4):
            await client.get_or_create_session("u", f"{thread}-{number}")
            await client.execute(f"echo {number} >> mine")
            said = (await client.execute("cat mine"))["stdout"].split()
            assert said == [str(number)] * (turn + 1)
        await client.close_session()

    async def go():
        async with AsyncSandboxClient(server_url=url, policy="open") as client:
            await asyncio.gather(*(converse(client, number) for number in range(6)))

    asyncio.run(go())


def test_streams_and_processes(in_loop):
    async def test(client):
        events = [event async for event in client.stream("echo a; echo b >&2; exit 2")]
        assert events[-1].exit_code == 2
        process = await client.processes.start("cat", stdin_open=True)
        async with await process.attach() as channel:
            with pytest.raises(TimeoutError):
                await channel.receive(0.05)
            await channel.send("typed")
            assert (await channel.receive(10)).data == b"typed"
            await channel.close_stdin()
            assert [type(event) async for event in channel] == [Exited]
        assert await process.output() == b"typed"
        assert [type(event) async for event in process.follow()] == [Output, Exited]
        assert (await process.wait()).exit_code == 0

    in_loop(test)


def test_leaving_a_stream_kills_its_command(server, in_loop):
    async def test(client):
        events = client.stream("echo begun; sleep 1000")
        async for event in events:
            if isinstance(event, Output):
                break
        await events.aclose()
        session = client.session_id
        await asyncio.to_thread(wait_until, lambda: not people(server, session), "it is gone")

    in_loop(test)


def test_a_batch(url):
    async def go():
        batch = AsyncBatchSandboxClient(server_url=url)
        try:
            return await batch.execute_batch(["echo 1", "false", "curl x"])
        finally:
            await batch.close()

    assert [one["exit_code"] for one in asyncio.run(go())] == [0, 1, -1]


def test_a_client_outlives_its_loop(url):
    client = AsyncSandboxClient(server_url=url)

    async def begin():
        await client.create_session()
        return (await client.execute("echo 1"))["stdout"]

    async def end():
        result = (await client.execute("echo 2"))["stdout"]
        await client.close_session()
        await client.close()
        return result

    assert asyncio.run(begin()) == "1\n"
    assert asyncio.run(end()) == "2\n"


def test_the_asynchronous_classes_are_those_of_the_blocking_ones():
    tool = pathlib.Path(__file__).resolve().parent.parent / "tools" / "make_async.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
