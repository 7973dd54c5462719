# SPDX-License-Identifier: Apache-2.0
"""deploy/nginx.conf: a real nginx with TLS in front of the real server. Nothing is held back on the
way, and nobody gets more requests past nginx than nginx knows of."""
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import urllib.parse

import pytest

import live
from nginx import Fronted, Nginx, free_ports, http2_talk
from server import Server, wait_until
from websocket import Refused, WebSocket

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx")
UPLOAD = 200 << 20


@pytest.fixture(scope="module")
def server(binary):
    """With room for a large upload."""
    made = Server(MAX_FILE_SIZE_MB=300, MAX_WORKSPACE_SIZE_MB=600)
    try:
        yield made.start()
        made.close()
    finally:
        made.remove()


def changed(*pairs):
    def change(text):
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text
    return change


@pytest.fixture(scope="module")
def nginx(server, tmp_path_factory):
    place = tmp_path_factory.mktemp("nginx")
    made = Nginx(place, server.port, changed(("rate=100r/s", "rate=10000r/s"))).start()
    yield made
    made.stop()


@pytest.fixture
def front(server, nginx):
    return Fronted(server, nginx)


@pytest.fixture
def session(front):
    name = front.create()
    yield name
    front.cleanup(name)


# ---- what must go through ----

def test_routes_and_their_errors_go_through(front, session):
    assert front.stdout(session, "id -un") == "sandboxuser\n"
    reply = front.get("/health")
    assert reply.status == 200 and reply.json["status"] == "healthy"
    assert reply.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "nginx/" not in reply.headers["Server"], "its version is nobody's business"
    refused = front.post("/execute", {"session_id": "none", "command": "true"})
    assert refused.status == 404 and refused.json["error"]
    assert front.get("/no/such/place").json["error"]
    assert front.get("/health", headers={"X-Request-Id": "mine"}).headers["X-Request-Id"] == "mine"


def test_names_in_paths_are_passed_on_as_they_are(front, server, session):
    """Encoded slashes, dots, percents and what is no ASCII mean the same on both ways."""
    for quoted in ("a%20b%2F..%2F%C3%BC%252f", "%2e%2e/x", "a//b", "./a/./b"):
        path = f"/api/sessions/{session}/processes/{quoted}?x=%2F"
        ours, straight = front.get(path), server.get(path)
        assert (ours.status, ours.body) == (straight.status, straight.body), quoted
    front.upload(session, "ü %2f", b"x")
    assert front.download(session, "ü %2f").body == b"x"


def test_plain_http_is_sent_to_https(nginx):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", nginx.plain_port)) as plain:
        plain.request("GET", "/health?x=1", headers={"Host": "sandbox.example.com"})
        answer = plain.getresponse()
        assert answer.status == 301
        assert answer.headers["Location"] == "https://sandbox.example.com/health?x=1"


def test_output_comes_while_the_command_runs(front, session):
    """It waits for what we write once we have seen what it said."""
    process = live.start(front, session, "echo one; read x; echo two $x", stdin_open=True)
    with process.follow() as events:
        first = next(event for event in events if event.name != "start")
        assert "one" in json.dumps(first.data)
        assert process.write(b"more\n").status == 200
        rest = [json.dumps(event.data) for event in events]
    assert any("two more" in text for text in rest)
    with live.stream(front, session, "echo begun; sleep 0.2; echo done") as answer:
        assert b"begun" in answer.readline() + answer.readline()
        assert b"done" in answer.read()


def test_a_websocket_goes_through_and_a_foreign_one_does_not(front, session):
    nginx = front.nginx
    start = json.dumps({"command": "cat", "stdin_open": True})
    path = f"/api/sessions/{session}/attach?start={urllib.parse.quote(start)}"
    own = {"Origin": f"https://localhost:{nginx.port}"}
    with WebSocket("localhost", nginx.port, path, headers=own, tls=nginx.tls) as link:
        link.send_binary(b"to and fro\n")
        seen = b""
        while b"to and fro\n" not in seen:
            kind, data, *_ = link.receive()
            seen += data if kind == "binary" else b""
    with pytest.raises(Refused) as refused:
        WebSocket("localhost", nginx.port, path, headers={"Origin": "https://evil.example"},
                  tls=nginx.tls)
    assert refused.value.status == 403


def test_a_large_upload_is_not_held_back(front, session):
    """200 MB; when half of it is sent, nginx has none of it on its disk."""
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()
    head = (f'--b\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n{session}\r\n--b\r\n'
            'Content-Disposition: form-data; name="file"; filename="big"\r\n\r\n').encode()
    tail = b"\r\n--b--\r\n"
    connection = front.connect(120)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/upload_file")
        connection.putheader("Content-Type", "multipart/form-data; boundary=b")
        connection.putheader("Content-Length", str(len(head) + UPLOAD + len(tail)))
        connection.endheaders(head)
        for number in range(UPLOAD >> 20):
            connection.send(block)
            digest.update(block)
            if number == UPLOAD >> 21:
                assert not os.listdir(front.nginx.place / "bodies")
        connection.send(tail)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
    said = front.stdout(session, "sha256sum big", timeout=60)
    assert said.split()[0] == digest.hexdigest()


def test_too_large_is_said_by_the_server(front, session):
    """In its own words, although most of the body was never read."""
    connection = front.connect()
    with contextlib.closing(connection):
        connection.putrequest("POST", "/execute")
        connection.putheader("Content-Length", str(1 << 30))
        connection.endheaders(b"{")
        answer = connection.getresponse()
        assert answer.status == 413 and json.loads(answer.read())["error"]


# ---- what must not ----

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /create_session HTTP/1.1\r\nHost: localhost\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(SMUGGLED)
TE = b"Transfer-Encoding: chunked\r\n"
CHUNK = b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n"
END = b"0\r\n\r\n"
# Bodies that hold a request: whoever reads their end otherwise than nginx runs it.
BODIES = {
    "CL": POST + LENGTH + b"\r\n" + SMUGGLED,
    "TE": POST + TE + b"\r\n" + CHUNK,
    "GET": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "GET chunked": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + TE + b"\r\n" + CHUNK,
    "HEAD": b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "OPTIONS": b"OPTIONS /execute HTTP/1.1\r\nHost: localhost\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "no route": b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "method": b"DELETE /execute HTTP/1.1\r\nHost: localhost\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "expect": POST + LENGTH + b"Expect: 100-continue\r\n\r\n" + SMUGGLED,
    "upgrade": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
               b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n" + LENGTH + b"\r\n"
               + SMUGGLED,
    "bad websocket": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                     b"Upgrade: websocket\r\nSec-WebSocket-Version: 99\r\n"
                     b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + LENGTH + b"\r\n"
                     + SMUGGLED,
    "connection": POST + LENGTH + b"Connection: Content-Length\r\n\r\n" + SMUGGLED,
    "extension": POST + TE + b"\r\n" + CHUNK.replace(b"\r\n", b';a="\t"\r\n', 1),
    "extension LF": POST + TE + b"\r\n" + b"2;\nxx\r\n" + CHUNK,
}
# Heads of two meanings, with a request where one of them sees the end.
HEADS = {
    "CL.TE": b"Content-Length: 5\r\n" + TE, "TE.CL": TE + b"Content-Length: 5\r\n",
    "two CL": b"Content-Length: 5\r\nContent-Length: 0\r\n", "CL+": b"Content-Length: +5\r\n",
    "CL list": b"Content-Length: 5, 5\r\n", "CL space": b"Content-Length: 5 5\r\n",
    "CL name": b"Content-Length : 5\r\n", "CL hex": b"Content-Length: 0x5\r\n",
    "CL minus": b"Content-Length: -5\r\n", "CL under": b"Content_Length: 5\r\n" + TE,
    "TE name": b"Transfer-Encoding : chunked\r\n" + b"Content-Length: 5\r\n",
    "TE x": b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n",
    "TE tab": b"Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n",
    "TE vt": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n",
    "TE two": TE + b"Transfer-Encoding: identity\r\n",
    "TE two x": b"Transfer-Encoding: x\r\n" + TE,
    "TE list": b"Transfer-Encoding: chunked, identity\r\n",
    "TE list 2": b"Transfer-Encoding: identity, chunked\r\n",
    "TE quoted": b'Transfer-Encoding: "chunked"\r\n', "TE empty": b"Transfer-Encoding:\r\n",
    "TE fold": b"Transfer-Encoding:\r\n chunked\r\n", "TE case": b"tRANSFER-eNCODING: cHUNKED\r\n"
               b"Content-Length: 5\r\n",
    "fold": b"X: a\r\n Content-Length: 5\r\n", "bare LF": b"X: a\nTransfer-Encoding: chunked\r\n"
            b"Content-Length: 5\r\n", "bare CR": b"X: a\rContent-Length: 5\r\n",
    "NUL": b"X: a\0\r\nContent-Length: 5\r\n", "NUL name": b"Content-Length\0: 5\r\n",
}
SIZES = {"minus": b"-5", "plus": b"+5", "0x": b"0x5", "long": b"1" * 17, "empty": b"",
         "space": b"5 ", "overflow": b"ffffffffffffffff5", "underscore": b"5_"}
ATTACKS = {
    **BODIES,
    **{name: POST + head + b"\r\n" + END + SMUGGLED for name, head in HEADS.items()},
    **{f"{name} in 1.0": POST.replace(b"1.1", b"1.0") + head + b"\r\n" + END + SMUGGLED
       for name, head in HEADS.items() if name.startswith("TE")},
    **{f"size {name}": POST + TE + b"\r\n" + size + b"\r\nabcde\r\n" + END + SMUGGLED
       for name, size in SIZES.items()},
    "trailer": POST + TE + b"\r\n0\r\nContent-Length: 5\r\nHost: y\r\n\r\n" + SMUGGLED,
    "line": b"GET /healthz HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n" + SMUGGLED,
    "target": b"GET /healthz\tHTTP/1.1\r\nHost: y\r\n\r\n" + SMUGGLED,
    "absolute": b"GET http://y/healthz HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n" + SMUGGLED,
}


def reached(server):
    """Requests for no route, as the server counts them: ours are the only ones."""
    text = server.get("/metrics").body.decode()
    return sum(float(value) for value in re.findall(
        r'^threadbox_http_requests_total\{method="other",route="other",[^}]*\} (\S+)', text, re.M))


def known(nginx):
    """Those that nginx passed on as requests of their own."""
    none = ("GET /smuggled ", "POST /nowhere ", "OPTIONS ", "DELETE /execute ")
    return sum(line.startswith(none) for line, _, upstream in nginx.requests() if upstream != "-")


def attack(nginx, data):
    """Sends it and reads until nginx has closed, or has answered all that it takes for requests."""
    with nginx.dial() as client:
        before = len(nginx.requests())
        with contextlib.suppress(OSError):
            client.sendall(data)
            # A last request, by which we see that all before it is over.
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: last\r\n"
                           b"Connection: close\r\n\r\n")
        text = b""
        client.settimeout(3)
        with contextlib.suppress(OSError):
            while part := client.recv(1 << 16):
                text += part
                if b"X-Request-Id: last" in text:
                    break
    answers = len(re.findall(rb"HTTP/1\.1 [2-5]\d\d ", text))
    wait_until(lambda: len(nginx.requests()) - before >= answers, "nginx has logged its answers")
    return answers


def check_nobody_is_confused(front):
    """Connections to the server that nginx kept open carry nothing of somebody else."""
    for number in range(4):
        name = f"after-{number}"
        reply = front.get("/healthz", headers={"X-Request-Id": name})
        assert reply.status == 200 and reply.headers["X-Request-Id"] == name, reply


def test_one_more_request_would_be_seen(server, nginx):
    count, logged = reached(server), known(nginx)
    assert server.get("/smuggled").status == 404
    assert reached(server) - count == 1 and known(nginx) == logged
    attack(nginx, SMUGGLED)
    assert reached(server) - count == 2 and known(nginx) - logged == 1


@pytest.mark.parametrize("name", ATTACKS)
def test_H06_the_server_sees_no_request_that_nginx_does_not(front, server, nginx, name):
    count, logged, seen = reached(server), known(nginx), len(nginx.requests())
    attack(nginx, ATTACKS[name])
    check_nobody_is_confused(front)
    assert reached(server) - count <= known(nginx) - logged, "one more reached the server"
    if name in BODIES:
        assert not [line for line, *_ in nginx.requests()[seen:] if "/smuggled" in line], name


HTTP2 = {
    "CL short": ([(b"content-length", b"0")], SMUGGLED),
    "CL long": ([(b"content-length", b"99")], SMUGGLED),
    "TE": ([(b"transfer-encoding", b"chunked")], END + SMUGGLED),
    "connection": ([(b"connection", b"transfer-encoding")], SMUGGLED),
    "value": ([(b"x", b"a\r\nTransfer-Encoding: chunked")], END + SMUGGLED),
    "value end": ([(b"x", b"a\r\n\r\n" + SMUGGLED)], b""),
    "name": ([(b"x: a\r\ntransfer-encoding", b"chunked")], END + SMUGGLED),
    "upper": ([(b"Transfer-Encoding", b"chunked")], END + SMUGGLED),
    "body": ([], SMUGGLED),
}


@pytest.mark.parametrize("name", [*HTTP2, "path", "method", "authority"])
def test_H06_nor_over_http2(front, server, nginx, name):
    more, body = HTTP2.get(name, ([], b""))
    pseudo = {b":method": b"POST", b":scheme": b"https", b":authority": b"localhost",
              b":path": b"/create_session"}
    if name not in HTTP2:
        pseudo[f":{name}".encode()] += b" HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED
    count, logged, seen = reached(server), known(nginx), len(nginx.requests())
    http2_talk(nginx, [*pseudo.items(), *more], body)
    check_nobody_is_confused(front)
    assert reached(server) - count <= known(nginx) - logged
    assert not [line for line, *_ in nginx.requests()[seen:] if line.startswith("GET /smuggled ")]


def test_what_a_client_says_about_itself_is_not_passed_on(server, tmp_path):
    """Seen by a server of ours, which answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        nginx = Nginx(tmp_path, upstream.getsockname()[1]).start()
        try:
            with nginx.dial() as client:
                client.sendall(b"GET /x HTTP/1.1\r\nHost: localhost:1\r\n"
                               b"Connection: Upgrade, X-A\r\nUpgrade: h2c\r\n"
                               b"X-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n"
                               b"X-Forwarded-Proto: ftp\r\n\r\n")
                link, _ = upstream.accept()
                with link:
                    head = b""
                    while b"\r\n\r\n" not in head:
                        head += link.recv(1 << 16)
        finally:
            nginx.stop()
    assert sorted(head.decode().split("\r\n")) == sorted([
        "", "", "GET /x HTTP/1.1", "Host: localhost:1", "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Proto: https"])


# ---- when it is too much, or nobody is there ----

def test_too_many_requests_are_429_and_no_server_is_503(server, tmp_path):
    slower = changed(("rate=100r/s", "rate=1r/m"), ("burst=200", "burst=3"))
    nobody = Nginx(tmp_path, free_ports(1)[0], slower).start()
    try:
        front = Fronted(server, nobody)
        replies = [front.get("/health") for _ in range(6)]
        assert [reply.status for reply in replies] == [503] * 4 + [429] * 2
        assert replies[0].json["error"] == "the server is away"
        assert replies[0].headers["Retry-After"] == "2"
    finally:
        nobody.stop()
