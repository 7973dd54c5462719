# SPDX-License-Identifier: Apache-2.0
"""Clients and servers that vanish under a stream: every byte comes once, in its place."""
import contextlib
import hashlib
import http.client
import random

from live import Attached, attach_new, start
from server import wait_until

# Text, because events carry text, with characters of every length; the same pages in an order of
# chance, for a hundred megabytes of dice take long. What it prints in a second is bounded, so that
# clients and servers vanish while it talks.
SAID = """
import random
dice = random.Random(11)
def page():
    letters = '0123456789abcdefé漢🙂\\n'
    return ''.join(dice.choices(letters, k=dice.randint(1, 20000))).encode()
pages = [page() for _ in range(40)]
def said(size):
    while size > 0:
        piece = b''.join(dice.choices(pages, k=10))
        size -= len(piece)
        yield piece
"""
TALK = SAID + """
import sys, time
for piece in said({size}):
    sys.stdout.buffer.write(piece)
    sys.stdout.flush()
    time.sleep(0.008)
"""
SIZE = 100_000_000
DISCONNECTS = 50


def said():
    names = {}
    exec(SAID, names)  # the same program, so the same text
    return names["said"](SIZE)


class Reader:
    """Goes on where it was, by pages or by events, for a while."""

    def __init__(self, process, dice):
        self.process, self.dice = process, dice
        self.hash, self.offset, self.over = hashlib.sha256(), 0, False

    def take(self, data, offset):
        assert offset == self.offset, "a gap or a repetition"
        self.hash.update(data)
        self.offset += len(data)

    def read_pages(self, goal):
        while not self.over and self.offset < goal:
            page = self.process.page(stream="stdout", offset=self.offset,
                                     limit=self.dice.randint(4, 200_000))
            if page.body:
                # Half a character at the end is left: events would be asked for the other half.
                whole = page.body.decode(errors="ignore").encode()
                assert page.body.startswith(whole) and len(page.body) - len(whole) < 4
                self.take(whole, int(page.headers["X-Output-Offset"]))
            elif page.headers["X-Process-State"] == "exited":
                self.over = self.offset == int(page.headers["X-Output-Total"])

    def read_events(self, goal, kill=None):
        """`kill`: goes on until that has ended the connection."""
        with self.process.follow(stream="stdout", last_id=self.offset) as events:
            for event in events:
                if event.name == "exit":
                    self.over = True
                    return
                self.take(event.data["data"].encode(), event.data["offset"])
                assert int(event.id) == self.offset
                if self.offset >= goal and not kill:
                    return
                if self.offset >= goal and self.process.server.process.poll() is None:
                    kill()


def test_random_disconnects_and_restarts_lose_and_repeat_nothing(start_server):
    server = start_server(OUTPUT_LIMIT_MB=128)
    session = server.create()
    server.upload(session, "talk.py", TALK.format(size=SIZE).encode())
    process = start(server, session, argv=["python3", "/workspace/talk.py"])
    dice = random.Random(3)
    wanted, size = hashlib.sha256(), 0
    for piece in said():
        wanted.update(piece)
        size += len(piece)
    assert size >= SIZE
    goals = sorted(dice.randint(1, size) for _ in range(DISCONNECTS))
    reader = Reader(process, dice)
    for number, goal in enumerate(goals):
        if number % 3 == 2:
            reader.read_pages(goal)
        elif number in (15, 33):
            with contextlib.suppress(OSError, http.client.HTTPException):
                reader.read_events(goal, server.kill9)
            assert not reader.over, "it was to be killed while the program talks"
            server.start()
        else:
            reader.read_events(goal)
    reader.read_events(2 * size)
    assert reader.over and reader.offset == size
    assert reader.hash.hexdigest() == wanted.hexdigest()
    assert process.show()["exit_code"] == 0


def test_a_terminal_outlives_the_server(start_server):
    server = start_server()
    session = server.create()
    fields = {"argv": ["bash", "--norc", "--noprofile", "--noediting", "-i"],
              "env": {"PS1": "ready> "}, "pty": True, "tag": "term"}
    with attach_new(server, session, fields) as socket:
        number = socket.expect_told("attached")["process_id"]
        seen = len(socket.expect(b"ready> "))
        socket.send_binary(b"X=kept; until [ -e go ]; do sleep 0.02; done; echo mean''while\n")
        seen += len(socket.expect(b"done; echo mean''while\r\n"))
        server.kill9()
        guest = server.guest_pid(session)
        open(f"/proc/{guest}/root/workspace/go", "w").close()
    server.start()
    path = f"/api/sessions/{session}/processes/{number}"
    row = wait_until(lambda: server.get(path).json, "it is known")
    assert (row["state"], row["pty"], row["tag"]) == ("running", True, "term")
    with Attached(server, f"{path}/attach?offset={seen}") as socket:
        assert socket.expect(b"ready> ") == b"meanwhile\r\nready> "
        socket.tell(type="resize", rows=31, cols=99)
        socket.send_binary(b"echo $X; stty size\n")
        assert b"kept\r\n31 99\r\n" in socket.expect(b"ready> ")
        socket.send_binary(b"bash -c 'echo up; exec sleep 1000'\n")
        socket.expect(b"\nup")
        socket.send_binary(b"\x03")
        socket.expect(b"ready> ")
        socket.send_binary(b"exit 5\n")
        assert socket.drain()[0] == 1000
        assert socket.told[-1]["exit_code"] == 5
