# SPDX-License-Identifier: Apache-2.0
"""Shells that keep their state between commands, in both modes."""

import asyncio
import signal
import threading

import pytest
from live import people
from server import wait_until

from threadbox import (
    CommandRefusedError,
    ConflictError,
    Exited,
    InvalidRequestError,
    Output,
    ProcessNotFoundError,
    SandboxClient,
    Started,
)


@pytest.fixture(params=["remote", "local"])
def mode(request):
    return request.param


@pytest.fixture
def shell(client):
    with client.shells.open(env={"WHO": "me"}, tag="mine") as opened:
        yield opened


def test_a_shell_remembers(shell):
    shell.run("mkdir -p d; cd d; x=5; f() { echo f$x; }")
    done = shell.run("pwd; f; echo $WHO; exit_code=3; false")
    assert done.executed.stdout == "/workspace/d\nf5\nme\n"
    assert done.executed.ended.exit_code == 1 and done.cwd == "/workspace/d"
    assert shell.refresh().state == "waiting" and shell.info.cwd == "/workspace/d"
    assert shell.info.tag == "mine"


def test_a_run_is_streamed(shell):
    events = list(shell.stream("echo one; sleep 0.1; echo two"))
    assert "".join(e.text for e in events if isinstance(e, Output)) == "one\ntwo\n"
    assert isinstance(events[-1], Exited)


def test_a_run_is_interrupted_and_the_shell_lives_on(client, shell):
    shell.run("x=kept")
    events = shell.stream("echo begun; sleep 1000; echo never", timeout=2000)
    while getattr(next(events), "text", "") != "begun\n":
        pass
    shell.interrupt()
    rest = list(events)
    assert "never" not in "".join(e.text for e in rest if isinstance(e, Output))
    assert shell.run("echo $x").executed.stdout == "kept\n"
    with pytest.raises(ConflictError):
        shell.interrupt()


def test_a_keyboard_interrupt_interrupts_the_run(place, client, shell):
    session = client.session_id
    before = len(people(place, session))

    def interrupt():
        wait_until(lambda: len(people(place, session)) > before, "the command runs")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        shell.run("sleep 1000", timeout=2000)
    helper.join()
    wait_until(lambda: len(people(place, session)) == before, "the command is gone")
    assert shell.run("echo on").executed.stdout == "on\n"


def test_shells_are_listed_found_and_closed(client, shell):
    assert [one.shell_id for one in client.shells.list()] == [shell.shell_id]
    assert client.shells.get(shell.shell_id).info.tag == "mine"
    with pytest.raises(ProcessNotFoundError):
        client.shells.get(99)
    other = client.shells.open()
    other.close()
    assert [one.shell_id for one in client.shells.list()
            if one.info.state != "dead"] == [shell.shell_id]


def test_a_shell_in_a_loop(in_loop):
    async def test(client):
        async with await client.shells.open() as shell:
            await shell.run("cd /tmp")
            return (await shell.run("pwd")).executed.stdout

    assert in_loop(test) == "/tmp\n"


def begin(shell, command):
    """The events of a command that has begun: a line of the process that it becomes is there. A
    shell that is just starting one does not pass an interrupt on."""
    events = shell.stream(f"bash -c 'echo begun; exec {command}'", timeout=2000)
    while getattr(next(events), "text", "") != "begun\n":
        pass
    return events


def test_what_a_run_did_to_the_shell_is_told(shell):
    shell.run("x=kept; cd /tmp")
    left = shell.run("y=lost; exit 3")
    assert left.executed.ended.exit_code == 3 and left.exited
    after = shell.run("echo $x; pwd")
    assert after.executed.stdout == "kept\n/tmp\n"
    assert not after.exited and after.generation > 1
    assert left.respawned or after.respawned
    assert "variables" in (after if after.respawned else left).restored


def test_a_run_that_takes_too_long(shell):
    done = shell.run("echo out; sleep 1000", timeout=0.5)
    assert done.executed.ended.timed_out and done.executed.ended.exit_code == 124
    assert done.executed.stdout == "out\n" and done.executed.stderr == (
        "timed out after 0.500 s\n")
    assert not done.exited
    assert shell.run("echo on").executed.stdout == "on\n"


def test_runs_wait_for_their_turn(client, shell):
    running = begin(shell, "sleep 1000")
    done = []
    waiting = threading.Thread(target=lambda: done.append(shell.run("echo second")))
    waiting.start()
    wait_until(lambda: shell.refresh().waiting_runs == 1, "the second run waits")
    assert shell.info.state == "running" and shell.info.running is not None and not done
    shell.interrupt()
    list(running)
    waiting.join()
    assert done[0].executed.stdout == "second\n"


def test_a_stream_that_is_left_interrupts_the_run(place, client, shell):
    before = len(people(place, client.session_id))
    events = begin(shell, "sleep 1000")
    assert len(people(place, client.session_id)) > before
    events.close()
    wait_until(lambda: len(people(place, client.session_id)) == before, "the command is gone")
    assert shell.run("echo $WHO").executed.stdout == "me\n"


def test_a_stream_begins_and_ends(shell):
    first, *_, last = shell.stream("echo a; echo b >&2; exit 7")
    assert isinstance(first, Started) and isinstance(last, Exited)
    assert last.process.process_id == first.process_id
    assert last.process.ended.exit_code == 7


def test_a_cancelled_run_is_interrupted(place, in_loop):
    async def test(client):
        async with await client.shells.open() as shell:
            await shell.run("x=kept")
            before = len(people(place, client.session_id))
            task = asyncio.create_task(shell.run("sleep 1000", timeout=2000))
            runs = lambda: len(people(place, client.session_id)) > before  # noqa: E731
            await asyncio.to_thread(wait_until, runs, "the command runs")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await shell.run("echo $x")).executed.stdout

    assert in_loop(test) == "kept\n"


def test_what_is_refused(arguments, client, shell, thread):
    with pytest.raises(InvalidRequestError):
        client.shells.open(cwd="/nowhere")
    with pytest.raises(ProcessNotFoundError, match="shell"):
        client.shells.get(shell.shell_id + 1000)
    shell.close()
    with pytest.raises(ProcessNotFoundError):
        shell.run("true")
    with SandboxClient(**arguments, policy="strict") as strict:
        strict.get_or_create_session("tester", thread + "-strict")
        with strict.shells.open() as checked:
            with pytest.raises(CommandRefusedError):
                checked.run("sudo ls")
            assert checked.run("echo fine").executed.stdout == "fine\n"
        with pytest.raises(CommandRefusedError):
            strict.shells.open(env={"LD_PRELOAD": "/workspace/x.so"})
        strict.cleanup()
