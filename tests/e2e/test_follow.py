# SPDX-License-Identifier: Apache-2.0
"""Output as it is printed: events that can be resumed, and /execute as a stream."""
import concurrent.futures
import json
import threading

import pytest

from live import connections, lines_of, people, read_events, start, stream
from server import wait_until

# Characters of one to four bytes, so that every cut within one shows.
LETTERS = "aé漢🙂"


def text_of(events, name=None):
    return "".join(event.data["data"] for event in events
                   if event.name != "exit" and name in (None, event.name))


# ---- events ----

def test_output_comes_while_it_is_printed(server, session):
    process = start(server, session, "echo one; read x; echo two; read x; echo three",
                    stdin_open=True)
    with process.follow(stream="stdout") as events:
        for line in ("one\n", "two\n"):
            event = next(events)
            assert (event.name, event.data["data"]) == ("stdout", line)
            process.write(b"\n")
        assert next(events).data == {"offset": 8, "data": "three\n"}
        end = next(events)
        assert (end.name, end.id, end.data["exit_code"]) == ("exit", None, 0)
        assert list(events) == []


def test_an_id_is_where_to_go_on(server, session):
    process = start(server, session, "for i in {1..9}; do echo line $i; sleep 0.01; done")
    process.wait_exited()
    whole = process.output("all").decode()
    with process.follow(stream="all") as events:
        everything = list(events)
    assert text_of(everything) == whole and everything[-1].name == "exit"
    for offset in (0, 1, 7, 50, len(whole)):
        with process.follow(last_id=offset) as events:
            resumed = list(events)
        assert text_of(resumed) == whole[offset:] and resumed[-1].name == "exit"
        with process.follow(stream="all", offset=offset) as events:
            assert list(events) == resumed
    # What a client has seen counts, not where its first request began.
    with process.follow(last_id=14, offset=0) as events:
        assert text_of(events) == whole[14:]


def test_a_follower_that_comes_back_after_each_event_misses_and_repeats_nothing(server, session):
    process = start(server, session, "for i in {1..200}; do echo $i; sleep 0.002; done")
    seen, last = "", 0
    while True:
        with process.follow(last_id=last, stream="stdout") as events:
            event = next(events)
        if event.name == "exit":
            break
        assert event.data["offset"] == last
        seen, last = seen + event.data["data"], int(event.id)
    assert seen == "".join(f"{i}\n" for i in range(1, 201))


@pytest.mark.parametrize("query,headers", [
    ("offset=x", {}), ("stream=none", {}), ("", {"Last-Event-ID": "abc"}),
    ("", {"Last-Event-ID": "-1"}),
])
def test_what_cannot_be_followed_is_400(server, session, query, headers):
    process = start(server, session, "true")
    reply = server.get(f"{process.path}/output?{query}",
                       headers={"Accept": "text/event-stream", **headers})
    assert reply.status == 400, reply


def test_characters_are_not_cut_between_pieces(server, session):
    code = f"print('x' + {LETTERS!r} * 60000)"  # 10 bytes each: 64 KiB falls within characters
    process = start(server, session, argv=["python3", "-c", code])
    with process.follow(stream="stdout") as events:
        everything = list(events)
    assert text_of(everything) == "x" + LETTERS * 60000 + "\n"
    assert len(everything) > 3


@pytest.mark.parametrize("how", ["follow", "execute"])
def test_a_character_that_is_printed_in_halves_comes_whole(server, session, how):
    command = ("printf 'a\\xf0'; sleep 0.1; printf '\\x9f\\x99'; sleep 0.1; printf '\\x82\\xc3';"
               "sleep 0.1; printf '\\xa9'; sleep 0.1; printf 'z\\xc3'")
    if how == "follow":
        with start(server, session, command).follow(stream="stdout") as events:
            assert text_of(events) == "a🙂éz\ufffd"  # the last one is never finished
    else:
        with stream(server, session, command) as answer:
            told = lines_of(answer)
        assert "".join(line.get("data", "") for line in told) == "a🙂éz\ufffd"


def test_several_followers_get_the_same(server, session):
    process = start(server, session, "read x; for i in {1..500}; do echo $i; done; exit 3",
                    stdin_open=True)
    ready = threading.Barrier(11)

    def follow(number):
        with process.follow(stream="all" if number % 2 else "stdout") as events:
            ready.wait(20)
            everything = list(events)
        return text_of(everything), everything[-1].data["exit_code"]

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        results = [pool.submit(follow, number) for number in range(10)]
        ready.wait(20)
        process.write(b"\n")
        told = {result.result() for result in results}
    assert told == {("".join(f"{i}\n" for i in range(1, 501)), 3)}


def test_streams_can_be_followed_apart(server, session):
    process = start(server, session, "echo out; echo err >&2")
    for name, said in (("stdout", "out\n"), ("stderr", "err\n")):
        with process.follow(stream=name) as events:
            everything = list(events)
        assert [event.name for event in everything] == [name, "exit"]
        assert text_of(everything) == said


def test_what_is_not_kept_any_more_is_told(start_server):
    server = start_server(OUTPUT_LIMIT_MB=1)
    session = server.create()
    process = start(server, session, "seq 1000000")  # 6.9 MB
    process.wait_exited(30)
    total = process.show()["stdout_bytes"]
    whole = "".join(f"{i}\n" for i in range(1, 1000001))
    assert total == len(whole)
    with process.follow(stream="stdout") as events:
        everything = list(events)
    gaps = [event for event in everything if event.data.get("dropped")]
    assert gaps and sum(event.data["dropped"] for event in gaps) > total // 2
    for event in everything[:-1]:
        at = event.data["offset"]
        assert whole[at:at + len(event.data["data"])] == event.data["data"]
    assert sum(len(event.data["data"]) + event.data.get("dropped", 0)
               for event in everything[:-1]) == total
    page = process.page(stream="stdout", offset=total // 2)
    at = int(page.headers["X-Output-Offset"])
    assert at > total // 2 and page.body.decode() == whole[at:at + len(page.body)]


# ---- /execute ----

def test_execute_streams_lines_of_json(server, session):
    with stream(server, session, "echo out; echo err >&2; exit 5") as answer:
        assert answer.headers["Content-Type"].startswith("application/x-ndjson")
        told = lines_of(answer)
    assert told[0]["type"] == "start" and told[0]["process_id"] > 0
    assert sorted((line["type"], line["data"]) for line in told[1:-1]) == [
        ("stderr", "err\n"), ("stdout", "out\n")]
    assert told[-1]["type"] == "exit"
    assert (told[-1]["exit_code"], told[-1]["cause"]) == (5, "exited")
    assert told[-1]["process_id"] == told[0]["process_id"]


def test_execute_streams_events_to_who_accepts_them(server, session):
    with stream(server, session, "echo out; echo err >&2", "text/event-stream") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        told = list(read_events(answer))
    assert [event.name for event in told][::len(told) - 1] == ["start", "exit"]
    assert sorted((event.name, event.data["data"]) for event in told[1:-1]) == [
        ("stderr", "err\n"), ("stdout", "out\n")]


def test_execute_streams_while_the_command_runs(server, session):
    command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two"
    with stream(server, session, command) as answer:
        assert json.loads(answer.readline())["type"] == "start"
        assert json.loads(answer.readline())["data"] == "one\n"
        server.stdout(session, "touch go")
        assert json.loads(answer.readline())["data"] == "two\n"
        assert json.loads(answer.readline())["type"] == "exit"


def test_a_background_child_does_not_hold_the_stream(server, session):
    with stream(server, session, "sleep 1000 & echo done") as answer:
        told = lines_of(answer)
    assert [line["type"] for line in told] == ["start", "stdout", "exit"]
    assert len(people(server, session)) == 1


def test_a_stream_ends_with_the_timeout(server, session):
    with stream(server, session, "echo before; sleep 1000", timeout=0.3) as answer:
        told = lines_of(answer)
    assert told[1]["data"] == "before\n"
    assert (told[-1]["cause"], told[-1]["exit_code"]) == ("timeout", 124)
    wait_until(lambda: not people(server, session), "nothing is left")


def test_a_stream_that_cannot_begin_is_an_ordinary_error(server, session):
    for fields, status in (({"stream": "yes"}, 400), ({"stream": True, "cwd": "/none"}, 400),
                           ({"stream": True, "session_id": "unknown"}, 404)):
        body = {"session_id": session, "command": "true", **fields}
        reply = server.post("/execute", body)
        assert reply.status == status and reply.json["error"], reply


def test_who_vanishes_leaves_nothing_behind(server, session):
    process = start(server, session, "while :; do echo x; sleep 0.01; done")
    for _ in range(10):
        with process.follow() as events:
            next(events)
        with stream(server, session, "yes | head -c 3000000") as answer:
            answer.readline()
    wait_until(lambda: connections(server) == 0, "no connection is left")
    process.delete()
    wait_until(lambda: not people(server, session), "nothing runs")
    assert server.stdout(session, "echo usable") == "usable\n"
