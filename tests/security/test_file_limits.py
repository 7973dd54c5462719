# SPDX-License-Identifier: Apache-2.0
"""Rows F, H, K and R of the catalogue about uploads, sizes and numbers of files."""
import contextlib
import os
import select
import threading
import time

import pytest

from conftest import quick, refused
from files import (FORM, Raw, descriptors, download, everything, form, listing, part, query,
                   resident, send_form, upload, uploaded)
from server import read_text, wait_until

MIB = 1 << 20


# ---- uploads ----

def test_F14_too_large_with_a_length_without_one_and_with_a_lie(start_server):
    server = start_server(MAX_FILE_SIZE_MB=4)
    session = server.create()
    assert refused(upload(server, session, "f", bytes(5 * MIB))).status == 413
    # H04: chunks without end are refused at the limit, not at the end.
    raw = Raw(server).begin_upload(session, "f")
    sent = 0
    while not select.select([raw.socket], [], [], 0)[0]:
        raw.chunk(bytes(MIB))
        sent += MIB
        assert sent < 2048 * MIB
    assert raw.status() == 413
    raw.close()
    raw = Raw(server).begin_upload(session, "f", length=1 << 40).send(bytes(5 * MIB))
    assert raw.status() == 413
    raw.close()
    # It promises more than it sends, or sends more than it promised.
    raw = Raw(server).begin_upload(session, "f", length=1000).send(b"x" * 500)
    raw.socket.shutdown(1)
    assert raw.status() == 400
    raw.close()
    raw = Raw(server).begin_upload(session, "f", length=10).send(b"x" * 500).end_upload()
    assert raw.status() == 400
    raw.close()
    assert everything(server, session) == []
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")


def test_H04_a_field_without_end_is_413(server, session):
    for name, filename in (("session_id", None), ("junk", None), ("file", "")):
        body = form(part("session_id", session) if name != "session_id" else part("a", "b"),
                    part(name, bytes(100_000), filename), part("file", b"x", "f"))
        assert refused(send_form(server, body)).status == 413, name
    many = form(part("session_id", session), *[part(f"n{i}", b"x") for i in range(100)],
                part("file", b"x", "f"))
    assert refused(send_form(server, many)).status == 400
    assert everything(server, session) == []


def spooled(pid):
    """Bytes in files without a name that the server holds in its own directory."""
    total = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            path = f"/proc/{pid}/fd/{name}"
            total += os.stat(path).st_size if "/output/#" in os.readlink(path) else 0
    return total


def test_uploads_that_name_their_session_last_share_their_room(start_server):
    server = start_server(MAX_FILE_SIZE_MB=1)
    waiting = []
    head = part("file", b"", "f")
    for _ in range(8):
        raw = Raw(server)
        raw.send(f"POST /upload_file HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB * 2}\r\n"
                 f"Content-Type: {FORM['Content-Type']}\r\n\r\n").send(head + bytes(MIB - 1000))
        waiting.append(raw)
    wait_until(lambda: spooled(server.process.pid) == 8 * (MIB - 1000), "all room is taken")
    late = form(part("file", bytes(MIB), "f"), part("session_id", server.create()))
    reply = send_form(server, late)
    assert reply.status == 503 and reply.headers["Retry-After"], reply
    for raw in waiting:
        raw.close()
    wait_until(lambda: send_form(server, late).status == 200, "there is room again")


def test_F16_a_path_through_a_file(server, session):
    uploaded(server, session, "a", b"a file")
    refused(upload(server, session, "a/b/c", b"x"))
    refused(download(server, session, "a/b"))
    assert everything(server, session) == ["./a"]


def test_F17_K04_no_set_id_and_nobody_else_s(server, session):
    fields = {"mode": "04777", "uid": "0", "permissions": "04777"}
    uploaded(server, session, "f", b"#!/bin/sh\nid -u\n", **fields)
    assert server.stdout(session, "stat -c '%u %g %a' f") == "1000 1000 644\n"
    server.stdout(session, "chmod 6755 f")
    uploaded(server, session, "f", b"#!/bin/sh\nid -u\n")
    assert server.stdout(session, "stat -c '%u %g %a' f; ./f") == "1000 1000 755\n1000\n"


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", 'q"uote', "new\nline", "semi;colon=\"x\"",
                                  "per%cent%0d%0a", "\x7f\x01", "\u2028\u202e.exe"])
def test_F18_no_name_becomes_a_header(server, session, name):
    uploaded(server, session, "f", b"x", filename=name)
    reply = download(server, session, name)
    assert (reply.status, reply.body) == (200, b"x")
    assert "X-Evil" not in reply.headers and len(reply.headers.get_all("Content-Type")) == 1
    value = reply.headers["Content-Disposition"]
    assert value.isascii() and value.isprintable() and value.count('"') == 2
    again = download(server, session, "missing" + name)
    assert again.status == 404 and again.reason.isprintable()


def test_an_upload_replaces_a_name_and_never_what_else_has_it(server, session):
    server.stdout(session, "echo other > a; ln a b")
    uploaded(server, session, "a", b"new")
    assert server.stdout(session, "cat a b") == "newother\n"


# ---- limits of the kernel ----

def test_R09_a_file_of_nothing_but_a_hole_costs_nothing(server, session):
    """A terabyte is more than the kernel lets a tenant have; the largest that it may have is sent
    as any other."""
    server.execute(session, "truncate -s 1T huge; rm -f huge")
    size = int(server.python(session, "import os, resource\n"
                                      "size = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
                                      "os.truncate(os.open('f', os.O_CREAT | os.O_WRONLY), size)\n"
                                      "print(size)"))
    assert size <= 1 << 30
    assert listing(server, session)["files"][0]["size_bytes"] == size
    before = resident(server.process.pid)
    assert quick(download, server, session, "f", Range="bytes=-4").body == bytes(4)
    raw = Raw(server, window=4096).begin_download(session, "f")
    assert f"Content-Length: {size}\r\n" in raw.read_head()
    raw.close(reset=True)
    assert resident(server.process.pid) - before < 4 * MIB
    uploaded(server, session, "g", b"it takes no room")


def test_R10_a_deep_tree_is_walked_to_an_end(server, session):
    server.python(session, """
import os
for i in range(1500):
    os.mkdir('d' * 200); os.chdir('d' * 200)
open('bottom', 'w')""", timeout=60)
    assert [file["name"] for file in quick(listing, server, session)["files"]] == ["d" * 200]
    assert quick(server.get, f"/status/{session}").status == 200
    assert quick(uploaded, server, session, "f", b"x")["size_bytes"] == 1


def test_R11_each_file_can_be_had_by_the_name_that_is_listed(server, session):
    made = ["x" * 255, "new\nline", "tab\t", "q\"'", "-rf", "😀", "trailing ", "back\\slash",
            "\x01\x7f", "%00", "a\r\nb"]
    code = "import os\nfor i, name in enumerate(%r):\n open(name, 'w').write(str(i))\n" % made
    code += "open(b'bad\\xff\\xfe name', 'w').write('bad')\nopen(b'\\xc3', 'w').write('half')"
    server.python(session, code)
    listed = [file["name"] for file in listing(server, session)["files"]]
    assert set(made) < set(listed) and len(listed) == len(made) + 2
    bodies = {name: download(server, session, name) for name in listed}
    assert all(reply.status == 200 for reply in bodies.values()), bodies
    assert {bodies[name].body for name in set(listed) - set(made)} == {b"bad", b"half"}
    assert [bodies[name].body.decode() for name in made] == [str(i) for i in range(len(made))]


def test_R12_a_hundred_thousand_files_are_listed_in_pages(server, session):
    server.stdout(session, "mkdir d; cd d; seq 100000 | xargs touch", timeout=60)
    before = resident(server.process.pid)
    worst, over = [0], threading.Event()

    def others():
        while not over.is_set():
            began = time.monotonic()
            server.get("/health")
            worst[0] = max(worst[0], time.monotonic() - began)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        body = quick(listing, server, session, path="d", seconds=4)
    finally:
        over.set()
        thread.join()
    assert (len(body["files"]), body["truncated"]) == (10_000, True)
    assert worst[0] < 1, "the others don't wait for it"
    too_much = "/list_files?" + query(session_id=session, path="d", limit=100_000)
    assert refused(server.get(too_much)).status == 400
    assert resident(server.process.pid) - before < 60 * MIB
    last = listing(server, session, path="d", offset=99_990)
    assert len(last["files"]) == 10


def unsent(port):
    """Bytes that the kernel holds for each client of the server."""
    rows = [line.split() for line in read_text("/proc/net/tcp").splitlines()[1:]]
    return [int(row[4].split(":")[0], 16) for row in rows
            if row[1].endswith(f":{port:04X}") and row[3] == "01"]


def test_F23_a_hundred_slow_readers_cost_little_and_hold_up_nobody(server, session):
    server.stdout(session, "head -c 100M /dev/zero > f", timeout=60)
    other = server.create()
    before, had = resident(server.process.pid), len(descriptors(server.process.pid))
    readers = [Raw(server, window=4096).begin_download(session, "f") for _ in range(100)]
    for raw in readers:
        assert raw.status() == 200
    assert resident(server.process.pid) - before < 64 * MIB
    assert sum(sizes := unsent(server.port)) < 100 * MIB, max(sizes)
    assert quick(server.stdout, other, "echo on", seconds=1) == "on\n"
    assert quick(upload, server, other, "f", b"x").status == 200
    assert len(server.sandbox_pids(session)) == 1, "no helper waits for a reader"
    for raw in readers:
        raw.close(reset=True)
    wait_until(lambda: len(descriptors(server.process.pid)) <= had + 2, "all is closed again")
    server.cleanup(other)


def test_H02_an_upload_costs_no_memory(server, session):
    uploaded(server, session, "warm", bytes(MIB))
    before, most, over = resident(server.process.pid), [0], threading.Event()

    def watch():
        while not over.wait(0.005):
            most[0] = max(most[0], resident(server.process.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    uploaded(server, session, "f", bytes(60 * MIB))
    over.set()
    thread.join()
    assert most[0] - before < 4 * MIB


def test_clients_that_vanish_leave_nothing(server, session):
    server.stdout(session, "head -c 20M /dev/zero > f")
    had = len(descriptors(server.process.pid))
    for turn in range(10):
        up = Raw(server).begin_upload(session, f"u{turn}", length=10 * MIB).send(bytes(MIB))
        down = Raw(server, window=4096).begin_download(session, "f")
        down.read_head()
        wait_until(lambda: len(server.sandbox_pids(session)) > 1, "a helper waits for the upload")
        up.close(reset=turn % 2 == 0)
        down.close(reset=turn % 2 == 0)
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")
    wait_until(lambda: len(descriptors(server.process.pid)) <= had + 1, "no descriptor is left")
    assert everything(server, session) == ["./f"]
