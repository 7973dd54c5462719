# SPDX-License-Identifier: Apache-2.0
"""Several programs that share a state directory."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest
from local_support import (  # noqa: F401
    PROGRAM,
    SUPPORT,
    Box,
    box,
    engine,
    output_of,
    run,
    run_program,
    start_program,
    state,
    state_dir,
)

from threadbox import _local


def test_two_programs_share_a_session(state):
    mine = _local.open_engine(state_dir=state, default_policy="open")
    box = Box(mine, "shared")
    box.out("echo mine > file")
    text = (
        PROGRAM
        + """
box = Box(engine, "shared")
print(box.info.status, box.out("cat file; echo other >> file").strip(), flush=True)
sys.stdin.readline()
print(box.out("cat file").split(), flush=True)
"""
    )
    other = start_program(text, state, env=SUPPORT, stdin=subprocess.PIPE)
    assert other.stdout.readline() == "existing mine\n"
    assert box.out("cat file; echo again >> file") == "mine\nother\n"
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.stdout.readline() == "['mine', 'other', 'again']\n"
    assert other.wait(20) == 0
    box.close()
    run(mine.close())


def test_a_process_is_followed_from_two_programs(state):
    mine = _local.open_engine(state_dir=state, default_policy="open")
    box = Box(mine, "followed")
    made = box.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done")
    text = (
        PROGRAM
        + """
box = Box(engine, "followed")
print(b"".join(e.data for e in box.follow(int(sys.argv[2])) if hasattr(e, "data")).split())
"""
    )
    other = start_program(text, state, str(made.process_id), env=SUPPORT)
    told = b"".join(e.data for e in box.follow(made.process_id) if hasattr(e, "data"))
    assert told.split() == [b"%d" % n for n in range(1, 9)]
    assert other.stdout.readline() == f"{[b'%d' % n for n in range(1, 9)]}\n"
    assert other.wait(20) == 0
    box.close()
    run(mine.close())


def test_programs_that_ask_for_one_thread_get_one_session(state):
    text = (
        PROGRAM
        + """
sys.stdin.readline()
print(Box(engine, "race").id)
"""
    )
    racers = [start_program(text, state, env=SUPPORT, stdin=subprocess.PIPE) for _ in range(4)]
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    ids = {racer.stdout.readline() for racer in racers}
    assert [racer.wait(20) for racer in racers] == [0] * 4
    assert len(ids) == 1
    mine = _local.open_engine(state_dir=state, default_policy="open")
    Box(mine, "race").close()
    run(mine.close())


def test_a_session_that_another_program_closed_is_gone(state):
    mine = _local.open_engine(state_dir=state, default_policy="open")
    box = Box(mine, "closed-elsewhere")
    box.out("true")
    text = (
        PROGRAM
        + """
Box(engine, "closed-elsewhere").close()
"""
    )
    output_of(run_program(text, state, env=SUPPORT))
    assert Box(mine, "closed-elsewhere").info.status == "created"
    Box(mine, "closed-elsewhere").close()
    run(mine.close())


def test_programs_that_are_killed_hold_nothing():
    """The first one too, who started the keeper; while they have the sandbox or wait for it."""
    text = (
        PROGRAM
        + """
box = Box(engine, "killed")
print(box.id, flush=True)
while True:
    box.execute(sys.argv[2])
"""
    )
    with state_dir() as where:
        others = [start_program(text, where, word, env=SUPPORT) for word in ("sleep 300", "true")]
        assert len({other.stdout.readline() for other in others}) == 1
        mine = _local.open_engine(state_dir=where, default_policy="open")
        box = Box(mine, "killed")
        assert box.info.status == "existing"
        for other in others:
            other.kill()
        assert box.out("echo mine") == "mine\n"
        assert [other.wait(20) for other in others] == [-signal.SIGKILL] * 2
        run(mine.close())


def test_two_engines_of_one_program_make_one_session(state):
    engines = [_local.open_engine(state_dir=state, default_policy="open") for _ in range(2)]
    found = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(Box(one, "both"))) for one in engines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({box.id for box in found}) == 1
    for turn in range(3):
        for one in found:
            one.out(f"echo {turn} >> log")
    assert found[0].out("wc -l < log").strip() == "6"
    run(engines[1].close())
    left = next(box for box in found if box.engine is engines[0])
    assert left.out("echo still") == "still\n"
    left.close()
    run(engines[0].close())


def test_a_directory_of_a_server_is_refused(state):
    import fcntl

    from threadbox import _errors as errors

    with state_dir() as where, open(f"{where}/server.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mine = _local.open_engine(state_dir=where)
        with pytest.raises(errors.ConflictError, match="a server has"):
            run(mine.health())
        run(mine.close())
