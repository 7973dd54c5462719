# SPDX-License-Identifier: Apache-2.0
"""Bad HTTP and bad JSON through the real server. What one connection can do wrong is in
src/http/strictness_test.cpp and limits_test.cpp, line by line; here is what it does to others."""
import concurrent.futures
import contextlib
import json
import os
import re
import select
import socket
import statistics
import threading
import time

import pytest

from server import read_text, wait_until

HEAD = b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def dial(server, seconds=20):
    return socket.create_connection(("127.0.0.1", server.port), seconds)


def talk(server, data, half_close=False):
    """What a connection answers to some bytes, until it ends or falls silent."""
    with dial(server) as client:
        with contextlib.suppress(OSError):  # it may have refused before all was sent
            client.sendall(data)
            if half_close:
                client.shutdown(socket.SHUT_WR)
        client.settimeout(3)
        parts = []
        with contextlib.suppress(OSError):
            while part := client.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)


def statuses(text):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", text)]


def assert_refused(reply, *allowed):
    assert reply.status in (allowed or (400,)), reply
    assert reply.json["error"] and reply.json["detail"], reply


def resident(server):
    return int(re.search(r"VmRSS:\s+(\d+)", read_text(f"/proc/{server.process.pid}/status"))[1])


def latencies(server, session, count):
    took = []
    connection = server.connect()
    body = json.dumps({"session_id": session, "command": "true"})
    for _ in range(count):
        began = time.monotonic()
        connection.request("POST", "/execute", body)
        assert connection.getresponse().read()
        took.append(time.monotonic() - began)
    connection.close()
    return took


# ---- connections ----

def test_H01_five_hundred_slow_heads_disturb_nobody_and_are_cut(server, session):
    usual = statistics.median(latencies(server, session, 30))
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(dial(server)) for _ in range(500)]
        for client in slow:
            client.sendall(b"G")
        assert statistics.median(latencies(server, session, 30)) < 2 * usual + 0.02
        began = time.monotonic()
        slow[0].settimeout(20)
        assert slow[0].recv(100).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < 15
        for client in slow[1:]:
            client.settimeout(5)
            assert client.recv(100).startswith(b"HTTP/1.1 408 ")


def test_H02_a_reader_that_stops_costs_no_memory(server, session):
    server.stdout(session, "truncate -s 100M f")
    body = json.dumps({"session_id": session, "filename": "f"}).encode()
    before = resident(server)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"POST /download_file HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                           % len(body) + body)
            assert client.recv(1) == b"H"
        assert server.stdout(session, "echo usable") == "usable\n"
        assert resident(server) - before < 40 << 10


@pytest.mark.parametrize("data,status", ids=["fields", "field", "target", "method"], argvalues=[
    (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10000 + b"\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"b" * (1 << 20) + b"\r\n\r\n", 431),
    (b"GET /" + b"a" * (100 << 10) + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"G" * (64 << 10) + b" / HTTP/1.1\r\nHost: x\r\n\r\n", 414)])
def test_H03_heads_have_a_limit(server, data, status):
    assert statuses(talk(server, data)) == [status]


def test_H04_an_endless_chunked_body_ends_at_the_limit(server):
    with dial(server) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk, sent = b"100000\r\n" + b" " * (1 << 20) + b"\r\n", 0
        while not select.select([client], [], [], 0)[0]:
            client.sendall(chunk)
            sent += 1
            assert sent < 100
        assert client.recv(200).startswith(b"HTTP/1.1 413 ")


SIZES = {"minus": b"-2", "plus": b"+5", "0x": b"0x5", "long": b"1" * 17, "empty": b"",
         "space": b"5 ;ext", "extension": b"5;" + b"e" * (1 << 20)}


@pytest.mark.parametrize("name", SIZES)
def test_H05_bad_chunks_are_400_and_the_end(server, name):
    request = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + SIZES[name] + b"\r\nabcde\r\n0\r\n\r\n"
    assert statuses(talk(server, request + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")) == [400]


@pytest.mark.parametrize("headers", [
    b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"Content-Length: 2\r\nContent-Length: 3",
    b"Content-Length: +2", b"Content-Length: 2,2", b"Content-Length: 2 2",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: \x0bchunked", b"X: a\r\n b\r\nContent-Length: 2",
    b"Content-Length: 2\nX: y", b"X: a\rb", b"X: a\x00b"])
def test_H06_a_request_with_two_meanings_has_none(server, headers):
    smuggled = b"{}GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    text = talk(server, b"POST /create_session HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n"
                + smuggled)
    assert statuses(text) == [400], text[:300]


def test_H08_pipelined_requests_are_answered_in_order(server, session):
    requests = b""
    for number in range(200):
        body = json.dumps({"session_id": session, "command": f"echo {number}"}).encode()
        requests += HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        requests += b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 4
    with dial(server, 60) as client:
        threading.Thread(target=client.sendall, args=(requests,)).start()
        text = b""
        while text.count(b"\r\n\r\n") < 1000 or not text.endswith(b"}"):
            part = client.recv(1 << 16)
            assert part
            text += part
    assert statuses(text) == [200] * 1000
    said = re.findall(rb'"stdout":"(\d+)\\n"', text)
    assert said == [b"%d" % number for number in range(200)]


def test_H08_a_client_that_half_closes_gets_its_answer(server, session):
    body = json.dumps({"session_id": session, "command": "sleep 0.3; echo done"}).encode()
    text = talk(server, HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body), True)
    assert statuses(text) == [200] and b'"stdout":"done\\n"' in text


@pytest.mark.parametrize("line,status", [
    (b"TRACE / HTTP/1.1", 405), (b"CONNECT x:80 HTTP/1.1", 405), (b"PROPFIND / HTTP/1.1", 405),
    (b"post /execute HTTP/1.1", 405), (b"GET /health", 400), (b"GET /health HTTP/1.2", 505),
    (b"PRI * HTTP/2.0", 505)])
def test_H13_strange_methods_and_versions_are_refused(server, line, status):
    host = b"x:80" if line.startswith(b"CONNECT") else b"x"
    assert statuses(talk(server, line + b"\r\nHost: %s\r\n\r\n" % host)) == [status]


def test_H21_expect_without_a_body_holds_nobody_up(server, session):
    with dial(server) as client:
        client.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 50\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        assert server.stdout(session, "echo usable") == "usable\n"
    refused = talk(server, b"POST /nothing HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                   b"Content-Length: 50\r\n\r\n")
    assert statuses(refused) == [404]


# ---- what is answered ----

def test_methods_are_named(server):
    for path, allowed in (("/execute", "POST, OPTIONS"), ("/health", "GET, HEAD, OPTIONS"),
                          ("/download_file", "GET, HEAD, POST, OPTIONS")):
        refused = server.request("DELETE", path)
        assert_refused(refused, 405)
        assert refused.headers["Allow"] == allowed
        options = server.request("OPTIONS", path)
        assert (options.status, options.headers["Allow"], options.body) == (204, allowed, b"")
    assert server.request("OPTIONS", "/nothing").status == 404


def test_HEAD_is_GET_without_the_body(server, session):
    for path in ("/health", f"/status/{session}", f"/list_files?session_id={session}", "/docs",
                 "/status/none", "/nothing"):
        got, head = server.get(path), server.request("HEAD", path)
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
        assert int(head.headers["Content-Length"]) > 0


def test_every_answer_has_a_request_id(server):
    named = server.get("/health", headers={"X-Request-Id": "my-own.id_1"})
    assert named.headers["X-Request-Id"] == "my-own.id_1"
    for bad in ("a b", "x" * 65, "a;b", "\u00e4", "<script>"):
        reply = server.get("/nothing", headers={"X-Request-Id": bad.encode("latin-1").decode(
            "latin-1")})
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", reply.headers["X-Request-Id"])
        assert reply.headers["X-Request-Id"] != bad
    seen = {server.get("/health").headers["X-Request-Id"] for _ in range(20)}
    assert len(seen) == 20


COMMANDS = {"line": "rm\r\nX-Injected: 1", "latin": "r\u00e4m", "escape": "rm \x1b[2J",
            "separator": "\u2028rm", "delete": "rm \x7f", "long": "x" * 100000,
            "emoji": "\U0001f600", "answer": "rm 'a\r\n\r\nHTTP/1.1 200 OK'",
            "quoted": "$'\\r\\nX-Injected: 1'", "tab": "ab\tc d"}


@pytest.fixture(scope="module")
def strict(server):
    session = server.create(policy="strict")
    yield session
    server.cleanup(session)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refusal_is_told_in_a_reason_phrase_that_is_harmless(server, strict, name):
    body = json.dumps({"session_id": strict, "command": COMMANDS[name]}).encode()
    text = talk(server, HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body))
    head, _, rest = text.partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    assert line.startswith(b"HTTP/1.1 400 Bad Request")
    assert all(0x20 <= byte < 0x7f for byte in line) and len(line) < 2048, len(line)
    assert not any(header.lower().startswith(b"x-injected") for header in headers)
    assert json.loads(rest)["error"]


def test_H25_what_fails_inside_is_a_name_to_ask_for(start_server):
    server = start_server(POOL_SIZE=0)
    session = server.create("t")
    os.kill(server.keeper_pid(), 19)
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pending = pool.submit(server.post, "/create_session", {}, seconds=60)
            assert server.stdout(session, "echo usable") == "usable\n"
            assert not pending.done()
            os.kill(server.keeper_pid(), 18)
            assert pending.result().status == 200
    finally:
        os.kill(server.keeper_pid(), 18)
    for reply in (server.post("/execute", {"session_id": session, "command": "ls", "cwd": "/x/y"}),
                  server.post("/execute", {"session_id": session, "command": "ls",
                                           "env": {"A=B": "x"}}),
                  server.post("/execute", {"session_id": session, "command": "ls",
                                           "env": {"A\0": "x"}})):
        assert server.state_dir not in reply.body.decode() and "src/" not in reply.body.decode()
        assert reply.status in (200, 400)


def test_H27_nobody_is_believed_to_be_someone_else(start_server):
    server = start_server()
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Host"):
        reply = server.get("/health", headers={header: "for=10.9.8.7;host=evil.example"})
        assert reply.status == 200 and "10.9.8.7" not in reply.body.decode()
    assert "10.9.8.7" not in server.log()


def test_H28_public_pages_name_nobody(start_server):
    server = start_server()
    session = server.create("secret-thread", user_id="secret-user")
    server.stdout(session, "echo secret-command > secret-file")
    for path in ("/metrics", "/health", "/openapi.json", "/docs"):
        text = server.get(path).body.decode()
        assert "secret" not in text.replace("client_secret", "") or path == "/openapi.json"
        assert session not in text and server.state_dir not in text


# ---- other sites' pages ----

def preflight(server, origin):
    return server.request("OPTIONS", "/execute", headers={
        "Origin": origin, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type"})


def test_H14_no_page_of_another_site_may_read_by_default(server):
    for reply in (server.get("/health", headers={"Origin": "https://evil.example"}),
                  preflight(server, "https://evil.example"), preflight(server, "null")):
        assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_H14_pages_that_a_setting_names_may(start_server):
    server = start_server(CORS_ORIGINS="https://app.example, http://localhost:3000")
    for origin in ("https://app.example", "http://localhost:3000"):
        asked = preflight(server, origin)
        assert asked.status == 204
        assert asked.headers["Access-Control-Allow-Origin"] == origin
        assert asked.headers["Access-Control-Allow-Methods"] == "POST, OPTIONS"
        assert asked.headers["Access-Control-Allow-Credentials"] is None
        reply = server.get("/health", headers={"Origin": origin})
        assert reply.headers["Access-Control-Allow-Origin"] == origin
        assert reply.headers["Vary"] == "Origin"
        refused = server.post("/execute", {}, headers={"Origin": origin})
        assert refused.headers["Access-Control-Allow-Origin"] == origin, "errors are read too"
    for origin in ("https://app.example.evil.example", "http://app.example", "null",
                   "https://app.example:444"):
        assert preflight(server, origin).headers["Access-Control-Allow-Origin"] is None


def test_H12_forms_are_for_clients_that_are_no_browsers(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = server.post("/create_session", "{}", headers={"Content-Type": kind})
        assert reply.status == 200
        server.cleanup(reply.json["session_id"])
        for header in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert_refused(server.post("/create_session", "{}", headers={"Content-Type": kind,
                                                                         **header}), 415)


# ---- the end ----

def test_SIGTERM_refuses_what_is_new_and_answers_what_ends_in_time(start_server):
    server = start_server(SHUTDOWN_GRACE_SECONDS=4)
    session = server.create("t")
    idle = server.connect()
    idle.connect()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        short = pool.submit(server.execute, session, "sleep 1.5; echo in time")
        late = pool.submit(server.execute_and_forget, session,
                           "until [ -e go ]; do sleep 0.05; done; echo late")
        wait_until(lambda: len(server.processes(session)) == 2, "both run")
        began = time.monotonic()
        server.process.terminate()
        wait_until(lambda: refuses(server), "nothing new is taken")
        assert short.result()["stdout"] == "in time\n"
        assert server.wait() == 0
        assert 3 < time.monotonic() - began < 8
        assert late.result() is None or late.result().status == 503
    idle.close()
    assert server.keeper_pid() and len(server.sandbox_pids(session)) >= 2
    server.start()
    server.stdout(session, "touch go")
    number = server.processes(session)[1]["process_id"]
    rows = {row["process_id"]: row for row in server.processes(session)}
    assert len(rows) >= 2 and number in rows
    waiting = [row["process_id"] for row in rows.values() if row["state"] == "running"]
    for one in waiting:
        server.wait_exited(session, one)
    told = {server.output(session, one) for one in rows}
    assert b"late\n" in told and b"in time\n" in told


def refuses(server):
    try:
        with dial(server, 2) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            return not client.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        return True
