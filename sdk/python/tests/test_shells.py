# SPDX-License-Identifier: Apache-2.0
"""Shells that keep their state between commands."""

import signal
import threading

import pytest
from live import people
from server import wait_until

from threadbox import ConflictError, Exited, Output, ProcessNotFoundError, UnsupportedError


@pytest.fixture
def shell(client):
    try:
        opened = client.shells.open(env={"WHO": "me"}, tag="mine")
    except UnsupportedError:
        pytest.skip("this server has no shells")
    with opened:
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


def test_a_keyboard_interrupt_interrupts_the_run(server, client, shell):
    session = client.session_id
    before = len(people(server, session))

    def interrupt():
        wait_until(lambda: len(people(server, session)) > before, "the command runs")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        shell.run("sleep 1000", timeout=2000)
    helper.join()
    wait_until(lambda: len(people(server, session)) == before, "the command is gone")
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
        try:
            opened = await client.shells.open()
        except UnsupportedError:
            pytest.skip("this server has no shells")
        async with opened as shell:
            await shell.run("cd /tmp")
            return (await shell.run("pwd")).executed.stdout

    assert in_loop(test) == "/tmp\n"
