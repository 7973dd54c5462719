# SPDX-License-Identifier: Apache-2.0
"""Streams of output: bytes that are no text, clients that leave, programs that are silent."""
import base64
import contextlib
import json
import socket
import threading

import pytest

from live import attach_new, connections, lines_of, people, read_events, start, stream
from server import wait_until
from test_metrics import scrape, value

ALL_BYTES = bytes(range(256)) * 1000
PRINT_ALL = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"


def decoded(messages):
    assert all(message["encoding"] == "base64" for message in messages)
    return b"".join(base64.b64decode(message["data"]) for message in messages)


# ---- bytes that are no text ----

def test_events_carry_bytes_exactly_in_base64(server, session):
    process = start(server, session, argv=["python3", "-c", PRINT_ALL])
    with process.follow(stream="stdout", encoding="base64") as events:
        *pieces, end = events
    assert decoded([event.data for event in pieces]) == ALL_BYTES and end.name == "exit"
    for event in pieces:
        assert int(event.id) == event.data["offset"] + len(base64.b64decode(event.data["data"]))
    with process.follow(last_id=1001, stream="stdout", encoding="base64") as events:
        *pieces, _ = events
    assert decoded([event.data for event in pieces]) == ALL_BYTES[1001:]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_execute_carries_bytes_exactly_in_base64(server, session, accept):
    with stream(server, session, f'python3 -c "{PRINT_ALL}"', accept, encoding="base64") as answer:
        if accept == "application/json":
            told = [line for line in lines_of(answer) if line["type"] == "stdout"]
        else:
            told = [event.data for event in read_events(answer) if event.name == "stdout"]
    assert decoded(told) == ALL_BYTES


def test_without_base64_what_is_no_text_is_replaced(server, session):
    with start(server, session, "printf 'a\\xffb'").follow(encoding="text") as events:
        assert next(events).data == {"offset": 0, "data": "a\ufffdb"}


def test_an_unknown_encoding_is_refused(server, session):
    process = start(server, session, "true")
    reply = server.get(f"{process.path}/output?encoding=hex",
                       headers={"Accept": "text/event-stream"})
    assert reply.status == 400 and "encoding" in reply.json["error"]
    reply = server.post("/execute", {"session_id": session, "command": "touch ran", "stream": True,
                                     "encoding": "hex"})
    assert reply.status == 400 and "encoding" in reply.json["error"]
    assert server.stdout(session, "ls") == ""


# ---- who leaves ----

def test_who_leaves_a_silent_stream_is_noticed_at_once(server, session):
    process = start(server, session, "sleep 1000")
    for _ in range(5):
        with process.follow():
            pass
        with stream(server, session, "sleep 1000") as answer:
            answer.readline()
    # Signs of life come each 15 seconds: that would be too late.
    wait_until(lambda: connections(server) == 0, "no connection is left", 5)
    assert process.show()["state"] == "running"


def test_it_is_noticed_on_a_connection_that_had_another_stream_before(server, session):
    ended, silent = start(server, session, "echo x"), start(server, session, "sleep 1000")
    headers = {"Accept": "text/event-stream"}
    with contextlib.closing(server.connect()) as connection:
        connection.request("GET", f"{ended.path}/output", headers=headers)
        assert b"event: exit" in connection.getresponse().read()
        connection.request("GET", f"{silent.path}/output", headers=headers)
        assert connection.getresponse().status == 200
    wait_until(lambda: connections(server) == 0, "no connection is left", 5)


def half_closed(server, request):
    """Sends a request, says that no more will come, and reads the answer to its end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request + b"Connection: close\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return answer.read()


def test_a_client_that_only_closes_its_side_gets_everything(server, session):
    process = start(server, session, "sleep 0.3; echo first; sleep 0.3; echo last")
    said = half_closed(server, f"GET {process.path}/output HTTP/1.1\r\nHost: x\r\n"
                               "Accept: text/event-stream\r\n".encode())
    assert b"first" in said and b"last" in said and b"event: exit" in said


@pytest.mark.parametrize("detach", [None, True, False])
def test_whether_a_command_outlives_its_client_is_said(server, session, detach):
    fields = {} if detach is None else {"detach": detach}
    with stream(server, session, "echo up; sleep 1000 & sleep 1000", timeout=60,
                **fields) as answer:
        number = json.loads(answer.readline())["process_id"]
        answer.readline()
    wait_until(lambda: connections(server) == 0, "no connection is left", 5)
    if detach is False:
        told = server.wait_exited(session, number, 5)
        assert told["cause"] == "killed"
        wait_until(lambda: not people(server, session), "nothing is left")
    else:
        assert server.process_of(session, number)["state"] == "running"


def test_a_command_whose_client_left_ends_with_its_timeout(server, session):
    with stream(server, session, "echo up; sleep 1000", timeout=1) as answer:
        number = json.loads(answer.readline())["process_id"]
    assert server.wait_exited(session, number)["cause"] == "timeout"


def test_every_command_that_ended_is_counted(start_server):
    server = start_server()
    session = server.create()
    start(server, session, "exit 3").wait_exited()
    with attach_new(server, session, "exit 4") as attached:
        attached.drain()
    with stream(server, session, "exit 5") as answer:
        lines_of(answer)
    with stream(server, session, "echo up; sleep 1000", detach=False) as answer:
        answer.readline()
    with attach_new(server, session, "sleep 0.3; exit 6") as attached:
        attached.expect_told("attached")
    left = start(server, session, "sleep 1000")
    server.execute(session, "true")

    def counted(outcome):
        return value(scrape(server)[1], "threadbox_commands_total", f'outcome="{outcome}"')

    wait_until(lambda: (counted("exited_nonzero"), counted("killed")) == (4, 1), "all are counted")
    assert counted("exited0") == 1
    assert value(scrape(server)[1], "threadbox_commands_running") == 1
    # A command that outlives a server is counted by who sees its end.
    server.kill9()
    server.start()
    wait_until(lambda: left.show()["state"] == "running", "it is known again")
    left.delete()
    assert counted("killed") == 1
    assert value(scrape(server)[1], "threadbox_commands_running") == 0


# ---- a stdin that nobody reads ----

def test_a_write_that_nobody_reads_ends_and_says_what_was_taken(server, session):
    process = start(server, session, "until [ -e go ]; do sleep 0.02; done; md5sum",
                    stdin_open=True)
    data = b"".join(b"%07d\n" % i for i in range(30000))
    reply = process.post("stdin?timeout=0.3", data)
    assert reply.status == 409 and "does not read" in reply.json["error"]
    written = reply.json["written"]
    assert 0 < written < len(data)
    again = process.post("stdin?timeout=0", b"x" * 10)
    assert again.status == 409 and again.json["written"] == 0
    server.stdout(session, "touch go")
    rest = process.post("stdin", data[written:])
    assert rest.status == 200 and rest.json["written"] == len(data) - written
    assert process.post("stdin/close").status == 200
    process.wait_exited()
    wanted = server.stdout(session, "md5sum", stdin=data.decode()).split()[0]
    assert process.output().decode().split()[0] == wanted


def test_bytes_that_were_taken_back_leave_others_in_order(server, session):
    process = start(server, session, "until [ -e go ]; do sleep 0.02; done; tr -d a",
                    stdin_open=True)
    first = process.post("stdin?timeout=0.2", b"a" * 100_000)
    assert first.status == 409
    replies = []
    late = threading.Thread(target=lambda: replies.append(
        process.post("stdin?timeout=20", b"a" * 100_000 + b"second")))
    late.start()
    third = process.post("stdin?timeout=0.2", b"third")
    assert third.status == 409
    server.stdout(session, "touch go")
    late.join()
    assert replies[0].status == 200
    process.post("stdin/close")
    process.wait_exited()
    assert process.output() == b"second"


@pytest.mark.parametrize("timeout", ["x", "-1", "4000", "nan", ""])
def test_a_timeout_that_is_none_is_refused(server, session, timeout):
    process = start(server, session, "cat", stdin_open=True)
    reply = process.post(f"stdin?timeout={timeout}", b"x")
    assert reply.status == 400 and "timeout" in reply.json["error"], reply


def test_a_websocket_is_told_when_too_much_waits(server, session):
    process = start(server, session, "sleep 1000", stdin_open=True)
    with process.attach(timeout=60) as attached:
        for _ in range(18):
            attached.send_binary(bytes(1_000_000))
        assert "too much waits" in attached.expect_told("error")["error"]
        attached.tell(type="signal", signal="TERM")
        assert attached.drain()[0] == 1000
