# SPDX-License-Identifier: Apache-2.0
"""Local mode: processes, their output while it comes, terminals and channels."""

from __future__ import annotations

import pytest
from local_support import box, engine, run, state, wait_until  # noqa: F401

from threadbox import _errors as errors
from threadbox._engine import Exited, Output, ProcessSpec, Started


def text_of(events, stream=None) -> str:
    pieces = [e for e in events if isinstance(e, Output) and stream in (None, e.stream)]
    return b"".join(piece.data for piece in pieces).decode()


def test_a_stream_tells_everything_as_it_comes(box):
    events = box.stream("echo a; read -t 0.2 < <(sleep 9); echo b >&2; exit 7")
    first = next(events)
    assert isinstance(first, Started)
    rest = list(events)
    assert text_of(rest, "stdout") == "a\n"
    assert text_of(rest, "stderr") == "b\n"
    assert isinstance(rest[-1], Exited)
    assert (rest[-1].exit_code, rest[-1].process.process_id) == (7, first.process_id)


def test_the_first_line_comes_before_the_end(box):
    events = box.stream("echo first; sleep 1000")
    assert isinstance(next(events), Started)
    assert next(events).data == b"first\n"
    events.close()  # kills it
    [done] = run(box.engine.processes(box.id))
    assert done.ended is not None
    assert done.ended.cause == "killed"
    assert box.out("pgrep -c sleep || true") == "0\n"


def test_characters_are_not_cut(box):
    events = list(box.stream(r"printf '\xc3'; sleep 0.3; printf '\xa4x'; printf '\xe2\x82'"))
    pieces = [event.data for event in events if isinstance(event, Output)]
    assert b"".join(pieces) == b"\xc3\xa4x\xe2\x82"
    assert not any(piece.startswith(b"\xa4") for piece in pieces)


def test_half_a_character_waits_only_a_moment(box):
    events = box.stream(r"printf '\xc3'; sleep 1000")
    next(events)
    assert next(events).data == b"\xc3"
    events.close()


def test_much_output_is_all_there(box):
    events = list(box.stream("seq 200000"))
    assert text_of(events) == "".join(f"{n}\n" for n in range(1, 200001))
    done = box.execute("seq 200000")
    assert done.stdout.endswith("200000\n")
    page = run(box.engine.output(box.id, done.process_id, "stdout", 10, 5))
    assert (page.offset, page.data, page.running) == (10, b"6\n7\n8", False)
    assert page.total == done.stdout_bytes


def test_a_process_lives_on_and_is_spoken_to(box):
    made = box.start("cat; echo over", stdin_open=True, tag="cat")
    assert (made.state, made.tag, made.stdin_open) == ("running", "cat", True)
    where = (box.id, made.process_id)
    assert run(box.engine.write_stdin(*where, b"one\n")) == 4
    channel = run(box.engine.attach(*where, "all", 0))
    assert run(channel.receive()).data == b"one\n"
    with pytest.raises(TimeoutError):
        run(channel.receive(0.05))
    run(channel.send(b"two\n"))
    assert run(channel.receive()).data == b"two\n"
    run(channel.close_stdin())
    assert run(channel.receive()).data == b"over\n"
    assert run(channel.receive()).exit_code == 0
    assert run(channel.receive()) is None
    with pytest.raises(errors.ConflictError):
        run(box.engine.write_stdin(*where, b"x"))
    assert text_of(box.follow(made.process_id)) == "one\ntwo\nover\n"


def test_signals_and_kill(box):
    made = box.start("trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
    channel = run(box.engine.attach(box.id, made.process_id, "stdout", 0))
    assert run(channel.receive()).data == b"ready\n"
    run(box.engine.signal(box.id, made.process_id, "USR1", False))
    events = list(box.follow(made.process_id))
    assert text_of(events) == "ready\ngot\n"
    assert events[-1].exit_code == 5
    with pytest.raises(errors.ConflictError):
        run(box.engine.signal(box.id, made.process_id, "TERM", True))
    other = box.start("sleep 1000")
    ended = run(box.engine.kill(box.id, other.process_id))
    assert (ended.state, ended.ended.cause) == ("exited", "killed")


def test_a_terminal(box):
    made = box.start("stty size; read line; stty size; echo $line", pty=(30, 90))
    channel = run(box.engine.attach(box.id, made.process_id, "all", 0))
    assert run(channel.receive()).data == b"30 90\r\n"
    run(channel.resize(40, 100))
    run(channel.send(b"typed\n"))
    told = b""
    while isinstance(piece := run(channel.receive()), Output):
        told += piece.data
    assert b"40 100\r\ntyped\r\n" in told
    with pytest.raises(errors.InvalidRequestError):
        run(box.engine.resize(box.id, box.start("sleep 9").process_id, 10, 10))


def test_argv_needs_no_shell(box):
    made = run(box.engine.start(box.id, ProcessSpec(argv=["echo", "$HOME", "a b"])))
    assert text_of(box.follow(made.process_id)) == "$HOME a b\n"


def test_a_start_happens_once_for_a_key(box):
    first = box.start("echo x >> log; sleep 1000", idempotency_key="k")
    again = box.start("echo x >> log; sleep 1000", idempotency_key="k")
    assert first.process_id == again.process_id


def test_what_is_not_there(box):
    for call in (box.engine.process, box.engine.kill):
        with pytest.raises(errors.ProcessNotFoundError):
            run(call(box.id, 4711))
    with pytest.raises(errors.InvalidRequestError, match="cwd"):
        box.start("true", cwd="/nowhere")


def test_a_background_job_outlives_its_command(box):
    box.out("(sleep 0.3; echo late > done) > /dev/null 2>&1 &")
    wait_until(lambda: box.execute("cat done").stdout == "late\n", what="the job")
