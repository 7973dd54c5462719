# SPDX-License-Identifier: Apache-2.0
"""Whoever is interrupted leaves no command behind; threads, forks and exits do no harm."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from live import people
from server import wait_until

from threadbox import AsyncSandboxClient, SandboxClient


def test_a_keyboard_interrupt_kills_the_command(server, client):
    session = client.session_id

    def interrupt():
        wait_until(lambda: people(server, session), "the command runs")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        client.execute("sleep 1000", timeout=2000)
    helper.join()
    wait_until(lambda: not people(server, session), "the command is gone")
    assert server.processes(session)[-1]["cause"] == "killed"
    assert client.execute("echo on")["stdout"] == "on\n"  # the client can be used on


def test_an_interrupt_in_a_stream_kills_the_command(server, client):
    session = client.session_id
    with pytest.raises(KeyboardInterrupt):
        for event in client.stream("echo begun; sleep 1000", timeout=2000):
            if getattr(event, "text", "") == "begun\n":
                signal.raise_signal(signal.SIGINT)
    wait_until(lambda: not people(server, session), "the command is gone")


def test_cancelling_a_task_kills_its_command(server, url, thread):
    async def go():
        async with AsyncSandboxClient(server_url=url, policy="open") as client:
            session = (await client.get_or_create_session("u", thread))["session_id"]
            task = asyncio.create_task(client.execute("sleep 1000", timeout=2000))
            await asyncio.to_thread(wait_until, lambda: people(server, session), "it runs")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(
                wait_until, lambda: not people(server, session), "it is gone")
            return (await client.execute("echo on"))["stdout"]

    assert asyncio.run(go()) == "on\n"


def test_many_threads_share_a_client(url, thread):
    """And what one thread runs never lands in another one's session."""
    with SandboxClient(server_url=url, policy="open") as client:
        wrong = []

        def converse(number):
            for turn in range(5):
                client.get_or_create_session("u", f"{thread}-{number}")
                client.execute(f"echo {number} >> mine")
                said = client.execute("cat mine")["stdout"].split()
                if said != [str(number)] * (turn + 1):
                    wrong.append((number, said))
            client.close_session()

        threads = [threading.Thread(target=converse, args=(n,)) for n in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert wrong == []


def test_many_threads_share_a_session(client):
    results = []
    session = client.session_id

    def work(number):
        results.append(client.execute(f"echo {number}")["stdout"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(map(int, results)) == list(range(16)) and client.session_id == session


def test_a_forked_child_uses_connections_of_its_own(client):
    client.execute("echo parent > file")  # there is a kept connection now
    stream = client.stream("echo one; cat file; sleep 1; echo two")
    next(stream)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ok = client.execute("cat file")["stdout"] == "parent\n"
            try:
                next(stream)
            except NotImplementedError as problem:
                ok = ok and "process that opened it" in str(problem)
            code = 0 if ok else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "".join(e.text for e in stream if hasattr(e, "text")) == "one\nparent\ntwo\n"
    assert client.execute("cat file")["stdout"] == "parent\n"


@pytest.mark.parametrize("kind", ["sync", "async", "fork"])
def test_the_interpreter_ends_cleanly(url, kind):
    """No warning, no hang, although nobody closed anything."""
    code = textwrap.dedent("""
        import asyncio, os, sys
        from threadbox import AsyncSandboxClient, SandboxClient
        def sync():
            client = SandboxClient(server_url=sys.argv[1])
            client.create_session()
            assert client.execute("echo hi")["stdout"] == "hi\\n"
            return client
        def fork():
            kept = sync()
            if os.fork() == 0:
                assert kept.execute("echo hi")["stdout"] == "hi\\n"
            else:
                os.wait()
            return kept
        async def work():
            async with AsyncSandboxClient(server_url=sys.argv[1]) as client:
                await client.create_session()
                assert (await client.execute("echo hi"))["stdout"] == "hi\\n"
        kept = {"sync": sync, "fork": fork, "async": lambda: asyncio.run(work())}[sys.argv[2]]()
    """)
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", code, url, kind],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_is_cheap():
    """requests takes its time; only errors need it."""
    code = "import sys, threadbox; sys.exit('requests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_closing_a_session_leaves_those_of_other_threads(url, thread):
    with SandboxClient(server_url=url) as client:
        def other():
            client.get_or_create_session("u", thread + "-1")
            client.execute("true")
            held.set()
            go.wait(30)
            client.close_session()

        held, go = threading.Event(), threading.Event()
        helper = threading.Thread(target=other)
        helper.start()
        held.wait(30)
        client.get_or_create_session("u", thread + "-2")
        go.set()
        helper.join()
        assert client.thread_id == thread + "-2"
        seen = []
        reader = threading.Thread(target=lambda: seen.append(client.thread_id))
        reader.start()
        reader.join()
        assert seen == [thread + "-2"]  # of a thread that has chosen nothing
