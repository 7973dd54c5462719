# SPDX-License-Identifier: Apache-2.0
"""Local mode as a part of other programs: threads, fork, signals, the end of the interpreter, and
several programs that share a state directory."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest
from local_support import (  # noqa: F401
    Box,
    box,
    engine,
    keeper_runs,
    output_of,
    run,
    run_program,
    start_program,
    state,
    state_dir,
    stop_keeper,
    wait_until,
)

from threadbox import _local

# A program with an engine: `box(thread)` is a session, `out(command)` runs one in it.
PROGRAM = """
import os, signal, sys, threading
sys.path.insert(0, os.environ["SUPPORT"])
from local_support import Box, run
from threadbox import _local
engine = _local.open_engine(state_dir=sys.argv[1], default_policy="open")
"""
SUPPORT = {**os.environ, "SUPPORT": os.path.dirname(__file__)}


def test_many_threads_and_clients_at_once(state):
    clients = [_local.open_engine(state_dir=state, default_policy="open") for _ in range(3)]
    problems = []

    def work(number):
        try:
            mine = Box(clients[number % 3], f"thread-{number % 4}")
            for turn in range(10):
                assert mine.out(f"echo {number}.{turn}") == f"{number}.{turn}\n"
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for number in range(4):
        Box(clients[0], f"thread-{number}").close()
    for client in clients:
        run(client.close())


def test_the_gil_is_free_while_a_command_runs(box):
    counted = 0
    over = threading.Event()

    def count():
        nonlocal counted
        while not over.is_set():
            counted += 1

    other = threading.Thread(target=count)
    other.start()
    box.out("sleep 0.3")
    over.set()
    other.join()
    assert counted > 10000


def test_a_child_of_fork_has_an_engine_of_its_own(state):
    text = (
        PROGRAM
        + """
box = Box(engine, "forked")
box.out("echo parent > who")
child = os.fork()
if child == 0:
    assert box.out("cat who; echo child >> who") == "parent\\n"
    assert Box(engine, "of-child").info.status == "created"
    os._exit(0)
box.out("true")  # at the same time
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert box.out("cat who") == "parent\\nchild\\n"
for thread in ("forked", "of-child"):
    Box(engine, thread).close()
print("fine")
"""
    )
    assert output_of(run_program(text, state, env=SUPPORT)) == "fine\n"


def test_a_child_does_not_keep_what_was_the_parents(state):
    text = (
        PROGRAM
        + """
box = Box(engine, "orphan")
box.out("echo kept > file")
if os.fork() == 0:
    import time
    time.sleep(1000)
print("up", flush=True)
os.kill(os.getpid(), 9)
"""
    )
    dead = start_program(text, state, env=SUPPORT, start_new_session=True)
    assert dead.stdout.readline() == "up\n"
    dead.wait()
    mine = _local.open_engine(state_dir=state, default_policy="open")
    box = Box(mine, "orphan")
    assert box.info.status == "existing"
    assert box.out("cat file") == "kept\n"
    os.killpg(dead.pid, signal.SIGKILL)
    box.close()
    run(mine.close())


def test_multiprocessing_by_fork(state):
    text = (
        PROGRAM
        + """
import multiprocessing
Box(engine, "warm").out("true")
def work(number):
    return Box(engine, f"worker-{number}").out(f"echo {number}")
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(work, range(6)) == [f"{n}\\n" for n in range(6)]
for number in range(6):
    Box(engine, f"worker-{number}").close()
print("fine")
"""
    )
    assert output_of(run_program(text, state, env=SUPPORT)) == "fine\n"


def test_an_interrupt_kills_the_command_and_raises(state):
    text = (
        PROGRAM
        + """
box = Box(engine, "interrupted")
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    box.execute("echo started > s; sleep 1000")
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", box.out("cat s; pgrep -c sleep || true").split())
try:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    for event in box.stream("sleep 1000"):
        pass
except KeyboardInterrupt:
    print("interrupted", box.out("pgrep -c sleep || true").split())
box.close()
"""
    )
    told = output_of(run_program(text, state, env=SUPPORT, timeout=30))
    assert told == "interrupted ['started', '0']\ninterrupted ['0']\n"


def test_a_signal_that_is_handled_interrupts_nothing(state):
    text = (
        PROGRAM
        + """
seen = []
signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
box = Box(engine, "handled")
assert box.out("sleep 0.5; echo whole") == "whole\\n"
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(seen) >= 3)
box.close()
"""
    )
    assert output_of(run_program(text, state, env=SUPPORT)) == "True\n"


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "sys.exit(0)",
        "os._exit(0)",
        "threading.Thread(target=box.execute, args=('sleep 1000',), daemon=True).start()",
    ],
)
def test_the_interpreter_ends_cleanly(state, end):
    text = (
        PROGRAM
        + f"""
box = Box(engine, "ending")
box.out("true")
{end}
"""
    )
    done = run_program(text, state, env=SUPPORT, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_whose_call_ends_with_the_interpreter_says_nothing(state):
    before = """
import atexit
waiting = []
# Registered before the engine's handler, it runs after that: until then the thread has time.
atexit.register(lambda: waiting[0].join(10) or print(waiting[0].is_alive()))
"""
    text = (
        PROGRAM
        + """
box = Box(engine, "ending")
waiting.append(threading.Thread(target=box.execute, args=("touch s; sleep 1000",), daemon=True))
waiting[0].start()
box.out("until [ -e s ]; do sleep 0.05; done")
"""
    )
    done = run_program(text, state, before=before, env=SUPPORT, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_the_keeper_ends_with_its_last_client_and_files_stay():
    with state_dir() as where:
        text = (
            PROGRAM
            + """
box = Box(engine, "kept")
box.out("echo here > file")
"""
        )
        output_of(run_program(text, where, env=SUPPORT))
        wait_until(lambda: not keeper_runs(where), what="the end of the keeper")
        again = (
            PROGRAM
            + """
box = Box(engine, "kept")
print(box.info.status, box.out("cat file"))
"""
        )
        assert output_of(run_program(again, where, env=SUPPORT)) == "existing here\n\n"


def test_a_keeper_that_dies_is_replaced():
    with state_dir() as where:
        mine = _local.open_engine(state_dir=where, default_policy="open")
        box = Box(mine, "survivor")
        box.out("echo here > file")
        stop_keeper(where)
        wait_until(lambda: not keeper_runs(where), what="the end of the keeper")
        assert Box(mine, "survivor").out("cat file") == "here\n"
        run(mine.close())


def test_the_keeper_is_nobodys_child(state):
    text = (
        PROGRAM
        + """
Box(engine, "childless").close()
try:
    os.waitpid(-1, os.WNOHANG)
    print("has a child")
except ChildProcessError:
    print("none")
"""
    )
    with state_dir() as where:
        assert output_of(run_program(text, where, env=SUPPORT)) == "none\n"


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
