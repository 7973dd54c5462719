# SPDX-License-Identifier: Apache-2.0
"""Threads and their sessions: one box for each, as many as may be, with the policy of each."""
import concurrent.futures
import contextlib
import json
import os
import random
import time
import uuid

import pytest

from server import argv_of, wait_until

HUNDRED = 100


def in_parallel(count, work, arguments):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, arguments))


def status_of(server, session):
    reply = server.get(f"/status/{session}")
    return reply.json if reply.status == 200 else None


def guests(server):
    """Sandboxes on the host, whatever the server believes."""
    return [name for name in os.listdir(server.cgroups()[0])
            if os.path.isdir(f"{server.cgroups()[0]}/{name}")]


# ---- one thread, one box ----

def test_L02_a_hundred_at_once_join_one_creation_and_all_are_told_200(start_server):
    server = start_server(POOL_SIZE=0)
    body = {"user_id": "u", "thread_id": "the-one"}
    with concurrent.futures.ThreadPoolExecutor(HUNDRED) as pool:
        connections = [server.connect() for _ in range(HUNDRED)]
        list(pool.map(lambda connection: connection.connect(), connections))

        def ask(connection):
            connection.request("POST", "/create_session", json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        # The server reads nothing until all have asked: nobody can come after the creation.
        os.kill(server.process.pid, 19)
        asked = [pool.submit(ask, connection) for connection in connections]
        wait_until(lambda: waiting_bytes(server.port) >= HUNDRED, "all have asked")
        os.kill(server.process.pid, 18)
        answers = [future.result() for future in asked]
        for connection in connections:
            connection.close()
    assert [status for status, _ in answers] == [200] * HUNDRED
    assert {answer["status"] for _, answer in answers} == {"created"}
    session, = {answer["session_id"] for _, answer in answers}
    assert guests(server) == [session]
    assert server.health()["active_sessions"] == 1
    later = server.post("/create_session", body)
    assert (later.status, later.json["session_id"]) == (409, session)
    assert server.log().count("event=session_created") == 1


def waiting_bytes(port):
    """Connections to a port in whose receive queue something waits."""
    count = 0
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            ours = int(fields[1].split(":")[1], 16) == port
            count += ours and fields[3] == "01" and int(fields[4].split(":")[1], 16) > 0
    return count


def test_a_hundred_threads_at_once_all_work(start_server):
    server = start_server(MAX_POOL_SIZE=120)

    def live(number):
        session = server.create(f"thread-{number}")
        first = server.stdout(session, f"whoami; pwd; ls -A; echo {number} > mine", timeout=60)
        second = server.stdout(session, "cat *; ls -A", timeout=60)
        return session, first, second

    lives = in_parallel(HUNDRED, live, range(HUNDRED))
    assert len({session for session, _, _ in lives}) == HUNDRED
    for number, (_, first, second) in enumerate(lives):
        assert first == "sandboxuser\n/workspace\n"
        assert second == f"{number}\nmine\n"
    assert server.health()["active_sessions"] == HUNDRED


def test_a_user_is_only_a_label(server):
    thread = f"thread-{uuid.uuid4()}"
    one = server.create(thread, user_id="alice")
    assert server.create(thread, user_id="bob") == one
    other = server.create(thread + "-2", user_id="alice")
    assert other != one
    server.stdout(one, "echo secret > f")
    assert server.stdout(other, "ls") == ""
    for session in (one, other):
        server.cleanup(session)


def test_an_anonymous_session_is_found_by_its_id_alone(server):
    session = server.create()
    assert server.stdout(session, "echo usable") == "usable\n"
    assert server.get("/get_session?thread_id=").status == 400
    assert server.get(f"/get_session?thread_id={session}").status == 404
    assert status_of(server, session)["thread_id"] == ""
    server.cleanup(session)


def test_L01_an_expired_session_answers_like_one_that_never_was(start_server):
    server = start_server()
    session = server.create("t", timeout_minutes=0.01)
    server.wait_gone(session)
    never = str(uuid.uuid4())
    requests = (lambda name: server.try_execute(name, "ls"),
                lambda name: server.upload(name, "f", b"x"),
                lambda name: server.download(name, "f"),
                lambda name: server.get(f"/list_files?session_id={name}"),
                lambda name: server.get(f"/status/{name}"),
                lambda name: server.get(f"/api/sessions/{name}/processes"))
    for ask in requests:
        expired, unknown = ask(session), ask(never)
        assert expired.status == unknown.status == 404
        assert expired.json["error"] == unknown.json["error"] == "Invalid or expired session"


# ---- as many as may be ----

def burst(server, count, body):
    """(status, seconds, Retry-After) of each; connections are made before the clock runs."""
    def ask(number):
        connection = server.connect()
        with contextlib.closing(connection):
            connection.connect()
            began = time.monotonic()
            connection.request("POST", "/create_session", json.dumps(body(number)))
            answer = connection.getresponse()
            told = json.loads(answer.read())
            return answer.status, time.monotonic() - began, answer.headers, told
    return in_parallel(20, ask, range(count))


@pytest.mark.parametrize("policy", ["open", "strict"])
def test_L08_a_burst_beyond_the_capacity_is_refused_at_once(start_server, policy):
    server = start_server(POOL_SIZE=2, MAX_POOL_SIZE=6, POOL_REFILL_DELAY_SECONDS=0)
    sessions = [server.create(policy=policy) for _ in range(6)]
    answers = burst(server, 200, lambda n: {"user_id": "u", "thread_id": f"t{n}", "policy": policy})
    for status, _, headers, told in answers:
        assert status == 503 and int(headers["Retry-After"]) > 0
        assert told["error"] == told["detail"] == "Pool at max capacity, try again later"
    took = sorted(seconds for _, seconds, _, _ in answers)
    assert took[len(took) * 9 // 10] < 0.1, took[-20:]
    assert sorted(guests(server)) == sorted(sessions)
    server.cleanup(sessions[0])
    fresh = wait_until(lambda: server.post("/create_session", {"policy": policy}).json.get(
        "session_id"), "there is room again")
    assert server.stdout(fresh, "whoami") == "sandboxuser\n"


@pytest.mark.parametrize("policy", ["open", "strict"])
def test_L08_a_burst_fills_the_capacity_and_never_more(start_server, policy):
    """The pool is of the policy `open`: ready ones give way to those of another."""
    server = start_server(POOL_SIZE=4, MAX_POOL_SIZE=10, POOL_REFILL_DELAY_SECONDS=0)
    seen = []
    with concurrent.futures.ThreadPoolExecutor(1) as watcher:
        stop = []

        def watch():
            while not stop:
                seen.append(len(guests(server)))
        watching = watcher.submit(watch)
        answers = burst(server, 60, lambda n: {"thread_id": f"t{n}", "policy": policy})
        stop.append(True)
        watching.result()
    statuses = [status for status, _, _, _ in answers]
    assert (statuses.count(200), statuses.count(503)) == (10, 50)
    # One that gives way may still be going while its place is filled.
    assert max(seen) <= 10 + (policy != "open"), max(seen)
    pool = server.health()["pool"]
    assert (pool["allocated"], pool["total"]) == (10, 10)
    assert len(guests(server)) == 10


def test_the_only_place_is_for_a_session_of_any_policy(start_server):
    server = start_server(POOL_SIZE=1, MAX_POOL_SIZE=1)
    session = server.create("t", policy="wide")
    assert server.stdout(session, "whoami") == "sandboxuser\n"
    assert server.post("/create_session", {}).status == 503


def test_whatever_comes_and_goes_the_counts_are_right(start_server):
    server = start_server(POOL_SIZE=2, MAX_POOL_SIZE=8, POOL_REFILL_DELAY_SECONDS=0)
    until = time.monotonic() + 4

    def live(number):
        choose = random.Random(number)
        seen = set()
        while time.monotonic() < until:
            thread = f"t{choose.randrange(12)}"
            reply = server.post("/create_session", {
                "thread_id": thread, "policy": choose.choice(["open", "strict", "wide"]),
                "timeout_minutes": choose.choice([0.005, 0.02, 5])})
            seen.add(reply.status)
            if reply.status not in (200, 409):
                continue
            session = reply.json["session_id"]
            action = choose.randrange(5)
            if action == 0:
                seen.add(server.try_execute(session, "echo on").status)
            elif action == 1:
                seen.add(server.upload(session, "f", bytes(1000)).status)
            elif action == 2:
                seen.add(server.get(f"/list_files?session_id={session}").status)
            elif action == 3:
                server.cleanup(session)
            else:
                guest = server.guest_pid(session)
                if guest:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(guest, 9)
                seen.add(server.try_execute(session, "true").status)
        return seen

    seen = set().union(*in_parallel(16, live, range(16)))
    assert seen <= {200, 404, 409, 503}, seen
    wait_until(lambda: counts(server) == (server.health()["pool"]["total"],) * 2,
               lambda: f"the counts agree: {counts(server)} {server.health()}")
    pool = server.health()["pool"]
    assert pool["total"] <= pool["max_capacity"]
    for number in range(12):
        reply = server.get(f"/get_session?thread_id=t{number}")
        if reply.status == 200:
            server.cleanup(reply.json["session_id"])
    wait_until(lambda: server.health()["active_sessions"] == 0, "all are gone")
    wait_until(lambda: server.health()["pool"]["allocated"] == 0 and counts(server) == (2, 2),
               lambda: f"only the pool is left: {counts(server)} {server.health()}")


def counts(server):
    """Sandboxes with a cgroup, and with a process."""
    pids = [pid for pid in server.sandbox_pids() if argv_of(pid) == ["threadbox-guest"]]
    return len(guests(server)), len(pids)


def test_L11_fifty_commands_at_once_share_the_limits_of_one_session(start_server):
    server = start_server(PIDS_LIMIT=64, MEMORY_LIMIT="64m")
    session = server.create()

    def run(number):
        return server.try_execute(session, f"echo {number}; sleep 0.2; exit {number}", timeout=60)

    replies = in_parallel(50, run, range(50))
    for number, reply in enumerate(replies):
        if reply.status == 200 and reply.json["exit_code"] == number:
            assert reply.json["stdout"] == f"{number}\n"
        else:  # beyond the limit of processes: said, and never mixed up with another's
            assert reply.status in (200, 429), reply
    assert server.stdout(session, "echo usable") == "usable\n"


@pytest.mark.parametrize("command", ["cat", "python3", "read x", "head -c 1", "sort", "wc -c"])
def test_L12_commands_that_read_their_input_find_its_end_at_once(server, session, command):
    began = time.monotonic()
    answer = server.execute(session, command, timeout=20)
    assert time.monotonic() - began < 5
    assert answer["cause"] == "exited"


# ---- policies ----

def test_a_session_has_the_policy_it_was_created_with(start_server):
    server = start_server(DEFAULT_POLICY="strict")
    for policy, command in (("strict", "wc --version"), ("wide", "git --version"),
                            ("open", "bash -c 'id -u'")):
        created = server.post("/create_session", {"thread_id": policy, "policy": policy})
        assert created.status == 200 and created.json["policy"] == policy
        session = created.json["session_id"]
        assert status_of(server, session)["policy"] == policy
        assert server.get(f"/get_session?thread_id={policy}").json["policy"] == policy
        assert server.execute(session, command)["exit_code"] == 0
        again = server.post("/create_session", {"thread_id": policy, "policy": "open"})
        assert (again.status, again.json["policy"]) == (409, policy)
    strict = server.create("strict")
    assert server.try_execute(strict, "bash -c 'id -u'").status == 400
    assert server.post("/create_session", {}).json["policy"] == "strict"
    server.restart()
    assert server.try_execute(strict, "bash -c 'id -u'").status == 400
    assert server.stdout(server.create("open"), "bash -c 'echo usable'") == "usable\n"


def test_an_unknown_policy_is_refused_by_name(server):
    for wrong in ("none", "STRICT", "../strict", ""):
        reply = server.post("/create_session", {"thread_id": "p", "policy": wrong})
        if not wrong:
            assert reply.status == 200  # as if it were not there
            server.cleanup(reply.json["session_id"])
            continue
        assert reply.status == 400 and "policy" in reply.json["error"]
    assert server.post("/create_session", {"policy": 5}).status == 400
    assert server.get("/get_session?thread_id=p").status == 404


def test_clients_choose_among_the_allowed_policies_only(start_server):
    server = start_server(DEFAULT_POLICY="strict", ALLOWED_POLICIES="strict, wide")
    assert server.post("/create_session", {"policy": "wide"}).status == 200
    reply = server.post("/create_session", {"policy": "open"})
    assert reply.status == 400 and '"open"' in reply.json["error"]
    assert server.post("/create_session", {}).json["policy"] == "strict"


# ---- what is told ----

def test_status_tells_memory_and_cpu(start_server):
    server = start_server(CPU_QUOTA=50000, MEMORY_LIMIT="128m")
    session = server.create("t")
    server.stdout(session, "true")
    idle = status_of(server, session)
    assert idle["cpu_percent"] < 20 and idle["processes"] >= 1
    assert 0 < idle["memory_bytes"] < 32 << 20
    assert idle["memory_mb"] == round(idle["memory_bytes"] / (1 << 20), 2)
    assert (idle["memory_limit_bytes"], idle["cpu_limit_percent"]) == (128 << 20, 50)
    assert (idle["running_commands"], idle["sandbox"], idle["worker"]) == (0, "running",
                                                                           "standalone")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        code = "x = bytearray(40 << 20)\nimport time\nopen('up', 'w')\nt = time.monotonic()\n" \
               "while time.monotonic() - t < 4: pass"
        running = pool.submit(server.python, session, code, timeout=60)
        root = f"/proc/{server.guest_pid(session)}/root/workspace/up"
        wait_until(lambda: os.path.exists(root), "it is at work")
        busy = status_of(server, session)
        running.result()
    assert busy["memory_bytes"] > 40 << 20
    assert 5 < busy["cpu_percent"] < 120
    assert busy["cpu_time_ms"] > idle["cpu_time_ms"]
    assert busy["running_commands"] == 1


def test_answers_have_their_documented_fields(server):
    thread = f"thread-{uuid.uuid4()}"
    created = server.post("/create_session", {"user_id": "u", "thread_id": thread}).json
    session = created["session_id"]
    common = {"session_id", "thread_id", "workspace_dir", "workspace", "user", "worker", "policy",
              "created_at", "last_activity", "expires_at", "status"}
    assert set(created) == common
    assert set(server.post("/create_session", {"thread_id": thread}).json) == common
    found = server.get(f"/get_session?thread_id={thread}").json
    assert set(found) == common | {"files_count"}
    assert (found["status"], found["files_count"]) == ("active", 0)
    assert set(server.execute(session, "true")) >= {
        "session_id", "process_id", "exit_code", "stdout", "stderr", "output",
        "execution_time_ms", "timed_out", "truncated", "cause", "signal", "limits_hit"}
    assert set(server.upload(session, "f", b"x").json) == {
        "status", "session_id", "filename", "path", "size_bytes"}
    listed = server.get(f"/list_files?session_id={session}").json
    assert set(listed) >= {"session_id", "workspace_dir", "files", "total_files",
                           "total_size_bytes"}
    assert set(listed["files"][0]) == {"name", "size_bytes", "modified", "permissions", "type"}
    assert server.download(session, "f").headers["Content-Disposition"]
    assert server.post("/cleanup", {"session_id": session}).json == {
        "status": "cleaned_up", "session_id": session}
