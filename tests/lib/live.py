# SPDX-License-Identifier: Apache-2.0
"""A process of a session over HTTP: started, spoken to, followed and attached to."""
import collections
import contextlib
import json
import urllib.parse

from server import alive, read_text, wait_until
from websocket import WebSocket

Event = collections.namedtuple("Event", "name id data")


def people(server, session):
    """Processes of a sandbox as the host sees them, PID 1 left out."""
    guest = server.guest_pid(session)
    return [pid for pid in server.sandbox_pids(session) if pid != guest and alive(pid)]


def connections(server):
    """How many the server holds, as the kernel sees it; ours may be closed already."""
    count = 0
    for line in (read_text("/proc/net/tcp") + read_text("/proc/net/tcp6")).splitlines():
        fields = line.split()
        if fields[1].endswith(f":{server.port:04X}"):
            listens, dead = fields[3] == "0A", fields[9] == "0"
            count += not listens and not dead
    return count


def read_events(answer):
    """Events of a response as they come, to its end; comments are left out."""
    fields = {}
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text.startswith(":"):
            continue
        if text:
            name, _, value = text.partition(": ")
            fields[name] = fields[name] + "\n" + value if name in fields else value
        elif fields:
            yield Event(fields["event"], fields.get("id"), json.loads(fields["data"]))
            fields = {}


def try_start(server, session, command=None, headers=None, **fields):
    if command is not None:
        fields["command"] = command
    return server.post(f"/api/sessions/{session}/processes", fields, headers=headers)


def start(server, session, command=None, **fields):
    reply = try_start(server, session, command, **fields)
    assert reply.status == 201, reply
    return Live(server, session, reply.json["process_id"])


def attach_new(server, session, start, **options):
    """Starts a process and attaches to it in one request; `start` is text or fields."""
    text = start if isinstance(start, str) else json.dumps(start)
    path = f"/api/sessions/{session}/attach?start={urllib.parse.quote(text)}"
    return Attached(server, path, **options)


@contextlib.contextmanager
def stream(server, session, command, accept="application/json", **fields):
    """The response to an /execute with `stream`."""
    body = {"session_id": session, "command": command, "stream": True, **fields}
    with contextlib.closing(server.connect()) as connection:
        connection.request("POST", "/execute", json.dumps(body),
                           {"Content-Type": "application/json", "Accept": accept})
        answer = connection.getresponse()
        with contextlib.closing(answer):
            yield answer


def lines_of(answer):
    return [json.loads(line) for line in answer.read().splitlines() if line]


class Live:
    def __init__(self, server, session, number):
        self.server, self.session, self.number = server, session, number
        self.path = f"/api/sessions/{session}/processes/{number}"

    def post(self, what, body=None, **options):
        return self.server.post(f"{self.path}/{what}", body, **options)

    def show(self):
        return self.server.process_of(self.session, self.number)

    def delete(self):
        return self.server.request("DELETE", self.path)

    def signal(self, name, **fields):
        return self.post("signal", {"signal": name, **fields})

    def write(self, data):
        return self.post("stdin", data)

    def output(self, stream="stdout", **options):
        return self.server.output(self.session, self.number, stream, **options)

    def page(self, **query):
        return self.server.get(f"{self.path}/output?{urllib.parse.urlencode(query)}")

    def wait_exited(self, seconds=None):
        return self.server.wait_exited(self.session, self.number, seconds)

    def wait_said(self, text, stream="stdout"):
        return wait_until(lambda: text in self.output(stream), f"it has said {text!r}")

    @contextlib.contextmanager
    def follow(self, last_id=None, **query):
        """An iterator of events; at the end of the block the connection is gone."""
        with self.follow_raw(last_id, **query) as answer:
            yield read_events(answer)

    @contextlib.contextmanager
    def follow_raw(self, last_id=None, **query):
        """The response that the events come in."""
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = str(last_id)
        with contextlib.closing(self.server.connect()) as connection:
            path = f"{self.path}/output?{urllib.parse.urlencode(query)}"
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, answer.read())
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            with contextlib.closing(answer):
                yield answer

    def attach(self, query="", **options):
        return Attached(self.server, f"{self.path}/attach{query}", **options)


class Attached(WebSocket):
    """Keeps what came: bytes in `data`, text frames in `told`."""

    def __init__(self, server, path, **options):
        super().__init__("127.0.0.1", server.port, path, tls=server.tls, **options)
        self.data, self.told, self.ended = b"", [], None

    def tell(self, **message):
        self.send_text(json.dumps(message))

    def step(self):
        kind, *rest = self.receive()
        if kind == "binary":
            self.data += rest[0]
        elif kind == "text":
            self.told.append(json.loads(rest[0]))
        elif kind == "close":
            self.ended = tuple(rest)

    def until(self, condition):
        while not condition():
            assert not self.ended, (self.ended, self.told, self.data[-500:])
            self.step()

    def expect(self, mark):
        """Reads until `mark` was printed; takes and returns what came up to its end."""
        self.until(lambda: mark in self.data)
        taken, mark, self.data = self.data.partition(mark)
        return taken + mark

    def expect_told(self, kind):
        self.until(lambda: any(message["type"] == kind for message in self.told))
        return next(message for message in self.told if message["type"] == kind)

    def drain(self):
        """Everything to the close frame, whose code and reason it returns."""
        while not self.ended:
            self.step()
        return self.ended
