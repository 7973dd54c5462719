# SPDX-License-Identifier: Apache-2.0
"""Local mode as a part of other programs: threads, fork, signals, the end of the interpreter."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from local_support import (  # noqa: F401
    PROGRAM,
    SUPPORT,
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
    # A thread may come back at any point of the interpreter's end.
    for _ in range(8 if "daemon" in end else 1):
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


def test_a_call_that_waits_when_the_engine_is_closed_fails_at_once(state):
    text = (
        PROGRAM
        + """
def work():
    try:
        box.execute("touch s; sleep 1000")
    except Exception as problem:
        print(type(problem).__name__, problem)

box = Box(engine, "closing")
waiting = threading.Thread(target=work)
waiting.start()
box.out("until [ -e s ]; do sleep 0.05; done")
run(engine.close())
waiting.join()
engine = _local.open_engine(state_dir=sys.argv[1], default_policy="open")
print(Box(engine, "closing").out("pgrep -c sleep || true"), end="")
"""
    )
    told = output_of(run_program(text, state, env=SUPPORT, timeout=25))  # a command has 30 s
    assert told == "CapacityError the engine was closed\n0\n"


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
