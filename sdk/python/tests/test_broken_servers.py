# SPDX-License-Identifier: Apache-2.0
"""A server that is down, slow or speaks nonsense: an error that says so, in time, and no command
twice."""

import asyncio
import json
import socket
import threading

import pytest
import requests

from threadbox import (
    AsyncSandboxClient,
    Exited,
    ProtocolError,
    SandboxClient,
    SandboxError,
    ServerTimeoutError,
    UnreachableError,
)

SESSION = {"session_id": "s1", "thread_id": "t", "status": "active", "policy": "open"}


def answer(body, status="200 OK", more=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n{more}\r\n".encode() + data


CLOSE = "close"


class Script:
    """A server that says what it was told, request after request: bytes, or None for nothing but
    the end of the connection, or an Event that it waits for. CLOSE ends it after an answer."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while self.steps:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.converse(connection)

    def converse(self, connection):
        while self.steps:
            request = self.read(connection)
            if not request:
                return
            self.requests.append(request)
            step = self.steps.pop(0)
            if isinstance(step, threading.Event):
                step.wait(30)
                return
            if step is None:
                return
            connection.sendall(step)
            if self.steps[:1] == [CLOSE]:
                self.steps.pop(0)
                return

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                return b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        while len(body) < size:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.steps = []
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        assert not self.thread.is_alive()


def call(url, kind, work):
    """Runs `work(client)` with a client that has a session, of either kind."""
    if kind == "sync":
        with SandboxClient(server_url=url) as client:
            client.get_or_create_session("u", "t")
            return work(client)

    async def go():
        async with AsyncSandboxClient(server_url=url) as client:
            await client.get_or_create_session("u", "t")
            result = work(client)
            if hasattr(result, "__aiter__"):
                return [event async for event in result]
            return await result

    return asyncio.run(go())


KINDS = pytest.mark.parametrize("kind", ["sync", "async"])
FOUND = answer(SESSION)
CLEANED = answer({"status": "cleaned_up"})


@KINDS
def test_a_server_that_is_down_is_unreachable(kind):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(UnreachableError, match="does a server run") as caught:
        call(url, kind, None)
    assert isinstance(caught.value, requests.ConnectionError)
    assert isinstance(caught.value, ConnectionError)


@KINDS
def test_a_slow_server_is_a_timeout(kind, monkeypatch):
    monkeypatch.setattr("threadbox._remote_commands.MARGIN", 0.1)
    never = threading.Event()

    def work(client):
        try:
            return client.execute("true", timeout=0.1)
        finally:
            never.set()

    async def work_in_loop(client):
        try:
            return await client.execute("true", timeout=0.1)
        finally:
            never.set()

    with Script(FOUND, never, CLEANED) as script:
        with pytest.raises(ServerTimeoutError, match=r"did not answer within 0\.2 s") as caught:
            call(script.url, kind, work if kind == "sync" else work_in_loop)
    assert isinstance(caught.value, requests.Timeout)


@KINDS
def test_a_server_that_dies_under_a_command_is_not_asked_twice(kind):
    with Script(FOUND, None, CLEANED) as script:
        with pytest.raises(UnreachableError, match="went away"):
            call(script.url, kind, lambda client: client.execute("true"))
        executed = [one for one in script.requests if b"POST /execute" in one]
    assert len(executed) == 1


@KINDS
def test_a_connection_that_died_while_kept_is_replaced(kind):
    with Script(FOUND, answer({"files": []}), CLOSE,
                answer({"files": []}), CLEANED) as script:
        if kind == "sync":
            call(script.url, kind, lambda client: [client.list_files(), client.list_files()])
        else:
            async def twice(client):
                await client.list_files()
                await client.list_files()
            call(script.url, kind, twice)
        assert len(script.requests) == 4


NONSENSE = {
    "no HTTP": b"220 mail.example.org ESMTP\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "no header": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a strange length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "a strange chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "no JSON": answer(b"<html>It works!</html>"),
    "a list": answer([1, 2]),
    "another object": answer({"hello": "world"}),
    "an endless head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    "a redirect": answer(b"", "302 Found", "Location: https://elsewhere\r\n"),
}


@KINDS
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_called_nonsense(kind, what):
    with Script(FOUND, NONSENSE[what], CLEANED) as script:
        with pytest.raises(ProtocolError, match=r"Threadbox server|server_url") as caught:
            call(script.url, kind, lambda client: client.execute("true"))
    assert isinstance(caught.value, requests.RequestException)
    assert isinstance(caught.value, SandboxError)


@KINDS
@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503])
def test_other_refusals_are_http_errors(kind, status):
    body = b"<html>a proxy says no</html>"
    with Script(FOUND, answer(body, f"{status} Because"), CLEANED) as script:
        with pytest.raises(requests.HTTPError, match="Because") as caught:
            call(script.url, kind, lambda client: client.execute("true"))
    assert caught.value.response.status_code == status
    assert caught.value.response.text == body.decode()


@KINDS
def test_chunks_and_signs_of_life_are_understood(kind):
    lines = ['{"type":"start","process_id":7}\n', "\n", '{"type":"stdout","offset":0,',
             '"data":"hi"}\n\n', '{"type":"exit","process_id":7,"state":"exited","exit_code":0}\n']
    body = "".join(f"{len(one):x};x=y\r\n{one}\r\n" for one in lines) + "0\r\nTrailer: 1\r\n\r\n"
    head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Script(FOUND, (head + body).encode(), CLEANED) as script:
        events = call(script.url, kind, lambda client: (
            list(client.stream("x")) if kind == "sync" else client.stream("x")))
        assert len(script.requests) == 3
    assert [type(one).__name__ for one in events] == ["Started", "Output", "Exited"]
    assert events[1].text == "hi" and isinstance(events[2], Exited)


@KINDS
def test_a_stream_that_breaks_off_is_an_error(kind):
    head = b'HTTP/1.1 200 OK\r\n\r\n{"type":"start","process_id":7}\n'

    with Script(FOUND, head + b"\n", CLOSE, CLEANED) as script:
        # Without a length the end of the connection is the end of the body.
        with pytest.raises(UnreachableError, match="in the middle"):
            call(script.url, kind, lambda client: (
                list(client.stream("x")) if kind == "sync" else client.stream("x")))


@KINDS
def test_a_404_of_somebody_else_is_no_missing_session(kind):
    with Script(answer(b"<html>nginx</html>", "404 Not Found")) as script:
        with pytest.raises(ProtocolError):
            call(script.url, kind, None)


def test_nothing_of_the_path_or_the_query_gets_lost():
    with Script(answer({"error": "none"}, "404 Not Found"), FOUND, CLEANED) as script:
        with SandboxClient(server_url=script.url + "/below/") as client:
            client.get_or_create_session("u", "a&b=ü ?")
        first = script.requests[0].split(b"\r\n")[0]
        assert first == b"GET /below/get_session?thread_id=a%26b%3D%C3%BC+%3F HTTP/1.1"
        assert script.requests[1].startswith(b"POST /below/create_session HTTP/1.1\r\n")
