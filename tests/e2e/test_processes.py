# SPDX-License-Identifier: Apache-2.0
"""Processes that are started and left to themselves: asked about, written to, ended."""
import concurrent.futures
import hashlib
import random

import pytest

from live import Live, people, start, try_start
from server import wait_until

# Children that a kill by process group, session or parent would miss.
STUBBORN = ('setsid nohup sleep 1000 & (sleep 1000 &) ; '
            'python3 -c "import os; os.fork() or os.fork(); print(1, flush=True); '
            'import time; time.sleep(1000)"')
LEFT_BEHIND = ('setsid nohup sleep 1000 >/dev/null 2>&1 & (sleep 1000 &) ; '
               'python3 -c "import os, time; os.fork() or os.fork() or time.sleep(1000)" &'
               'sleep 0.2')


# ---- starting ----

def test_a_start_answers_at_once_with_what_it_started(server, session):
    process = start(server, session, "sleep 1000", tag="my tag", cwd="/tmp")
    row = process.show()
    assert (row["state"], row["command"], row["cwd"]) == ("running", "sleep 1000", "/tmp")
    assert (row["tag"], row["pty"], row["stdin_open"]) == ("my tag", False, False)
    assert row["pid"] > 1 and "exit_code" not in row
    assert [one["process_id"] for one in server.processes(session)] == [process.number]


def test_argv_is_run_without_a_shell(server, session):
    words = ["printf", "%s|", "a b", "$HOME", "*", "é", ""]
    process = start(server, session, argv=words)
    assert process.wait_exited()["exit_code"] == 0
    assert process.output() == "a b|$HOME|*|é||".encode()


def test_cwd_env_and_stdin_are_those_of_execute(server, session):
    process = start(server, session, "pwd; echo $A; cat", cwd="/tmp", env={"A": "x y"},
                    stdin="typed\n")
    process.wait_exited()
    assert process.output() == b"/tmp\nx y\ntyped\n"


def test_the_end_is_told_with_code_cause_and_usage(server, session):
    row = start(server, session, "echo out; echo err >&2; exit 7").wait_exited()
    assert (row["exit_code"], row["cause"], row["signal"]) == (7, "exited", None)
    assert (row["stdout_bytes"], row["stderr_bytes"]) == (4, 4)
    assert row["cpu_time_ms"] >= 0 and row["peak_memory_bytes"] > 0


def test_a_timeout_ends_it(server, session):
    process = start(server, session, "echo before; sleep 1000", timeout=0.3)
    row = process.wait_exited(4)
    assert (row["cause"], row["exit_code"], row["timed_out"]) == ("timeout", 124, True)
    assert process.output() == b"before\n"


@pytest.mark.parametrize("fields", [
    {}, {"command": "true", "argv": ["true"]}, {"argv": []}, {"argv": "true"}, {"argv": [1]},
    {"argv": ["a\0b"]}, {"command": "true", "pty": "yes"}, {"command": "true", "pty": {"rows": 0}},
    {"command": "true", "pty": {"cols": 10001}}, {"command": "true", "stdin_open": 1},
    {"command": "true", "tag": "x" * 257}, {"command": "true", "tag": 5},
    {"command": "true", "tag": "threadbox.code python"},
    {"command": "true", "idempotency_key": "x" * 257}, {"command": "true", "timeout": 0},
    {"command": "true", "cwd": "/no/such/place"}, {"argv": ["/no/such/program"]},
])
def test_what_cannot_be_started_is_400(server, session, fields):
    reply = try_start(server, session, **fields)
    assert reply.status == 400 and reply.json["error"], reply
    assert not [row for row in server.processes(session) if row["state"] == "running"]


@pytest.mark.parametrize("method,path", [
    ("GET", ""), ("DELETE", ""), ("GET", "/output"), ("POST", "/signal"), ("POST", "/stdin"),
    ("POST", "/stdin/close"), ("POST", "/resize"),
])
def test_unknown_processes_and_sessions_are_404(server, session, method, path):
    body = {"signal": "TERM", "rows": 5, "cols": 5, "data": "x"} if method == "POST" else None
    for place in (f"{session}/processes/4000", f"{session}/processes/99999999999",
                  "no-such-session/processes/1"):
        reply = server.request(method, f"/api/sessions/{place}{path}", body)
        assert reply.status == 404, (place, reply)
    reply = server.request(method, f"/api/sessions/{session}/processes/one{path}", body)
    assert reply.status in (400, 404), reply


def test_a_start_in_an_unknown_session_is_404(server):
    assert try_start(server, "no-such-session", "true").status == 404


# ---- output ----

def test_binary_output_comes_back_page_by_page(server, session):
    seed = "import random, os; os.write(1, random.Random(5).randbytes(%d))"
    size = 60_000  # less than a pipe holds: one write takes it
    process = start(server, session, argv=["python3", "-c", seed % size])
    process.wait_exited()
    wanted = random.Random(5).randbytes(size)
    assert process.output() == wanted
    assert process.output(limit=777) == wanted
    assert process.output(offset=59_000) == wanted[59_000:]
    page = process.page(stream="stdout", offset=100, limit=50)
    assert page.body == wanted[100:150]
    assert page.headers["X-Output-Offset"] == "100"
    assert page.headers["X-Output-Total"] == str(size)
    assert page.headers["X-Process-State"] == "exited"


def test_a_page_beyond_the_end_is_empty_and_says_how_much_there_is(server, session):
    process = start(server, session, "echo x")
    process.wait_exited()
    page = process.page(stream="stdout", offset=1000)
    assert (page.status, page.body, page.headers["X-Output-Total"]) == (200, b"", "2")


@pytest.mark.parametrize("query", [{"offset": "-1"}, {"offset": "x"}, {"limit": "1.5"},
                                   {"stream": "stdin"}, {"offset": "99999999999999999999999"}])
def test_a_page_that_cannot_be_meant_is_400(server, session, query):
    process = start(server, session, "true")
    assert process.page(**query).status == 400


def test_streams_are_apart_and_together(server, session):
    process = start(server, session, "echo one; sleep 0.05; echo two >&2; sleep 0.05; echo three")
    process.wait_exited()
    assert process.output("stdout") == b"one\nthree\n"
    assert process.output("stderr") == b"two\n"
    assert process.output("all") == b"one\ntwo\nthree\n"


# ---- signals and ends ----

def test_delete_ends_it_and_waits_for_that(server, session):
    process = start(server, session, "trap '' TERM INT HUP; sleep 1000 & sleep 1000")
    reply = process.delete()
    assert reply.status == 200
    assert (reply.json["state"], reply.json["cause"]) == ("exited", "killed")
    wait_until(lambda: not people(server, session), "nothing is left")
    assert process.delete().status == 200  # it is gone, as was wished


@pytest.mark.parametrize("end", ["timeout", "delete", "signal"])
def test_after_a_kill_not_one_process_is_left(server, session, end):
    process = start(server, session, STUBBORN, timeout=1 if end == "timeout" else None)
    process.wait_said(b"1\n1\n1\n")
    assert len(people(server, session)) >= 5
    if end == "delete":
        assert process.delete().status == 200
    elif end == "signal":
        assert process.signal("KILL", tree=True).status == 200
    process.wait_exited(4)
    wait_until(lambda: not people(server, session), "nothing is left", 2)


def test_after_a_normal_end_what_it_left_behind_runs(server, session):
    process = start(server, session, LEFT_BEHIND)
    assert process.wait_exited()["cause"] == "exited"
    told = server.stdout(session, "pgrep -x sleep | wc -l; pgrep -x python3 | wc -l")
    assert told == "2\n1\n"


def test_a_signal_goes_to_the_leader_or_to_the_tree(server, session):
    script = ("trap 'echo leader' USR1; bash -c 'trap \"echo child\" USR1; echo up; "
              "while :; do sleep 0.02; done' & echo up; while :; do sleep 0.02; done")
    process = start(server, session, script)
    process.wait_said(b"up\nup\n")
    assert process.signal("USR1", tree=False).status == 200
    process.wait_said(b"leader\n")
    assert b"child" not in process.output()
    row = process.show()
    assert row["state"] == "running"
    process.delete()


def test_a_signal_without_more_goes_to_the_tree(server, session):
    process = start(server, session, "setsid sleep 1000 & sleep 1000 & echo up; wait")
    process.wait_said(b"up\n")
    assert process.signal("SIGTERM").status == 200
    assert process.wait_exited()["signal"] == 15
    wait_until(lambda: not people(server, session), "nothing is left")


@pytest.mark.parametrize("body", [{"signal": "NOSUCH"}, {"signal": 0}, {"signal": 65}, {},
                                  {"signal": -9}, {"signal": 9.5}, {"signal": None},
                                  {"signal": "TERM", "tree": "yes"}])
def test_unknown_signals_are_400(server, session, body):
    process = start(server, session, "sleep 1000")
    assert process.post("signal", body).status == 400
    assert process.show()["state"] == "running"


def test_an_ended_process_takes_no_signal(server, session):
    process = start(server, session, "true")
    process.wait_exited()
    assert process.signal("TERM").status == 409


# ---- stdin ----

def test_stdin_in_pieces_until_it_is_closed(server, session):
    process = start(server, session, "cat; echo end", stdin="first ", stdin_open=True)
    assert process.show()["stdin_open"] is True
    assert process.write(b"\0\xff second ").json["written"] == 10
    process.wait_said(b"first \0\xff second ")
    assert process.write({"data": "é\n"}).json["written"] == 3
    reply = process.post("stdin/close")
    assert reply.status == 200, reply
    assert process.wait_exited()["exit_code"] == 0
    assert process.output() == "first \0".encode() + b"\xff second " + "é\nend\n".encode()


def test_a_closed_stdin_is_409(server, session):
    never = start(server, session, "sleep 1000")
    assert never.write(b"x").status == 409
    assert never.post("stdin/close").status == 409
    closed = start(server, session, "cat; sleep 1000", stdin_open=True)
    assert closed.post("stdin/close").status == 200
    wait_until(lambda: closed.write(b"x").status == 409, "writes are refused")
    assert closed.post("stdin/close").status == 409
    ended = start(server, session, "true", stdin_open=True)
    ended.wait_exited()
    assert ended.write(b"x").status == 409


def test_much_stdin_arrives_whole(server, session):
    process = start(server, session, "md5sum", stdin_open=True)
    whole = hashlib.md5()
    for number in range(4):
        data = random.Random(number).randbytes(1 << 20)
        whole.update(data)
        assert process.write(data).status == 200
    process.post("stdin/close")
    process.wait_exited()
    assert process.output().split()[0].decode() == whole.hexdigest()


def test_bad_stdin_bodies_are_400(server, session):
    process = start(server, session, "cat", stdin_open=True)
    for body in ({}, {"data": 5}, []):
        assert process.write(body).status == 400, body
    assert process.show()["state"] == "running"


# ---- terminals ----

def test_a_terminal_has_a_size_that_changes(server, session):
    process = start(server, session, "tty; stty size; read x; stty size",
                    pty={"rows": 30, "cols": 100})
    process.wait_said(b"30 100")
    assert process.show()["pty"] is True
    assert process.post("resize", {"rows": 40, "cols": 120}).status == 200
    assert process.write(b"\n").status == 200
    process.wait_exited()
    assert process.output().startswith(b"/dev/pts/") and b"40 120" in process.output()


def test_a_resize_needs_a_terminal_and_a_size(server, session):
    plain = start(server, session, "sleep 1000")
    reply = plain.post("resize", {"rows": 5, "cols": 5})
    assert reply.status == 400 and "terminal" in reply.json["error"]
    process = start(server, session, "sleep 1000", pty=True)
    for body in ({}, {"rows": 5}, {"rows": 0, "cols": 5}, {"rows": 5, "cols": 10001},
                 {"rows": "5", "cols": 5}):
        assert process.post("resize", body).status == 400, body


# ---- once ----

def test_a_key_starts_one_process_however_often(server, session):
    script = "echo ran >> count; sleep 1000"
    first = start(server, session, script, idempotency_key="k")
    again = try_start(server, session, script, headers={"Idempotency-Key": "k"})
    assert again.status in (200, 201) and again.json["process_id"] == first.number
    other = start(server, session, script, idempotency_key="other")
    assert other.number != first.number
    wait_until(lambda: server.stdout(session, "cat count") == "ran\nran\n", "both ran")


def test_twenty_starts_at_once_with_a_key_are_one_process(server, session):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: try_start(
            server, session, "echo ran >> count", idempotency_key="k"), range(20)))
    assert {reply.status for reply in replies} <= {200, 201}, replies
    numbers = {reply.json["process_id"] for reply in replies}
    assert len(numbers) == 1
    Live(server, session, numbers.pop()).wait_exited()
    assert server.stdout(session, "cat count") == "ran\n"


def test_the_same_key_in_another_session_is_another_process(server, session):
    other = server.create()
    start(server, session, "touch here", idempotency_key="k").wait_exited()
    start(server, other, "touch here", idempotency_key="k").wait_exited()
    assert server.stdout(other, "ls") == "here\n"
    server.cleanup(other)


def test_keys_tags_and_stdin_outlive_the_server(start_server):
    server = start_server()
    session = server.create()
    process = start(server, session, "echo ran >> count; cat", idempotency_key="k", tag="mine",
                    stdin_open=True)
    process.write(b"before ")
    ended = start(server, session, "true", idempotency_key="ended")
    ended.wait_exited()
    server.restart()
    again = try_start(server, session, "echo ran >> count; cat", idempotency_key="k")
    assert again.json["process_id"] == process.number
    assert try_start(server, session, "true",
                     idempotency_key="ended").json["process_id"] == ended.number
    row = process.show()
    assert (row["tag"], row["state"], row["stdin_open"]) == ("mine", "running", True)
    assert process.write(b"after").status == 200
    process.post("stdin/close")
    assert process.wait_exited()["exit_code"] == 0
    assert process.output() == b"before after"
    assert server.stdout(session, "cat count") == "ran\n"


# ---- policies ----

def test_a_policy_checks_commands_words_and_terminals(server):
    session = server.create(policy="strict")
    for fields in ({"command": "sudo ls"}, {"argv": ["sudo", "ls"]}):
        reply = try_start(server, session, **fields)
        assert reply.status == 400 and "position" in reply.json, reply
    reply = try_start(server, session, "ls", pty=True)
    assert reply.status == 400 and "terminal" in reply.json["error"], reply
    assert "forbidden_pattern" in reply.json
    assert server.processes(session) == []
    process = start(server, session, argv=["echo", "fine; sudo ls"])
    process.wait_exited()
    assert process.output() == b"fine; sudo ls\n"
    server.cleanup(session)
