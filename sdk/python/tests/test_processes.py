# SPDX-License-Identifier: Apache-2.0
"""Streams, live processes and terminals."""

import signal
import threading

import pytest
from live import people
from server import wait_until

from threadbox import (
    ConflictError,
    Exited,
    Output,
    ProcessNotFoundError,
    SessionExpiredError,
    Started,
)


def text_of(events, stream=None):
    return "".join(e.text for e in events
                   if isinstance(e, Output) and stream in (None, e.stream))


def test_a_stream_tells_what_happens(client):
    events = list(client.stream("echo one; echo two >&2; exit 4"))
    assert isinstance(events[0], Started) and events[0].process_id >= 1
    assert text_of(events, "stdout") == "one\n" and text_of(events, "stderr") == "two\n"
    assert isinstance(events[-1], Exited) and events[-1].exit_code == 4


def test_a_stream_comes_while_the_command_runs(client):
    events = client.stream("echo first; read line < <(sleep 60); echo never")
    assert isinstance(next(events), Started)
    assert next(events).text == "first\n"  # the command is still sleeping
    events.close()


def test_leaving_a_stream_kills_its_command(server, client):
    for event in client.stream("echo begun; sleep 1000"):
        if isinstance(event, Output):
            break
    del event
    wait_until(lambda: not people(server, client.session_id), "the command is gone")


def test_a_stream_is_retried_on_a_new_session(server, client):
    server.cleanup(client.session_id)
    assert text_of(client.stream("echo again")) == "again\n"
    server.cleanup(client.session_id)
    with pytest.raises(SessionExpiredError):
        list(client.stream("echo again", auto_retry=False))


def test_large_output_streams_whole(client):
    events = list(client.stream("seq 200000"))
    assert text_of(events) == "".join(f"{n}\n" for n in range(1, 200001))


def test_a_process_is_started_written_to_and_waited_for(client):
    process = client.processes.start("cat; exit 5", stdin_open=True, tag="echo")
    assert process.running and process.info.tag == "echo" and process.exit_code is None
    assert process.write("hello ") == 6
    process.write(b"\xff\x00 bytes")
    process.close_stdin()
    ended = process.wait()
    assert ended.exit_code == 5 and not process.running and process.exit_code == 5
    assert process.output() == b"hello \xff\x00 bytes"
    assert process.output("stdout", offset=6) == b"\xff\x00 bytes"
    with pytest.raises(ConflictError):
        process.write("too late")


def test_processes_are_listed_and_found(client):
    process = client.processes.start(argv=["sleep", "1000"])
    assert [one.process_id for one in client.processes.list() if one.running] == [
        process.process_id]
    assert client.processes.get(process.process_id).info.command == process.info.command
    assert process.kill().cause == "killed"
    assert process.refresh().state == "exited"
    with pytest.raises(ProcessNotFoundError):
        client.processes.get(4000)


def test_signals_go_by_name_number_and_enum(client):
    for name in ("TERM", "SIGTERM", 15, signal.SIGTERM):
        process = client.processes.start("sleep 1000")
        process.signal(name)
        assert process.wait().signal == 15
    with pytest.raises(ValueError, match="unknown signal"):
        process.signal("NOPE")


def test_output_is_followed_from_an_offset(client):
    process = client.processes.start("echo one; cat; echo three", stdin_open=True)
    following = process.follow()
    assert next(following).text == "one\n"
    process.write("two\n")
    process.close_stdin()
    rest = list(following)
    assert text_of(rest) == "two\nthree\n" and isinstance(rest[-1], Exited)
    assert text_of(process.follow(offset=4)) == "two\nthree\n"


def test_following_comes_back_after_a_restart_of_the_server(start_server, thread):
    from threadbox import SandboxClient

    server = start_server(PORT=0)
    server.settings["PORT"] = str(server.port)  # the next one has to be where this one was
    client = SandboxClient(server_url=f"http://127.0.0.1:{server.port}", policy="open")
    client.get_or_create_session("u", thread)
    process = client.processes.start("echo before; cat", stdin_open=True)
    following = process.follow()
    assert next(following).text == "before\n"
    server.restart()
    process.write("after")
    process.close_stdin()
    assert text_of(following) == "after"
    client.close()


def test_a_repeated_start_is_one_process(client):
    one = client.processes.start("sleep 1000", idempotency_key="k")
    two = client.processes.start("sleep 1000", idempotency_key="k")
    assert one.process_id == two.process_id


def test_a_terminal_can_be_attached_and_resized(client):
    process = client.processes.start("stty size; read line; stty size; echo got $line",
                                     pty=True, rows=30, cols=100)
    with process.attach() as terminal:
        seen = b""
        while b"30 100" not in seen:
            seen += terminal.receive(10).data
        terminal.resize(40, 120)
        terminal.send("hello\n")
        rest = list(terminal)
    text = b"".join(event.data for event in rest if isinstance(event, Output)).decode()
    assert "40 120" in text and "got hello" in text
    assert isinstance(rest[-1], Exited) and rest[-1].exit_code == 0
    assert terminal.receive() is None


def test_nothing_to_receive_is_a_timeout_and_no_harm(client):
    process = client.processes.start("cat", stdin_open=True)
    with process.attach() as channel:
        with pytest.raises(TimeoutError):
            channel.receive(timeout=0.05)
        channel.send(b"x\xff")
        assert channel.receive(10).data == b"x\xff"
        channel.close_stdin()
        assert channel.receive(10).exit_code == 0


def test_a_refused_message_is_a_conflict_and_the_channel_stays(client):
    process = client.processes.start("sleep 1000")
    with process.attach() as channel:
        channel.resize(10, 10)  # it has no terminal
        with pytest.raises(ConflictError):
            channel.receive(10)
        channel.signal("KILL")
        assert channel.receive(10).process.ended.signal == 9


def test_one_thread_sends_while_another_one_receives(client):
    process = client.processes.start("cat", stdin_open=True)
    data = bytes(range(256)) * 2000
    with process.attach() as channel:
        def send():
            for start in range(0, len(data), 10_000):
                channel.send(data[start:start + 10_000])
            channel.close_stdin()
        sender = threading.Thread(target=send)
        sender.start()
        got = b"".join(event.data for event in channel if isinstance(event, Output))
        sender.join()
    assert got == data


def test_much_input_goes_in_pieces(client):
    data = bytes(20_000_000)
    process = client.processes.start("wc -c", stdin_open=True)
    assert process.write(data) == len(data)
    process.close_stdin()
    process.wait()
    assert process.output() == b"20000000\n"
    process = client.processes.start("wc -c", stdin_open=True)
    with process.attach() as channel:
        channel.send(data)
        channel.close_stdin()
        assert channel.receive(30).data == b"20000000\n"


def test_attaching_to_nothing_is_not_found(client):
    process = client.processes.start("true")
    process.info = type(process.info)(4000, "running", "x")
    with pytest.raises(ProcessNotFoundError):
        process.attach()


@pytest.mark.parametrize("options", [{}, {"command": "a", "argv": ["a"]}, {"argv": []},
                                     {"command": "a", "timeout": -1},
                                     {"command": "a", "pty": True, "rows": 0},
                                     {"command": "a", "env": {"A=B": "c"}},
                                     {"command": "a", "tag": "x" * 257}])
def test_impossible_starts_are_refused_here(client, options):
    with pytest.raises(ValueError):
        client.processes.start(**options)
