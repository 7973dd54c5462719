# SPDX-License-Identifier: Apache-2.0
"""What was begun with a key ends with it: streams, WebSockets, answers that are waited for."""
import contextlib
import json
import socket

import pytest

import server as lib
from keys import make_key
from websocket import PATIENCE, WebSocket


@pytest.fixture
def guarded(binary):
    server = lib.Server()
    try:
        server.start()
        server.doomed, server.kept = make_key(server), make_key(server)
        lib.wait_until(lambda: as_key(server, server.kept, "GET", "/api/sessions").status == 200,
                       "the keys count")
        yield server
        server.key = None
        server.close()
    finally:
        server.remove()


def bearer(credential):
    return {"Authorization": f"Bearer {credential}"}


def as_key(server, key, method, path, body=None):
    return server.request(method, path, body, bearer(key))


def start_sleeping(server):
    server.key = server.kept
    session = server.create()
    number = server.post(f"/api/sessions/{session}/processes",
                         {"command": "read line; echo $line; sleep 1000",
                          "stdin_open": True}).json["process_id"]
    server.key = None
    return session, f"/api/sessions/{session}/processes/{number}"


@contextlib.contextmanager
def asked(server, credential, method, path, body=None):
    """A connection over which something was asked that takes its time."""
    text = json.dumps(body) if body else ""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as wire:
        wire.sendall((f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                      f"Authorization: Bearer {credential}\r\nAccept: text/event-stream\r\n"
                      f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
                      f"{text}").encode())
        yield wire


def ends(wire):
    """Reads to the end, in time or never; what came before it."""
    came = b""
    with contextlib.suppress(ConnectionResetError):
        while part := wire.recv(65536):
            came += part
    return came


def revoke(server, key):
    assert server.command("keys", "revoke", key).returncode == 0


def test_streams_and_sockets_end_with_their_key(guarded):
    session, process = start_sleeping(guarded)
    token = as_key(guarded, guarded.doomed, "POST", f"/api/sessions/{session}/tokens", {})
    token = token.json["token"]
    slow = {"session_id": session, "command": "sleep 1000"}
    with contextlib.ExitStack() as stack:
        doomed = [stack.enter_context(asked(guarded, credential, "GET", f"{process}/output"))
                  for credential in (guarded.doomed, token)]
        doomed.append(stack.enter_context(asked(guarded, guarded.doomed, "POST", "/execute", slow)))
        kept = stack.enter_context(asked(guarded, guarded.kept, "GET", f"{process}/output"))
        heads = [wire.recv(12) for wire in (*doomed[:2], kept)]
        assert heads == [b"HTTP/1.1 200"] * 3
        attached = [stack.enter_context(WebSocket("127.0.0.1", guarded.port, f"{process}/attach",
                                                  headers=bearer(credential)))
                    for credential in (guarded.doomed, token, guarded.kept)]
        revoke(guarded, guarded.doomed)
        for wire in doomed:
            ends(wire)
        for one in attached[:2]:
            with pytest.raises((EOFError, OSError)):
                while one.receive()[0] != "close":
                    pass
                raise EOFError  # or it says good-bye
        # The others go on, and so does what runs.
        guarded.key = guarded.kept
        assert guarded.post(f"{process}/stdin", b"hello\n").status == 200
        came = b""
        while b"hello" not in came:
            came += kept.recv(65536)
        assert guarded.get(process).json["state"] == "running"


def test_what_has_no_key_of_ours_goes_on(guarded):
    """A server is asked by many: only those of the key that is gone notice anything."""
    _, process = start_sleeping(guarded)
    with asked(guarded, guarded.kept, "GET", f"{process}/output") as wire:
        assert wire.recv(12) == b"HTTP/1.1 200"
        for _ in range(3):
            key = make_key(guarded)
            lib.wait_until(lambda key=key: as_key(guarded, key, "GET", "/api/sessions").status
                           == 200, "the key counts")
            with asked(guarded, key, "GET", f"{process}/output") as other:
                assert other.recv(12) == b"HTTP/1.1 200"
                revoke(guarded, key)
                ends(other)
        guarded.key = guarded.kept
        guarded.post(f"{process}/stdin", b"still here\n")
        came = b""
        while b"still here" not in came:
            came += wire.recv(65536)
