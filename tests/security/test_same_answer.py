# SPDX-License-Identifier: Apache-2.0
"""What is another tenant's is told from what is not there by nothing: neither by the answer nor by
the time that it takes. Time itself is not asked, it proves nothing on a busy machine: what the
server does between question and answer is, system call by system call."""
import collections
import contextlib
import http.client
import json
import re
import shutil
import signal
import subprocess
import uuid

import pytest

import server as lib
from files import Raw
from keys import make_key
from receiver import Receiver

ROUNDS = 15


@pytest.fixture(scope="module")
def two_tenants(binary):
    server = lib.Server(WEBHOOK_ALLOW_PRIVATE="true")
    try:
        server.start()
        server.mine, server.theirs = (make_key(server, tenant=name) for name in ("mine", "theirs"))
        lib.wait_until(lambda: server.get("/api/sessions").status == 401, "the keys count")
        with Receiver() as receiver:
            server.receiver = receiver.port
            yield server
        server.key = None
        server.close()
    finally:
        server.remove()


@pytest.fixture(scope="module")
def theirs(two_tenants):
    """Names of what another tenant has, by kind."""
    server = two_tenants
    server.key = server.theirs
    session = server.create("their thread")
    server.stdout(session, "echo x > f")
    kept = server.post(f"/api/sessions/{session}/artifacts", {"path": "f"})
    assert kept.status == 201, kept
    hook = server.post("/api/webhooks", {"url": f"http://127.0.0.1:{server.receiver}/"})
    assert hook.status == 201, hook
    return {"session": session, "thread": "their thread", "artifact": kept.json["artifact_id"],
            "webhook": hook.json["id"]}


def like(name):
    """Another one of the same form that nobody has."""
    if "thread" in name:
        return "their thing!"
    head, mark, tail = name.rpartition("_")
    other = uuid.uuid4()
    return head + mark + (str(other) if "-" in tail else other.hex[:len(tail)])


ROWS = [("GET", "/status/{}", "session"), ("GET", "/api/sessions/{}", "session"),
        ("DELETE", "/api/sessions/{}", "session"),
        ("GET", "/api/sessions/{}/processes", "session"),
        ("GET", "/api/sessions/{}/files/content?path=f", "session"),
        ("POST", "/api/sessions/{}/tokens", "session"), ("POST", "/execute", "session"),
        ("GET", "/api/sessions/{}/log", "session"), ("GET", "/get_session?thread_id={}", "thread"),
        ("GET", "/api/artifacts/{}", "artifact"), ("GET", "/api/artifacts/{}/content", "artifact"),
        ("GET", "/api/webhooks/{}", "webhook"), ("POST", "/api/webhooks/{}/test", "webhook")]


@contextlib.contextmanager
def traced(server, path):
    """The system calls of the thread that answers go to this file."""
    words = ["strace", "-s", "600", "-o", str(path), "-p", str(server.process.pid)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        if "attached" not in tracer.stderr.readline():
            tracer.kill()
            pytest.skip("nothing can be traced here")
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()


def in_one_piece(method, target, headers, body):
    """The bytes of a request. A body that comes behind its head is read with it or later, as the
    kernel has it, and that would be counted."""
    head = [f"{method} {target} HTTP/1.1", "Host: x"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        head += [f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", body])


def calls_by_request(path):
    """The names of the calls from each request's arrival to its answer, by its X-Request-Id, but
    for waits."""
    found, current, name = {}, None, None
    for line in path.read_text().splitlines():
        arrived = re.search(r"X-Request-Id: (\w+-\d+)\\r\\n.*", line)
        if arrived and "HTTP/1.1 " not in line.partition('"')[2][:9]:
            name, current = arrived[1], []
        if current is None:
            continue
        if not line.startswith("epoll_wait("):
            current.append(line.partition("(")[0])
        if '"HTTP/1.1 ' in line:
            found[name], current = current, None
    return found


@pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace")
@pytest.mark.parametrize("method,pattern,kind", ROWS, ids=lambda row: row.replace("/", "_"))
def test_anothers_name_is_like_an_unknown_one(two_tenants, theirs, method, pattern, kind, tmp_path):
    server, names = two_tenants, {"theirs": theirs[kind], "unknown": like(theirs[kind])}
    answers = collections.defaultdict(set)

    def ask(which, number):
        target = pattern.replace("{}", names[which].replace(" ", "%20"))
        body = {"session_id": names[which], "command": "true"} if method == "POST" else None
        headers = {"Authorization": f"Bearer {server.mine}", "X-Request-Id": f"{which}-{number}"}
        connection.send(in_one_piece(method, target, headers, json.dumps(body) if body else ""))
        answer = http.client.HTTPResponse(connection.socket, method=method)
        answer.begin()
        said = answer.read().decode().replace(names[which], "NAME").replace(headers[
            "X-Request-Id"], "ID")
        answers[which].add((answer.status, said))
    connection = Raw(server)
    for which in names:
        ask(which, 0)  # what is made once is made
    answers.clear()
    with contextlib.closing(connection), traced(server, tmp_path / "calls"):
        for number in range(1, ROUNDS + 1):
            for which in names:
                ask(which, number)
    assert answers["theirs"] == answers["unknown"] and len(answers["theirs"]) == 1, answers
    usual = {}
    calls = calls_by_request(tmp_path / "calls")
    for which in names:
        counts = collections.Counter(tuple(value) for key, value in calls.items()
                                     if key.startswith(which))
        # Now and then the server looks after something else, too: what it does mostly counts.
        usual[which], often = counts.most_common(1)[0]
        assert often > ROUNDS // 2, counts
    assert usual["theirs"] == usual["unknown"], usual
