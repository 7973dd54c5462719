# SPDX-License-Identifier: Apache-2.0
"""Shells and files of local mode, beyond what holds in both modes: several programs, and runs that
are given up before they begin."""

from __future__ import annotations

import asyncio
import threading

import pytest
from local_support import (  # noqa: F401
    box,
    engine,
    output_of,
    run,
    run_program,
    state,
    wait_until,
)

from threadbox import _errors as errors
from threadbox import _local
from threadbox._engine import SessionSpec, iterate
from threadbox._engine_shells import ShellSpec

# Of another program with the same state directory.
PROGRAM = """
import sys
from threadbox import SandboxClient
client = SandboxClient(mode="local", state_dir=sys.argv[1], policy="open")
client.get_or_create_session("other", sys.argv[2])
"""


def test_a_shell_is_every_programs(engine, state):
    session = run(engine.create_session(SessionSpec(thread_id="shared-shell"))).session_id
    shell = run(engine.open_shell(session, ShellSpec(tag="ours"))).shell_id
    run(engine.run_in_shell(session, shell, "x=ours; cd /tmp", 30.0))
    theirs = PROGRAM + """
[shell] = client.shells.list()
assert shell.info.tag == "ours" and shell.info.cwd == "/tmp", shell.info
print(shell.run("echo $x; pwd; x=theirs").executed.stdout, end="")
client.files.write("f", "theirs")
"""
    for expected in ("ours", "theirs"):
        assert output_of(run_program(theirs, state, "shared-shell")) == f"{expected}\n/tmp\n"
    assert run(engine.run_in_shell(session, shell, "echo $x", 30.0)).executed.stdout == "theirs\n"
    assert run(engine.read_file(session, "f")) == b"theirs"
    run(engine.close_session(session))


def test_a_stream_goes_on_while_another_program_is_at_work(engine, state):
    session = run(engine.create_session(SessionSpec(thread_id="shared-stream"))).session_id
    shell = run(engine.open_shell(session, ShellSpec())).shell_id
    waits = "echo begun; until [ -e /workspace/go ]; do sleep 0.05; done; echo over"
    events = iterate(engine.stream_in_shell(session, shell, waits, 600.0))
    while getattr(next(events), "text", "") != "begun\n":
        pass
    theirs = PROGRAM + """
[shell] = client.shells.list()
assert shell.info.state == "running", shell.info
client.files.write("go", "")
print(shell.run("echo after it").executed.stdout, end="")
"""
    assert output_of(run_program(theirs, state, "shared-stream")) == "after it\n"
    assert "".join(getattr(event, "text", "") for event in events) == "over\n"
    run(engine.close_session(session))


def test_a_run_that_is_given_up_before_its_turn_never_begins(state):
    async def main():
        engine = _local.open_engine(blocking=False, state_dir=state, default_policy="open")
        session = (await engine.create_session(SessionSpec())).session_id
        shell = (await engine.open_shell(session, ShellSpec())).shell_id

        async def waiting(count):
            while (await engine.shell(session, shell)).waiting_runs != count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        first = asyncio.create_task(
            engine.run_in_shell(session, shell, "until [ -e go ]; do sleep 0.05; done", 600.0)
        )
        second = asyncio.create_task(engine.run_in_shell(session, shell, "touch never", 30.0))
        third = asyncio.create_task(engine.run_in_shell(session, shell, "echo third", 30.0))
        await waiting(2)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await waiting(1)
        await engine.write_file(session, "go", b"", False, False, None)
        assert (await first).executed.ended.exit_code == 0
        assert (await third).executed.stdout == "third\n"
        assert not [one for one in (await engine.walk_files(session, "", True, 10, None)).files
                    if one.name == "never"]  # fmt: skip
        await engine.close_session(session)
        await engine.close()

    asyncio.run(main())


def test_a_shell_that_is_closed_ends_those_who_wait(engine, box):
    shell = run(engine.open_shell(box.id, ShellSpec())).shell_id
    problems = []

    def wait():
        try:
            run(engine.run_in_shell(box.id, shell, "true", 30.0))
        except errors.SandboxError as problem:
            problems.append(problem)

    events = iterate(engine.stream_in_shell(box.id, shell, "echo begun; sleep 1000", 600.0))
    while getattr(next(events), "text", "") != "begun\n":
        pass
    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: run(engine.shell(box.id, shell)).waiting_runs == 1)
    run(engine.close_shell(box.id, shell))
    thread.join()
    assert [type(one) for one in problems] == [errors.ConflictError]
    assert list(events)[-1].process.ended.exit_code != 0
    with pytest.raises(errors.ProcessNotFoundError):
        run(engine.shell(box.id, shell))
