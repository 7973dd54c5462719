# SPDX-License-Identifier: Apache-2.0
"""The keeper dies or can't open its pool: all sandboxes end, and nothing stays but the files."""
import concurrent.futures
import contextlib
import http.client
import os
import time

import pytest

from server import wait_until


def assert_clean_and_said_so(server):
    """After the keeper's death and before the next start nothing runs and nothing is mounted."""
    wait_until(lambda: server.sandbox_pids() == [], "no process of any sandbox is left", 5)
    wait_until(lambda: not server.mounts(), lambda: f"nothing is mounted, but {server.mounts()}", 5)
    wait_until(lambda: not server.loops(), "no loop device is left", 5)


@pytest.mark.parametrize("server_too", [False, True])
def test_kill_9_of_the_keeper_ends_every_sandbox_and_keeps_the_files(start_server, server_too):
    server = start_server(POOL_SIZE=3)
    session = server.create("t")
    server.stdout(session, "mkdir d; echo data > d/f; echo t > /tmp/t; echo h > ~/h;"
                           "for i in 1 2 3; do setsid nohup sleep 999 >/dev/null 2>&1 & done; true")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.execute_and_forget, session, "trap '' TERM; sleep 99")
        wait_until(lambda: any(row["state"] == "running" for row in server.processes(session)),
                   "it runs")
        if server_too:
            server.kill9()
        server.kill9_keeper()
        if not server_too:
            assert server.wait() != 0, "a supervisor must see that it failed"
            reply = running.result()
            assert reply is None or reply.json.get("cause", "lost") == "lost", reply
    assert_clean_and_said_so(server)
    server.start()
    assert "cleaned_up" in server.log()
    assert server.create("t") == session
    assert server.stdout(session, "cat d/f /tmp/t ~/h; pgrep -c sleep || true") == "data\nt\nh\n0\n"
    uid = server.stdout(session, "stat -c %U d/f; echo more >> d/f && cat d/f")
    assert uid == "sandboxuser\ndata\nmore\n"


def test_files_come_back_after_stop_too(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f")
    server.stop()
    server.start()
    assert server.create("t") == session
    assert server.stdout(session, "cat f") == "data\n"


def test_a_quota_is_still_there_after_the_files_came_back(start_server):
    server = start_server(MAX_WORKSPACE_SIZE_MB=32)
    session = server.create("t")
    server.stdout(session, "head -c 20M /dev/urandom > f; sync")
    server.kill9_keeper()
    server.wait()
    server.start()
    answer = server.execute(session, "head -c 20M /dev/urandom > g")
    assert answer["exit_code"] != 0, "what was there before counts"


def test_two_threads_files_are_not_mixed_up_after_a_keeper_s_death(start_server):
    server = start_server()
    sessions = {f"t{n}": server.create(f"t{n}") for n in range(8)}
    for name, session in sessions.items():
        server.stdout(session, f"echo {name} > f; chmod 600 f")
    server.kill9_keeper()
    server.wait()
    server.start()
    extra = server.create("newcomer")
    for name, session in sorted(sessions.items(), reverse=True):
        assert server.create(name) == session
        assert server.stdout(session, "cat f; ls -A") == f"{name}\nf\n"
    assert server.stdout(extra, "ls -A") == ""


def test_the_pool_is_never_mounted_twice(start_server):
    """After kill -9 of the keeper its file system may be in use for a while (a process that is slow
    to die, much to write back); here a descriptor of ours stands for that."""
    server = start_server()
    session = server.create("t")
    server.stdout(session, "head -c 20M /dev/urandom > f; md5sum f > sum")
    pool = f"/proc/{server.keeper_pid()}/root{server.state_dir}/disk/pool"
    holder = os.open(f"{pool}/{session}/workspace/f", os.O_RDONLY)
    try:
        server.kill9_keeper()
        server.wait()
        server.start()
        assert len(server.loops()) == 1
        assert server.create("t") == session
        assert server.stdout(session, "md5sum -c sum") == "f: OK\n"
    finally:
        os.close(holder)


def test_a_pool_that_cannot_be_opened_once_costs_no_files(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f; sync")
    server.stop()
    wait_until(lambda: not server.loops(), "the pool is free")
    image = f"{server.state_dir}/disk/pool.img"
    with open(image, "r+b") as file:
        file.seek(65536)
        superblock = file.read(4096)
        file.seek(65536)
        file.write(bytes(4096))
    # It starts with less, or says why it doesn't; both are fine, as long as nothing is thrown away.
    done = server.command("doctor")
    assert done.returncode != 0
    server.command("stop")
    with open(image, "r+b") as file:
        file.seek(65536)
        file.write(superblock)
    server.start()
    assert server.create("t") == session
    assert server.stdout(session, "cat f") == "data\n"


def test_a_keeper_killed_while_it_makes_sandboxes_leaves_nobody(start_server):
    """A child that waited for its word held the lock for ever: no server could start again."""
    server = start_server(POOL_SIZE=4)
    for turn in range(10):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(make_some, server) for _ in range(3)]
            time.sleep(0.02 + 0.025 * turn)  # somewhere in the middle of them
            server.kill9_keeper()
            for job in jobs:
                job.result()
        server.process.wait()
        server.process.stdout.close()
        server.start()
        assert server.health()["status"] == "healthy"


def make_some(server):
    with contextlib.suppress(OSError, http.client.HTTPException):
        for _ in range(8):
            server.request("POST", "/create_session", {})
