# SPDX-License-Identifier: Apache-2.0
"""A WebSocket to a process: bytes both ways, control as JSON, any number of watchers."""
import concurrent.futures
import hashlib
import json
import random
import threading

import pytest

from live import Attached, attach_new, connections, people, start
from server import wait_until
from websocket import Refused

BASH = ["bash", "--norc", "--noprofile", "--noediting", "-i"]


def shell(server, session, **size):
    fields = {"argv": BASH, "env": {"PS1": "ready> "}, "pty": size or True}
    return attach_new(server, session, fields)


def test_cat_echoes_bytes_and_the_end_is_told(server, session):
    process = start(server, session, "cat; exit 3", stdin_open=True)
    data = bytes(range(256)) * 400
    with process.attach() as socket:
        hello = socket.expect_told("attached")
        assert (hello["process_id"], hello["offset"]) == (process.number, 0)
        socket.send_binary(data)
        socket.until(lambda: len(socket.data) == len(data))
        assert socket.data == data
        socket.tell(type="stdin_close")
        assert socket.drain()[0] == 1000
        end = socket.told[-1]
        assert (end["type"], end["exit_code"], end["offset"]) == ("exit", 3, len(data))


def test_a_terminal_has_prompt_size_and_ctrl_c(server, session):
    with shell(server, session, rows=20, cols=70) as socket:
        socket.expect(b"ready> ")
        socket.send_binary(b"stty size\n")
        assert b"20 70" in socket.expect(b"ready> ")
        socket.tell(type="resize", rows=33, cols=111)
        socket.send_binary(b"stty size\n")
        assert b"33 111" in socket.expect(b"ready> ")
        # Printed by the job itself: while bash still starts one, Ctrl-C means bash.
        socket.send_binary(b"bash -c 'echo up; exec sleep 1000'\n")
        socket.expect(b"\nup")
        socket.send_binary(b"\x03")
        socket.expect(b"ready> ")
        socket.send_binary(b"echo code $?\n")
        assert b"code 130" in socket.expect(b"ready> ")
        socket.send_binary(b"exit 4\n")
        assert socket.drain()[0] == 1000
        assert (socket.told[-1]["type"], socket.told[-1]["exit_code"]) == ("exit", 4)


def test_a_terminal_is_come_back_to(server, session):
    with shell(server, session) as socket:
        number = socket.expect_told("attached")["process_id"]
        seen = len(socket.expect(b"ready> "))
        socket.send_binary(b"X=kept; echo first\n")
        seen += len(socket.expect(b"\nfirst\r\n"))
    path = f"/api/sessions/{session}/processes/{number}"
    assert server.get(path).json["state"] == "running"
    with Attached(server, f"{path}/attach?offset={seen}") as socket:
        assert socket.expect(b"ready> ").endswith(b"ready> ")
        socket.send_binary(b"echo $X\n")
        assert b"kept" in socket.expect(b"kept\r\nready> ")


def test_a_signal_frame_reaches_the_process(server, session):
    process = start(server, session, "trap 'echo got; exit 9' USR1; echo up; "
                                     "while :; do sleep 0.02; done")
    with process.attach() as socket:
        socket.expect(b"up\n")
        socket.tell(type="signal", signal="USR1")
        socket.expect(b"got\n")
        assert socket.drain()[0] == 1000
        assert socket.told[-1]["exit_code"] == 9


def test_a_signal_frame_may_mean_the_tree(server, session):
    process = start(server, session, "setsid sleep 1000 & echo up; wait")
    with process.attach() as socket:
        socket.expect(b"up\n")
        socket.tell(type="signal", signal="KILL", tree=True)
        assert socket.drain()[0] == 1000
    wait_until(lambda: not people(server, session), "nothing is left")


def test_a_process_that_does_not_read_can_still_be_ended(server, session):
    process = start(server, session, "sleep 1000", stdin_open=True)
    with process.attach() as socket:
        socket.send_binary(bytes(500_000))  # more than its pipe holds
        socket.tell(type="signal", signal="TERM")
        assert socket.drain()[0] == 1000
        assert socket.told[-1]["signal"] == 15


def test_what_is_not_read_at_once_is_not_lost(server, session):
    process = start(server, session, "until [ -e go ]; do sleep 0.02; done; md5sum",
                    stdin_open=True)
    data = random.Random(1).randbytes(900_000)
    with process.attach() as socket:
        for at in range(0, len(data), 300_000):
            socket.send_binary(data[at:at + 300_000])
        socket.tell(type="stdin_close")
        wait_until(lambda: not process.show()["stdin_open"], "all was taken")
        server.stdout(session, "touch go")
        assert socket.drain()[0] == 1000
        assert socket.data.split()[0].decode() == hashlib.md5(data).hexdigest()


@pytest.mark.parametrize("text", [
    "not json", "[]", "{}", '{"type": 5}', '{"type": "nonsense"}', '{"type": "signal"}',
    '{"type": "signal", "signal": "NOSUCH"}', '{"type": "resize", "rows": 5, "cols": 5}',
    '{"type": "resize"}', "[" * 10000,
])
def test_a_frame_that_cannot_be_obeyed_is_told_and_forgiven(server, session, text):
    process = start(server, session, "cat", stdin_open=True)
    with process.attach() as socket:
        socket.send_text(text)
        assert socket.expect_told("error")["error"]
        socket.send_binary(b"still here")
        socket.expect(b"still here")


def test_bytes_for_a_closed_stdin_are_told(server, session):
    process = start(server, session, "sleep 1000")
    with process.attach() as socket:
        socket.send_binary(b"x")
        assert "stdin" in socket.expect_told("error")["error"]


def test_foreign_pages_are_refused(server, session):
    process = start(server, session, "sleep 1000")
    for connect in (lambda **o: process.attach(**o),
                    lambda **o: attach_new(server, session, "touch started", **o)):
        with pytest.raises(Refused) as refused:
            connect(headers={"Origin": "https://evil.example"})
        assert refused.value.status == 403
    assert server.stdout(session, "ls") == ""
    with process.attach(headers={"Origin": f"http://127.0.0.1:{server.port}"}) as socket:
        socket.expect_told("attached")


def test_who_cannot_be_attached_is_told_by_status(server, session):
    process = start(server, session, "sleep 1000")
    for query, status in (("?offset=x", 400), ("?stream=none", 400)):
        with pytest.raises(Refused) as refused:
            process.attach(query)
        assert refused.value.status == status
    for text, status in (("{", 400), ('{"argv": []}', 400)):
        with pytest.raises(Refused) as refused:
            attach_new(server, session, text)
        assert refused.value.status == status
    process.path = f"/api/sessions/{session}/processes/4000"
    with pytest.raises(Refused) as refused:
        process.attach()
    assert refused.value.status == 404
    assert server.get(f"/api/sessions/{session}/processes/1/attach").status in (400, 426)


def test_start_and_attach_in_one_go(server, session):
    with attach_new(server, session, "read x; echo $x é; exit 6") as socket:
        socket.expect_told("attached")
        socket.send_binary(b"typed\n")
        assert socket.drain()[0] == 1000
        assert socket.data == "typed é\n".encode()
        assert socket.told[-1]["exit_code"] == 6
    with attach_new(server, session, {"argv": ["echo", "a b"], "tag": "t"}) as socket:
        assert socket.drain()[0] == 1000
        assert socket.data == b"a b\n" and socket.told[0]["tag"] == "t"


def test_twenty_watchers_get_the_same_bytes(server, session):
    process = start(server, session, "read x; head -c 3000000 /dev/urandom | tee copy",
                    stdin_open=True)
    ready = threading.Barrier(21)

    def watch(number):
        with process.attach("?stream=stdout" if number % 2 else "", timeout=40) as socket:
            socket.expect_told("attached")
            ready.wait(20)
            assert socket.drain()[0] == 1000
        return hashlib.md5(socket.data).hexdigest(), socket.told[-1]["type"]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = [pool.submit(watch, number) for number in range(20)]
        ready.wait(20)
        process.write(b"\n")
        told = {result.result() for result in results}
    assert told == {(server.stdout(session, "md5sum copy").split()[0], "exit")}


def test_who_comes_late_gets_everything(server, session):
    process = start(server, session, "echo before; exit 2")
    process.wait_exited()
    with process.attach() as socket:
        assert socket.drain()[0] == 1000
        assert socket.data == b"before\n" and socket.told[-1]["exit_code"] == 2
    with process.attach("?offset=3") as socket:
        socket.drain()
        assert socket.data == b"ore\n"


def test_a_watcher_who_reads_nothing_is_dropped_and_slows_nobody(start_server):
    server = start_server(OUTPUT_LIMIT_MB=8)
    session = server.create()
    process = start(server, session, "head -c 1000000 /dev/zero; read x; "
                                     "head -c 200000000 /dev/zero; echo over; sleep 1000",
                    stdin_open=True)
    total = 201_000_005
    with process.attach("?stream=stdout") as slow:
        slow.expect_told("attached")
        process.write(b"\n")
        wait_until(lambda: process.show()["stdout_bytes"] == total, "all is printed", 20)
        code, reason = slow.drain()
        assert code == 1008 and "too slow" in reason, (code, reason)
        assert reason.endswith(f"offset={len(slow.data)}")
    # As it was told; what is gone by now is said and no reason to be sent away again.
    with process.attach(f"?stream=stdout&offset={len(slow.data)}") as back:
        gap = back.expect_told("offset")
        assert gap["offset"] == len(slow.data) + gap["dropped"]
        back.expect(b"over\n")
    process.delete()


@pytest.mark.parametrize("way", ["disconnect", "reset", "half a frame", "unread"])
def test_who_vanishes_leaves_no_connection_behind(server, session, way):
    """Even if the process says nothing, so that no write can fail."""
    process = start(server, session, "sleep 1000", stdin_open=True)
    for _ in range(10):
        socket = process.attach()
        socket.expect_told("attached")
        if way == "half a frame":
            socket.send_raw(b"\x82\xfe\x10")
        elif way == "unread":
            socket.send_binary(bytes(100_000))
        socket.reset() if way == "reset" else socket.disconnect()
    wait_until(lambda: connections(server) == 0, "no connection is left", 5)
    assert process.show()["state"] == "running"


def test_frames_too_large_end_the_attachment_alone(server, session):
    process = start(server, session, "cat", stdin_open=True)
    with process.attach() as socket:
        socket.expect_told("attached")
        socket.send_binary(bytes(1 << 20))
        socket.send_text(json.dumps({"type": "x" * (1 << 20)}))
        assert socket.drain()[0] == 1009
    assert process.show()["state"] == "running"
