# SPDX-License-Identifier: Apache-2.0
"""The server or PID 1 dies at a bad moment: commands go on, no byte is lost."""
import concurrent.futures
import http.client
import os
import random
import select
import signal
import struct
import time

import pytest

from keeper import Keeper
from server import wait_until

# Numbered lines, each with a checksum, on both streams; about two seconds long.
TALK = """for ((i = 0; i < {lines}; i++)); do
echo "{name} $i $((i * 7919 % 65521))"; ((i % 10)) || echo "{name} e$i" >&2
((i % 100)) || sleep {pause}; done; exit {code}"""


def talk(name, lines=4000, pause=0.05, code=0):
    return TALK.format(name=name, lines=lines, pause=pause, code=code)


def said(name, lines=4000):
    out = "".join(f"{name} {i} {i * 7919 % 65521}\n" for i in range(lines))
    err = "".join(f"{name} e{i}\n" for i in range(0, lines, 10))
    return out.encode(), err.encode()


def assert_all_said(server, sessions, per_session):
    for index, session in enumerate(sessions):
        rows = server.processes(session)
        assert len(rows) == per_session
        names = set()
        for row in rows:
            number = row["process_id"]
            row = server.wait_exited(session, number, 30)
            out = server.output(session, number, "stdout")
            name = out.split(b" ", 1)[0].decode()
            names.add(name)
            assert (out, server.output(session, number, "stderr")) == said(name), name
            assert row["exit_code"] == int(name.split("-")[1]) and row["cause"] == "exited", row
            assert (row["stdout_bytes"], row["stderr_bytes"]) == tuple(map(len, said(name)))
            assert len(server.output(session, number, "all")) == sum(map(len, said(name)))
        assert names == {f"{index}-{n}" for n in range(per_session)}


@pytest.mark.parametrize("kills", [1, 4])
def test_FT02_kill_9_of_the_server_during_20_commands_loses_no_byte(start_server, kills):
    server = start_server()
    sessions = [server.create(f"thread-{n}") for n in range(5)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for index, session in enumerate(sessions):
            for n in range(4):
                pool.submit(server.execute_and_forget, session, talk(f"{index}-{n}", code=n))
        wait_until(lambda: sum(row["stdout_bytes"] > 0 for session in sessions
                               for row in server.processes(session)) == 20, "all twenty talk")
        server.kill9()
    for _ in range(kills - 1):
        server.start()
        wait_until(lambda: server.health()["active_sessions"] == 5, "it has taken over")
        server.kill9()
    server.start()
    assert [server.create(f"thread-{n}") for n in range(5)] == sessions
    assert_all_said(server, sessions, 4)
    assert server.stdout(sessions[0], "echo usable") == "usable\n"


def test_FT02_what_ended_while_no_server_was_there_is_known(start_server):
    server = start_server()
    session = server.create("t")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for command in ("until [ -e go ]; do sleep 0.02; done; echo out; echo err >&2; exit 7",
                        "until [ -e go ]; do sleep 0.02; done; kill -9 $$",
                        "until [ -e go ]; do sleep 0.02; done; head -c 50000 /dev/zero"):
            pool.submit(server.execute_and_forget, session, command)
        wait_until(lambda: len(server.processes(session)) == 3, "all run")
        guest = server.guest_pid(session)
        server.kill9()
    open(f"/proc/{guest}/root/workspace/go", "w").close()
    wait_until(lambda: server.sandbox_pids(session) == [guest], "all have ended")
    server.start()
    rows = [server.wait_exited(session, row["process_id"]) for row in server.processes(session)]
    assert sorted((row["exit_code"], row["cause"]) for row in rows) == [
        (0, "exited"), (7, "exited"), (137, "signal")]
    by_code = {row["exit_code"]: row["process_id"] for row in rows}
    assert server.output(session, by_code[7]) == b"out\n"
    assert server.output(session, by_code[7], "stderr") == b"err\n"
    assert server.output(session, by_code[0]) == bytes(50000)


def test_FT02_a_timeout_is_kept_while_no_server_is_there(start_server):
    server = start_server()
    session = server.create("t")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(server.try_execute, session, "setsid sleep 99 & sleep 99", timeout=1.5)
        wait_until(lambda: len(server.sandbox_pids(session)) >= 3, "it runs")
        guest = server.guest_pid(session)
        server.kill9()
    wait_until(lambda: server.sandbox_pids(session) == [guest], "the guest has ended it", 5)
    server.start()
    row = server.wait_exited(session, server.processes(session)[0]["process_id"])
    assert (row["cause"], row["exit_code"], row["timed_out"]) == ("timeout", 124, True)


def test_FT01_kill_9_of_an_idle_server_costs_nothing(start_server):
    server = start_server()
    session, nameless = server.create("t"), server.create()
    server.stdout(session, "echo data > f; sleep 999 & echo $! > pid")
    number = server.execute(session, "echo earlier; exit 5")["process_id"]
    began = time.monotonic()
    server.restart()
    assert time.monotonic() - began < 5
    assert server.stdout(session, "cat f; kill -0 $(cat pid) && echo alive") == "data\nalive\n"
    assert server.stdout(nameless, "echo usable") == "usable\n"
    assert server.output(session, number) == b"earlier\n"
    assert server.process_of(session, number)["exit_code"] == 5
    assert server.health()["active_sessions"] == 2
    newest = server.execute(session, "true")["process_id"]
    assert newest > number, "numbers of processes are not used twice"


def test_FT02_what_was_answered_right_before_kill_9_is_known(start_server):
    server = start_server(POOL_SIZE=1)
    session = server.create("t")
    commands = {"echo said; echo wrong >&2; exit 3": (b"said\n", b"wrong\n", 3),
                "true": (b"", b"", 0),
                "(sleep 1; echo late) & echo early": (b"early\nlate\n", b"", 0)}
    for _ in range(3):
        for command, (out, err, code) in commands.items():
            number = server.execute(session, command)["process_id"]
            server.kill9()
            server.start()
            row = server.wait_exited(session, number)
            assert (row["exit_code"], row["cause"], row["command"]) == (code, "exited", command)
            wait_until(lambda: server.output(session, number, "stdout") == out,
                       lambda: f"{command}: {server.output(session, number, 'stdout')}")
            assert server.output(session, number, "stderr") == err
    for _ in range(70):
        last = server.execute(session, "true")["process_id"]
    known = [row["process_id"] for row in server.processes(session)]
    assert len(known) == 64 and known[-1] == last
    server.restart()
    assert [row["process_id"] for row in server.processes(session)] == known
    assert server.execute(session, "true")["process_id"] == last + 1


def test_FT01_ready_sandboxes_are_taken_over(start_server):
    server = start_server(POOL_SIZE=4)
    wait_until(lambda: server.health()["pool_available"] == 4, "the pool is full")
    guests = sorted(server.sandbox_pids())
    server.restart()
    wait_until(lambda: server.health()["pool_available"] == 4, "the pool is full")
    assert sorted(server.sandbox_pids()) == guests


def test_FT01_a_session_expires_while_no_server_is_there(start_server):
    server = start_server(POOL_SIZE=0)
    session = server.create("t", timeout_minutes=0.02)
    server.kill9()
    wait_until(lambda: server.sandbox_pids() == [], "the keeper has ended it")
    server.start()
    assert server.try_execute(session, "true").status == 404


def test_FT04_kill_9_of_the_server_while_it_creates_and_cleans_up(start_server):
    server = start_server(POOL_SIZE=0)
    refused = []

    def churn():
        try:
            for _ in range(50):
                server.cleanup(server.create())
        except (OSError, http.client.HTTPException):
            pass  # it was killed
        except AssertionError as error:
            refused.append(str(error))

    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(8):
                pool.submit(churn)
            wait_until(lambda: server.sandbox_pids(), lambda: f"sandboxes are made: {refused}")
            server.kill9()
        server.start()
    assert refused == []
    # What nobody owns is either ready for use or gone; and no id is known to one side only.
    for session in os.listdir(server.state_dir + "/sandboxes"):
        server.cleanup(session)
    wait_until(lambda: len(server.sandbox_pids()) == server.health()["pool"]["total"],
               lambda: f"{server.health()} is true, not {server.sandbox_pids()}: {server.log()}")


def test_FT04_an_answer_that_a_dead_server_waited_for_does_not_reach_the_next(start_server):
    server = start_server(POOL_SIZE=0)
    strays = []
    for n in range(10):
        dead = Keeper(server.state_dir)
        _, _, fds = dead.create(f"box-{n}")
        os.close(fds[0])
        destroy = struct.pack("<BI", Keeper.DESTROY, 7777) + Keeper.bytes(f"box-{n}") + b"\0"
        dead.socket.send(destroy)
        dead.close()
        heir = Keeper(server.state_dir)
        heir.ask(Keeper.HELLO)
        wait_until(lambda: server.sandbox_pids() == [], "it is destroyed")
        heir.socket.send(struct.pack("<BI", Keeper.LIST, 1))  # answered after whatever else comes
        kind = None
        while kind != Keeper.DONE:
            kind, number = struct.unpack_from("<BI", heir.socket.recv(1 << 20))
            if number == 7777:
                strays.append(n)
                break
        heir.close()
    assert strays == []


def test_FT04_the_keeper_obeys_a_server_that_died_before_it_had_read_its_answers(start_server):
    """A session was answered for what the keeper had been told; then its server died."""
    server = start_server(POOL_SIZE=0)
    dead = Keeper(server.state_dir)
    _, _, fds = dead.create("box-1")
    dead.socket.send(struct.pack("<BI", Keeper.LIST, 7))
    assert select.select([dead.socket], [], [], 10)[0]  # an answer that it does not read
    keeper = server.keeper_pid()
    os.kill(keeper, signal.SIGSTOP)
    try:
        dead.socket.send(struct.pack("<BI", Keeper.LABEL, 0) + Keeper.bytes("box-1") +
                         struct.pack("<QB", 600_000, 1) + Keeper.bytes("mine"))
        dead.close()
        os.close(fds[0])
    finally:
        os.kill(keeper, signal.SIGCONT)
    heir = Keeper(server.state_dir)
    heir.ask(Keeper.HELLO)
    kind, fields, fds = heir.ask(Keeper.ATTACH, Keeper.bytes("box-1"))
    assert kind == Keeper.CREATED, "it has an owner, so it is not taken away"
    for fd in fds:
        os.close(fd)
    assert heir.destroy("box-1")[0] == Keeper.DONE
    heir.close()


def test_KEEPER_GRACE_a_keeper_without_a_server_ends_by_itself(start_server):
    server = start_server(KEEPER_GRACE=1)
    server.stdout(server.create("t"), "sleep 99 & echo x > f")
    server.kill9()
    wait_until(lambda: not server.leftovers(), "everything has ended")
    server.start()
    assert server.stdout(server.create("t"), "cat f") == "x\n"


# ---- a sandbox or the server ends ----

def test_FT09_pid_1_killed_by_the_host_the_session_goes_on_with_its_files(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.try_execute, session, "echo begun; sleep 99")
        wait_until(lambda: any(row["stdout_bytes"] for row in server.processes(session)
                               if row["state"] == "running"), "it runs")
        guest = server.guest_pid(session)
        began = time.monotonic()
        os.kill(guest, 9)
        reply = running.result(timeout=5)
    assert time.monotonic() - began < 1.5
    assert reply.status in (200, 503), reply
    if reply.status == 200:
        assert reply.json["cause"] == "lost"
    wait_until(lambda: server.try_execute(session, "true").status == 200, "it is back", 1)
    assert server.stdout(session, "cat f") == "data\n"
    assert server.create("t") == session
    assert server.guest_pid(session) != guest


def test_FT09_a_command_right_after_the_death_of_pid_1_waits_for_the_new_one(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f")
    statuses = set()
    for _ in range(10):
        os.kill(wait_until(lambda: server.guest_pid(session), "it runs"), 9)
        statuses.add(server.try_execute(session, "cat f").status)
        wait_until(lambda: server.try_execute(session, "true").status == 200, "it is back")
    assert statuses <= {200, 503}  # 503: it may have begun, so nobody runs it a second time


def test_FT09_many_at_once_wake_a_lost_sandbox_once(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f")
    guest = server.guest_pid(session)
    os.kill(guest, 9)
    wait_until(lambda: "sandbox_lost" in server.log(), "its death is known")
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: server.try_execute(session, "cat f"), range(20)))
    assert [reply.status for reply in replies].count(200) == 20, replies
    assert {reply.json["stdout"] for reply in replies} == {"data\n"}


def test_FT07_SIGTERM_answers_what_it_can_and_commands_live_on(start_server):
    server = start_server()
    session = server.create("t")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        short = pool.submit(server.try_execute, session, "sleep 1; echo done")
        pool.submit(server.execute_and_forget, session,
                    "until [ -e go ]; do sleep 0.02; done; echo finished")
        wait_until(lambda: len(server.processes(session)) == 2, "both run")
        began = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - began < 15
        assert short.result().json["stdout"] == "done\n"
    assert len(server.sandbox_pids(session)) > 1
    server.start()
    rows = server.processes(session)
    assert sorted(row["state"] for row in rows) == ["exited", "running"]
    number = next(row["process_id"] for row in rows if row["state"] == "running")
    server.stdout(session, "touch go")
    assert server.wait_exited(session, number)["exit_code"] == 0
    assert server.output(session, number) == b"finished\n"


def test_FT07_SIGTERM_of_an_idle_server_is_quick(start_server):
    server = start_server()
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 2
    assert server.keeper_pid()


def test_FT08_a_server_that_sleeps_for_a_while_kills_nothing(start_server):
    server = start_server()
    session = server.create("t")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.execute, session, "for i in $(seq 30000); do echo $i; done",
                              timeout=60)
        wait_until(lambda: server.processes(session), "it runs")
        os.kill(server.process.pid, 19)
        time.sleep(2)  # the fault itself: a stopped server
        os.kill(server.process.pid, 18)
        answer = running.result()
    assert answer["exit_code"] == 0
    assert answer["stdout"] == "".join(f"{n}\n" for n in range(1, 30001))


@pytest.mark.long
def test_300_restarts_at_random_moments_lose_nothing(start_server):
    server = start_server()
    choose = random.Random(int(os.environ.get("THREADBOX_SEED", "1")))
    sessions = [server.create(f"t{n}") for n in range(3)]
    for round_number in range(300):
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for index, session in enumerate(sessions):
                command = talk(f"{index}-{round_number % 100}", lines=1500, pause=0.01,
                               code=round_number % 100)
                pool.submit(server.execute_and_forget, session, command)
            time.sleep(choose.random() * 0.3)  # the random moment
            server.kill9()
        server.start()
        for index, session in enumerate(sessions):
            rows = server.processes(session)
            if not rows:
                continue  # the command had not arrived
            number = rows[-1]["process_id"]
            row = server.wait_exited(session, number, 30)
            name = f"{index}-{row['exit_code']}"
            assert server.output(session, number) == said(name, 1500)[0], round_number
