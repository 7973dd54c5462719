# SPDX-License-Identifier: Apache-2.0
"""A thread owns a box: one session for it, its files stay, others' don't show, and it expires."""
import concurrent.futures
import http.client
import os
import subprocess
import time
import uuid

from server import PATIENCE, Server, wait_until


def test_files_stay_from_command_to_command(server, session):
    server.stdout(session, "mkdir -p a/b; echo data > a/b/c; echo t > /tmp/t; echo h > ~/h")
    assert server.stdout(session, "cat a/b/c /tmp/t ~/h") == "data\nt\nh\n"


def test_variables_and_cwd_do_not_stay(server, session):
    server.stdout(session, "export X=1; cd /tmp")
    assert server.stdout(session, "echo ${X-none}; pwd") == "none\n/workspace\n"


def test_sessions_do_not_see_each_other(server):
    one, two = server.create(), server.create()
    server.stdout(one, "for d in /workspace /tmp /dev/shm ~; do echo s > $d/f; done; sleep 99 &")
    assert server.stdout(two, "ls /workspace /tmp /dev/shm ~").split() == [
        "/dev/shm:", "/home/sandboxuser:", "/tmp:", "/workspace:"]
    assert server.execute(two, "pgrep sleep")["exit_code"] == 1
    for session in (one, two):
        server.cleanup(session)


def test_L02_a_hundred_at_once_for_one_thread_get_one_session(start_server):
    server = start_server(POOL_SIZE=0)
    body = {"user_id": "u", "thread_id": "the-one"}
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        replies = list(pool.map(lambda _: server.post("/create_session", body), range(100)))
    assert {reply.status for reply in replies} <= {200, 409}
    assert len({reply.json["session_id"] for reply in replies}) == 1
    assert server.health()["active_sessions"] == 1
    assert len(os.listdir(server.cgroups()[0])) > 0
    guests = [pid for pid in server.sandbox_pids()]
    assert len(guests) == 1


def test_L11_fifty_commands_at_once_are_not_mixed(server, session):
    def run(number):
        command = (f"for i in $(seq 200); do echo {number}-$i; done;"
                   f"echo {number} >&2; exit {number}")
        return server.execute(session, command, timeout=60)

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(run, range(50)))
    for number, answer in enumerate(answers):
        assert answer["exit_code"] == number
        assert answer["stderr"] == f"{number}\n"
        assert answer["stdout"] == "".join(f"{number}-{i}\n" for i in range(1, 201))
    assert len({answer["process_id"] for answer in answers}) == 50


def test_many_sessions_work_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        sessions = list(pool.map(lambda _: server.create(), range(40)))
        told = list(pool.map(lambda s: server.stdout(s, "hostname; echo > f; ls"), sessions))
        assert told == [f"box-{name[:8]}\nf\n" for name in sessions]
        list(pool.map(server.cleanup, sessions))


def test_two_servers_run_side_by_side(start_server):
    one, two = start_server(), start_server()
    a, b = one.create("same-thread"), two.create("same-thread")
    assert a != b
    assert one.stdout(a, "echo 1 > f; cat f") == "1\n"
    assert two.stdout(b, "ls") == ""
    assert two.try_execute(a, "true").status == 404
    uids = []
    for server, session in ((one, a), (two, b)):
        with open(f"/proc/{server.guest_pid(session)}/uid_map") as table:
            uids.append({int(line.split()[1]) for line in table})
    assert not uids[0] & uids[1], "slots are claimed machine-wide"
    one.stop()
    assert two.stdout(b, "echo usable") == "usable\n"


def test_L08_at_capacity_answers_503_with_retry_after(start_server):
    server = start_server(POOL_SIZE=0, MAX_POOL_SIZE=2)
    sessions = [server.create(), server.create()]
    began = time.monotonic()
    reply = server.post("/create_session", {"user_id": "u", "thread_id": "third"})
    assert time.monotonic() - began < 1
    assert reply.status == 503
    assert reply.headers["Retry-After"]
    assert "capacity" in reply.json["error"] and "capacity" in reply.reason
    server.cleanup(sessions[0])
    third = server.create("third")
    assert server.stdout(third, "echo x") == "x\n"


def test_L08_a_burst_beyond_capacity_is_never_overcommitted(start_server):
    server = start_server(POOL_SIZE=2, MAX_POOL_SIZE=5)
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        replies = list(pool.map(lambda _: server.post("/create_session"), range(40)))
    assert {reply.status for reply in replies} == {200, 503}
    given = {reply.json["session_id"] for reply in replies if reply.status == 200}
    assert len(given) <= 5
    # A place that was being made during the burst is there for who tries again.
    while len(given) < 5:
        given.add(wait_until(lambda: server.post("/create_session").json.get("session_id"),
                             "one more place is there"))
    assert server.post("/create_session").status == 503
    assert server.health()["pool"] == {"available": 0, "allocated": 5, "total": 5,
                                       "max_capacity": 5}
    for session in given:
        assert server.stdout(session, "echo on") == "on\n"


def test_the_pool_is_refilled_and_used(start_server):
    server = start_server(POOL_SIZE=3)
    wait_until(lambda: server.health()["pool_available"] == 3, "the pool is full")
    session = server.create()
    assert server.stdout(session, "ls -A . /tmp ~ | sort").split() == [".:", "/home/sandboxuser:",
                                                                      "/tmp:"]
    wait_until(lambda: server.health()["pool_available"] == 3, "the pool is full again")


def test_an_idle_session_expires_and_everything_of_it_goes(start_server):
    server = start_server(POOL_SIZE=0)
    session = server.create("short", timeout_minutes=0.02)  # 1.2 s
    assert server.stdout(session, "echo x > f; sleep 99 & echo started") == "started\n"
    wait_until(lambda: server.get(f"/api/sessions/{session}/processes").status == 404,
               "the session is gone", 8)
    assert server.try_execute(session, "true").status == 404
    assert server.sandbox_pids(session) == []
    assert os.listdir(f"{server.state_dir}/sandboxes") == []
    assert os.listdir(f"{server.state_dir}/output") == []
    assert server.health()["active_sessions"] == 0
    fresh = server.create("short")
    assert fresh != session
    assert server.stdout(fresh, "ls") == ""


def test_L05_a_command_longer_than_the_idle_time_is_not_cut(start_server):
    server = start_server()
    session = server.create(timeout_minutes=0.01)  # 0.6 s
    answer = server.execute(session, "sleep 2; echo done")
    assert (answer["stdout"], answer["cause"]) == ("done\n", "exited")


def test_use_renews_the_time_to_live(start_server):
    server = start_server()
    session = server.create(timeout_minutes=0.025)  # 1.5 s
    for _ in range(6):
        assert server.stdout(session, "sleep 0.5; echo on") == "on\n"


def test_cleanup_removes_all_traces(start_server):
    server = start_server(POOL_SIZE=0)
    session = server.create("t")
    server.stdout(session, "echo x > f; sleep 99 &")
    server.cleanup(session)
    assert server.sandbox_pids(session) == []
    assert os.listdir(f"{server.state_dir}/sandboxes") == []
    assert os.listdir(f"{server.state_dir}/output") == []
    assert not any(session in os.listdir(path) for path in server.cgroups())
    assert server.health()["active_sessions"] == 0


def test_L03_cleanup_during_a_command_ends_it_with_an_answer(start_server):
    server = start_server()
    session = server.create()
    with concurrent.futures.ThreadPoolExecutor(11) as pool:
        running = [pool.submit(server.try_execute, session, f"echo {n}; sleep 60", timeout=60)
                   for n in range(10)]
        wait_until(lambda: sum(row["stdout_bytes"] > 0 for row in server.processes(session)) == 10,
                   "all ten run")
        began = time.monotonic()
        server.cleanup(session)
        replies = [future.result(timeout=10) for future in running]
    assert time.monotonic() - began < 5
    for reply in replies:
        assert reply.status in (200, 404, 503), reply
        if reply.status == 200:
            assert reply.json["cause"] in ("lost", "killed"), reply
    wait_until(lambda: server.sandbox_pids(session) == [], "no process is left")


def test_L01_deleted_and_never_existing_are_the_same_404(server):
    session = server.create()
    server.cleanup(session)
    gone, never = server.try_execute(session, "x"), server.try_execute(str(uuid.uuid4()), "x")
    assert gone.status == never.status == 404
    assert gone.json["error"] == never.json["error"]


def test_a_second_server_for_the_same_state_dir_is_refused(start_server):
    server = start_server()
    session = server.create("t")
    second = Server(state_dir=server.state_dir)
    second.process = second.spawn("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert second.read_lines(3, PATIENCE) == []
        assert second.process.wait(timeout=PATIENCE) != 0
        assert server.state_dir in second.process.stderr.read().decode()
        assert server.stdout(session, "echo usable") == "usable\n"
    finally:
        second.process.kill()
        second.process.communicate()


def test_idle_connections_do_not_keep_others_out(server, session):
    idle = [http.client.HTTPConnection("127.0.0.1", server.port) for _ in range(200)]
    for connection in idle:
        connection.connect()
    assert server.stdout(session, "echo usable") == "usable\n"
    for connection in idle:
        connection.close()


def test_more_sandboxes_than_a_sandbox_may_have_open_files(start_server):
    server = start_server(POOL_SIZE=1100, MAX_POOL_SIZE=1200)
    wait_until(lambda: server.health()["pool_available"] == 1100, "all are made", 120)
    sessions = [server.create() for _ in range(20)]
    assert [server.stdout(session, "echo x") for session in sessions] == ["x\n"] * 20
