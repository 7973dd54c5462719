# SPDX-License-Identifier: Apache-2.0
"""Local mode for asyncio: answers come through the loop, without threads."""

from __future__ import annotations

import asyncio
import threading

import pytest
from local_support import state  # noqa: F401

from threadbox import _errors as errors
from threadbox import _local
from threadbox._engine import Command, Output, SessionSpec


@pytest.fixture
def in_loop(state):
    """Runs a coroutine function with an engine and a session."""

    def start(body):
        async def main():
            engine = _local.open_engine(blocking=False, state_dir=state, default_policy="open")
            session = (await engine.create_session(SessionSpec())).session_id
            try:
                return await body(engine, session)
            finally:
                await engine.close_session(session)
                await engine.close()

        return asyncio.run(main())

    return start


def test_the_loop_goes_on_while_commands_run(in_loop):
    async def body(engine, session):
        assert engine.blocking is False
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        before = threading.active_count()
        ticking = asyncio.create_task(tick())
        commands = [engine.execute(session, Command(f"sleep 0.3; echo {n}")) for n in range(8)]
        done = await asyncio.gather(*commands)
        assert threading.active_count() == before  # no pool
        ticking.cancel()
        assert [one.stdout for one in done] == [f"{n}\n" for n in range(8)]
        assert ticks > 5

    in_loop(body)


def test_a_cancelled_command_is_killed(in_loop):
    async def body(engine, session):
        running = asyncio.create_task(engine.execute(session, Command("echo $$ > pid; sleep 1000")))
        # It runs when its file is there.
        await engine.execute(session, Command("until [ -s pid ]; do read -t 0.01 < <(:); done"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        done = await engine.execute(session, Command("pgrep -c sleep || true"))
        assert done.stdout == "0\n"

    in_loop(body)


def test_streams_and_errors(in_loop):
    async def body(engine, session):
        told = [event async for event in engine.stream(session, Command("echo a; exit 2"))]
        assert [event.data for event in told if isinstance(event, Output)] == [b"a\n"]
        assert told[-1].exit_code == 2
        with pytest.raises(errors.SessionExpiredError):
            await engine.execute("no-such-session", Command("true"))
        await engine.upload_file(session, "a", b"x" * 3_000_000)
        assert len(await engine.download_file(session, "a")) == 3_000_000

    in_loop(body)


def test_a_stream_that_is_left_is_killed(in_loop):
    async def body(engine, session):
        events = engine.stream(session, Command("echo up; sleep 1000"))
        await anext(events)
        await anext(events)
        await events.aclose()
        [process] = await engine.processes(session)
        assert process.ended.cause == "killed"

    in_loop(body)


def test_an_abandoned_follow_ends_nothing(in_loop):
    async def body(engine, session):
        from threadbox._engine import ProcessSpec

        made = await engine.start(session, ProcessSpec(command="sleep 1000"))
        follow = engine.follow(session, made.process_id, "all", 0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(follow), 0.1)
        assert (await engine.process(session, made.process_id)).state == "running"

    in_loop(body)


def test_one_engine_serves_loop_after_loop(state):
    engine = _local.open_engine(blocking=False, state_dir=state, default_policy="open")

    async def once():
        session = await engine.create_session(SessionSpec(thread_id="loops"))
        return (await engine.execute(session.session_id, Command("echo hi"))).stdout

    assert [asyncio.run(once()) for _ in range(3)] == ["hi\n"] * 3
    asyncio.run(engine.close())
