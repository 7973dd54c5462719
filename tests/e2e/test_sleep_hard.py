# SPDX-License-Identifier: Apache-2.0
"""What could go wrong with sessions that sleep: a second reader's attacks."""
import contextlib
import os
import signal
import subprocess
import threading
import time

import pytest

from server import wait_until

SLEEPY = {"SLEEP_SECONDS": 1, "PRESTART_SECONDS": 0, "POOL_SIZE": 0}


def sandbox_of(server, session):
    return server.get(f"/status/{session}").json["sandbox"]


def wait_asleep(server, session):
    wait_until(lambda: sandbox_of(server, session) == "asleep", "it sleeps", 60)


def test_a_restart_takes_neither_their_places_nor_what_ran(start_server):
    server = start_server(**SLEEPY, MAX_POOL_SIZE=2)
    first, second = server.create(), server.create("t")
    path = f"/api/sessions/{first}/processes"
    number = server.post(path, {"command": "exit 3"}).json["process_id"]
    server.wait_exited(first, number)
    server.upload(second, "f", b"x")
    wait_asleep(server, first)
    wait_asleep(server, second)
    server.kill9()
    server.restart()
    assert server.health()["pool"]["allocated"] == 2
    assert "threadbox_sessions_asleep 2" in server.get("/metrics").body.decode()
    assert server.post("/create_session").status == 503
    assert server.get(f"{path}/{number}").json["exit_code"] == 3
    assert server.get("/get_session?thread_id=t").json["files_count"] == 1
    assert server.stdout(first, "echo on") == server.stdout(second, "echo on") == "on\n"


def state_kept(server):
    found = subprocess.run(["find", server.state_dir, "-path", "*/agent/state.json"],
                           capture_output=True, text=True, check=True)
    return found.stdout != ""


def test_the_state_of_an_agent_is_there_after_a_restart_and_after_its_end(start_server):
    server = start_server(**SLEEPY)
    session = server.post("/api/sessions", {"agent": "code_executor"}).json["session_id"]
    server.stdout(session, """echo '{"step": 3}' > /sandbox/agent/state.json""")
    wait_asleep(server, session)
    server.kill9()
    server.restart()
    assert server.get(f"/api/sessions/{session}").json["state"] == {"step": 3}
    wait_asleep(server, session)
    assert server.request("DELETE", f"/api/sessions/{session}").status == 200
    wait_until(lambda: state_kept(server), "the state is kept")


def test_the_state_is_never_missing_while_it_is_put_away(start_server):
    server = start_server(**SLEEPY, LOG_LEVEL="debug")
    session = server.post("/api/sessions", {"agent": "code_executor"}).json["session_id"]
    server.stdout(session, """echo '{"step": 3}' > /sandbox/agent/state.json""")
    while server.log().count("session_put_to_sleep") < 3:
        assert server.get(f"/api/sessions/{session}").json["state"] == {"step": 3}


def test_who_looks_again_and_again_does_not_lengthen_its_life(start_server):
    server = start_server(**SLEEPY)
    session = server.create(timeout_minutes=0.1)
    ended = time.monotonic() + 60
    while server.get(f"/list_files?session_id={session}").status == 200:
        assert time.monotonic() < ended, "it lives on"
        time.sleep(2)  # so that it sleeps between two looks


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return set(file.read().split())


def stop_next_child(keeper, known, stopped, over):
    """The next PID 1 that the keeper makes answers nobody."""
    while not stopped and not over.is_set():
        for pid in children_of(keeper) - known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGSTOP)
                stopped.append(int(pid))


def test_a_waking_that_takes_too_long_loses_no_file(start_server):
    server = start_server(**SLEEPY)
    session = server.create()
    server.execute(session, "echo precious > f")
    keeper = server.keeper_pid()
    stopped = []
    while not stopped:  # it may have answered before it was seen
        wait_asleep(server, session)
        over = threading.Event()
        stopper = threading.Thread(target=stop_next_child,
                                   args=(keeper, children_of(keeper), stopped, over))
        stopper.start()
        reply = server.try_execute(session, "cat f", seconds=100)
        over.set()
        stopper.join()
        assert reply.status == 503 or reply.json["stdout"] == "precious\n"
    with contextlib.suppress(ProcessLookupError):  # it was set up already
        os.kill(stopped[0], signal.SIGCONT)
    assert server.stdout(session, "cat f") == "precious\n"


def test_a_server_that_starts_while_it_is_put_away_knows_it(start_server):
    server = start_server(**SLEEPY)
    session = server.create("t")
    server.execute(session, "echo x > f")
    keeper = server.keeper_pid()
    os.kill(keeper, signal.SIGSTOP)
    time.sleep(3)  # the server asks for it, and nobody can tell from outside
    server.kill9()
    timer = threading.Timer(1, os.kill, (keeper, signal.SIGCONT))
    timer.start()
    server.start()
    timer.join()
    assert server.create("t") == session
    wait_until(lambda: server.try_execute(session, "cat f").status == 200, "it is back")
    assert server.stdout(session, "cat f") == "x\n"


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "~"])
def test_modes_of_its_places_stay(start_server, place):
    server = start_server(**SLEEPY)
    session = server.create()
    server.execute(session, f"chmod 710 {place}")
    wait_asleep(server, session)
    assert server.stdout(session, f"stat -c %a {place}") == "710\n"


def test_the_log_of_exits_does_not_grow_with_each_sleep(start_server):
    server = start_server(**SLEEPY)
    session = server.create()
    path = f"{server.state_dir}/output/{session}/exits"
    padding = "#" + "x" * 1000
    sizes = []
    for _ in range(3):
        for _ in range(400):
            server.execute(session, "true " + padding)
        number = server.execute(session, "exit 7")["process_id"]
        wait_asleep(server, session)
        sizes.append(os.path.getsize(path))
    assert sizes[2] < 2 * sizes[0], sizes
    server.execute(session, "true")
    assert server.process_of(session, number)["exit_code"] == 7
