# SPDX-License-Identifier: Apache-2.0
"""Files through the API: up, down and listed; every documented refusal and limit."""
import json
import os
import re
import threading
import uuid

import pytest

from files import (END, Raw, download, everything, form, listing, names, part, query, send_form,
                   upload, upload_form, uploaded)
from server import Server, wait_until

MIB = 1 << 20
UNKNOWN = str(uuid.UUID(int=7))


def refused(reply, status, error=None, **keys):
    assert reply.status == status, reply
    body = reply.json
    assert body["error"] == (error or body["error"]) and body["detail"] == body["error"]
    assert body == {**body, **keys}
    assert body["error"][:40] in reply.reason
    return body


@pytest.fixture(scope="module")
def small(binary):
    """A server with small limits, for all tests of limits."""
    made = Server(MAX_FILE_SIZE_MB=1, MAX_TOTAL_FILES=20, MAX_WORKSPACE_SIZE_MB=16)
    try:
        yield made.start()
        made.close()
    finally:
        made.remove()


@pytest.fixture
def narrow(small):
    name = small.create()
    yield name
    small.cleanup(name)


# ---- up and down ----

def test_an_upload_answers_every_field_and_belongs_to_the_tenant(server, session):
    assert uploaded(server, session, "a/b/c.txt", b"hello") == {
        "status": "uploaded", "session_id": session, "filename": "a/b/c.txt",
        "path": "/workspace/a/b/c.txt", "size_bytes": 5}
    told = server.stdout(session, "stat -c '%U %G %a %h' a/b/c.txt a/b; cat a/b/c.txt")
    assert told == "sandboxuser sandboxuser 644 1\nsandboxuser sandboxuser 755 1\nhello"
    assert server.execute(session, "echo more >> a/b/c.txt && rm -r a")["exit_code"] == 0


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, MIB, MIB + 1,
                                  3 * MIB + 7])
def test_bytes_come_back_as_they_went(server, session, size):
    content = os.urandom(size)
    assert uploaded(server, session, "f", content)["size_bytes"] == size
    reply = download(server, session, "f")
    assert (reply.status, reply.body == content) == (200, True)
    assert reply.headers["Content-Length"] == str(size)
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert server.stdout(session, "stat -c %s f") == f"{size}\n"


@pytest.mark.parametrize("content", [
    b"\r\n", b"\r\n--", END[:-1], b"\r\n--" + b"-" * 27, b"\r" * 70000, bytes(range(256))])
def test_bytes_that_look_like_a_boundary(server, session, content):
    if content == END[:-1]:
        content = content.replace(b"boundary", b"boundarx")
    uploaded(server, session, "f", content)
    assert download(server, session, "f").body == content


@pytest.mark.parametrize("name,shown", [
    ("ü 中 \U0001f600.txt", "UTF-8''%C3%BC%20%E4%B8%AD%20%F0%9F%98%80.txt"),
    ("it's.txt", None), ("100%.txt", "UTF-8''100%25.txt"), ("-rf", None), ("a..b", None),
    ("trailing ", None), ("tab\there", "UTF-8''tab%09here"), ("b\\c", "UTF-8''b%5Cc"),
    ("sub/dir/f.txt", None), ("x" * 255, None), ("é" * 127, None)])
def test_names_of_every_kind(server, session, name, shown):
    uploaded(server, session, "placeholder", b"", filename=name)
    reply = download(server, session, name)
    disposition = reply.headers["Content-Disposition"]
    assert reply.status == 200 and disposition.startswith('attachment; filename="')
    if shown:
        assert disposition.endswith("filename*=" + shown), disposition
    if name.isascii() and not shown:
        assert disposition == f'attachment; filename="{name.rpartition("/")[2]}"'
    assert name.partition("/")[0] in names(server, session)


def test_the_field_filename_goes_before_the_part_s(server, session):
    body = uploaded(server, session, "../ignored", b"x", filename="field")
    assert body["filename"] == "field" and names(server, session) == ["field"]
    assert uploaded(server, session, "named", b"x", filename="")["filename"] == "named"


def test_a_session_named_after_the_file(server, session):
    content = os.urandom(2 * MIB)
    body = form(part("file", content, "late"), part("session_id", session))
    assert send_form(server, body).json["size_bytes"] == len(content)
    assert download(server, session, "late").body == content
    refused(send_form(server, form(part("file", content, "f"), part("session_id", UNKNOWN))), 404,
            "Invalid or expired session", session_id=UNKNOWN)


def test_an_upload_in_chunks_without_a_length(server, session):
    raw = Raw(server).begin_upload(session, "f")
    for piece in (b"a", b"b" * 70000, b"c"):
        raw.chunk(piece)
    raw.chunk(END).send(b"0\r\n\r\n")
    assert raw.status() == 200
    raw.close()
    assert download(server, session, "f").body == b"a" + b"b" * 70000 + b"c"


def test_a_download_by_GET_and_a_HEAD_that_has_no_body(server, session):
    uploaded(server, session, "a b", b"hello")
    path = "/download_file?" + query(session_id=session, filename="a b")
    reply = server.get(path)
    assert (reply.status, reply.body) == (200, b"hello")
    head = server.request("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Length", "Content-Disposition", "ETag", "Accept-Ranges"):
        assert head.headers[name] == reply.headers[name]
    ranged = server.request("HEAD", path, headers={"Range": "bytes=0-1"})
    assert (ranged.status, ranged.headers["Content-Length"]) == (200, "5")
    missing = "/download_file?" + query(session_id=session, filename="no")
    assert server.request("HEAD", missing).status == 404


@pytest.mark.parametrize("asked,first,last", [
    ("bytes=0-0", 0, 0), ("bytes=2-5", 2, 5), ("bytes=5-", 5, 9), ("bytes=-3", 7, 9),
    ("bytes=-99", 0, 9), ("bytes=0-99999999999999999999", 0, 9), ("BYTES=9-9", 9, 9)])
def test_a_range_is_answered_with_206(server, session, asked, first, last):
    uploaded(server, session, "f", b"0123456789")
    reply = download(server, session, "f", Range=asked)
    assert (reply.status, reply.body) == (206, b"0123456789"[first:last + 1])
    assert reply.headers["Content-Range"] == f"bytes {first}-{last}/10"
    assert reply.headers["Content-Length"] == str(last - first + 1)


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=", "bytes=a-b", "bytes=--1", "lines=0-1",
                                   "bytes=0-0,5-5", "bytes=1-2-3", "0-1"])
def test_a_range_that_is_none_gets_the_whole(server, session, asked):
    uploaded(server, session, "f", b"0123456789")
    reply = download(server, session, "f", Range=asked)
    assert (reply.status, reply.body) == (200, b"0123456789")


def test_a_range_beyond_the_file_is_416_with_its_size(server, session):
    uploaded(server, session, "f", b"0123456789")
    for asked in ("bytes=10-", "bytes=99-100", "bytes=-0"):
        reply = download(server, session, "f", Range=asked)
        assert reply.headers["Content-Range"] == "bytes */10"
        refused(reply, 416)
    uploaded(server, session, "empty", b"")
    refused(download(server, session, "empty", Range="bytes=0-"), 416)


def test_a_resumed_download_starts_over_when_the_file_has_changed(server, session):
    uploaded(server, session, "f", b"0123456789")
    tag = download(server, session, "f").headers["ETag"]
    assert download(server, session, "f", Range="bytes=4-", If_Range=tag).status == 206
    uploaded(server, session, "f", b"abcdefghijkl")
    reply = download(server, session, "f", Range="bytes=4-", If_Range=tag)
    assert (reply.status, reply.body) == (200, b"abcdefghijkl")


def test_no_two_files_have_one_ETag(server, session):
    """Not even of one size, and of one time, which the tenant can set."""
    tags = set()
    for content in (b"1", b"2", b"3"):
        uploaded(server, session, "f", content)
        server.stdout(session, "touch -d @1700000000 f")
        tags.add(download(server, session, "f").headers["ETag"])
    assert len(tags) == 3
    server.stdout(session, "printf 4 > f; touch -d @1700000000 f")
    assert download(server, session, "f").headers["ETag"] not in tags


def test_a_reader_sees_the_old_file_or_the_new_one(server, session):
    """While uploads replace it all the time: inside and outside, no mixture, no gap."""
    contents = [bytes([65 + i]) * (200_000 + i) for i in range(4)]
    uploaded(server, session, "f", contents[0])
    over = threading.Event()

    def replace():
        while not over.is_set():
            for content in contents:
                uploaded(server, session, "f", content)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        seen = {download(server, session, "f").body for _ in range(20)}
        wait_until(lambda: len(seen) > 1 or seen.add(download(server, session, "f").body),
                   "another version was seen")
        inside = server.python(session, """
import time
kinds, count, end = set(), 0, time.monotonic() + 20
while (count < 400 or len(kinds) < 2) and time.monotonic() < end:
    count += 1
    data = open('f', 'rb').read()
    kinds.add((len(data), len(set(data))))
print(all((size, 1) in kinds and 200000 <= size < 200004 for size, _ in kinds), len(kinds))""")
    finally:
        over.set()
        writer.join()
    assert seen <= set(contents) and len(seen) > 1
    assert inside.split()[0] == "True" and int(inside.split()[1]) > 1
    assert everything(server, session) == ["./f"]


def test_a_replaced_file_keeps_its_permissions(server, session):
    uploaded(server, session, "run", b"#!/bin/sh\necho 1\n")
    server.stdout(session, "chmod 750 run")
    uploaded(server, session, "run", b"#!/bin/sh\necho 2\n")
    assert server.stdout(session, "stat -c %a run; ./run") == "750\n2\n"


# ---- lists ----

def test_a_list_has_every_field_newest_first(server, session):
    server.python(session, """
import os, socket
os.umask(0)
for age, name in enumerate(['new', 'two  spaces', '.hidden', 'dir', 'old']):
    os.mkdir(name, 0o1777) if name == 'dir' else os.close(os.open(name, os.O_CREAT, 0o640))
    os.truncate(name, age) if name != 'dir' else None
    os.utime(name, (1700000000 - age, 1700000000 - age))
open('dir/inner', 'w')
os.utime('dir', (1700000000 - 3, 1700000000 - 3))
os.chmod('old', 0o4750)""")
    body = listing(server, session)
    assert [file["name"] for file in body["files"]] == ["new", "two  spaces", ".hidden", "dir",
                                                        "old"]
    first = body["files"][0]
    assert first == {"name": "new", "size_bytes": 0, "modified": "2023-11-14T22:13:20Z",
                     "permissions": "-rw-r-----", "type": "file"}
    assert [file["permissions"] for file in body["files"][3:]] == ["drwxrwxrwt", "-rwsr-x---"]
    assert body["files"][3]["type"] == "directory"
    assert (body["session_id"], body["workspace_dir"]) == (session, "/workspace")
    assert (body["total_files"], body["truncated"]) == (5, False)
    assert body["total_size_bytes"] == sum(file["size_bytes"] for file in body["files"])
    assert names(server, session, path="dir") == ["inner"]


def test_a_list_in_pages(server, session):
    server.stdout(session, "for i in $(seq 25); do touch -d @$((1700000000 - i)) f$i; done")
    seen = []
    for offset in range(0, 30, 10):
        body = listing(server, session, limit=10, offset=offset)
        seen += [file["name"] for file in body["files"]]
        assert body["truncated"] == (offset < 20)
    assert seen == [f"f{i}" for i in range(1, 26)]
    for bad in ("-1", "x", "1e3", "99999999999999999999", ""):
        refused(server.get("/list_files?" + query(session_id=session, limit=bad)), 400)


@pytest.mark.parametrize("when,shown", [(99999999999, "2262"), (-99999999999, "1677"),
                                        (0, "1970"), (-1, "1969"), (4102444800, "2100")])
def test_a_list_of_files_from_another_time(server, session, when, shown):
    server.stdout(session, f"touch -d @{when} f")
    assert listing(server, session)["files"][0]["modified"].startswith(shown + "-")


# ---- refusals ----

def test_what_is_missing_is_named(server, session):
    refused(server.post("/upload_file"), 400, "session_id required")
    refused(server.post("/upload_file", {"session_id": session}), 400, "session_id required")
    refused(send_form(server, form(part("file", b"x", "f"))), 400, "session_id required")
    refused(send_form(server, form(part("session_id", session))), 400, "No file provided")
    refused(send_form(server, upload_form(session, "", b"")), 400, "No file provided")
    for body in ({}, {"session_id": session}, {"filename": "f"}):
        refused(server.post("/download_file", body), 400, "session_id and filename required")
    refused(server.get("/list_files"), 400, "session_id required")


def test_an_unknown_session_is_404_everywhere(server):
    error = "Invalid or expired session"
    refused(upload(server, UNKNOWN, "f", b"x"), 404, error, session_id=UNKNOWN)
    refused(download(server, UNKNOWN, "f"), 404, error, session_id=UNKNOWN)
    refused(server.get("/list_files?" + query(session_id=UNKNOWN)), 404, error)
    refused(server.get("/list_files?" + query(session_id="\x00é" * 500)), 404, error)


def test_a_missing_file_is_404_with_its_name(server, session):
    for name in ("missing", "missing/f", "ü"):
        refused(download(server, session, name), 404, "File not found in workspace",
                filename=name, workspace_dir="/workspace")


def test_wrong_types_are_400(server, session):
    for body in ({"session_id": session, "filename": 5}, {"session_id": [], "filename": "f"},
                 [session, "f"], "x", {"session_id": session, "filename": "\ud800"},
                 {"session_id": session, "filename": "a\0b"}):
        reply = server.post("/download_file", json.dumps(body),
                            headers={"Content-Type": "application/json"})
        assert reply.status == 400 and reply.json["error"], (body, reply)


@pytest.mark.parametrize("type,body", [
    ("multipart/form-data", b"x"), ("multipart/form-data; boundary=", b"x"),
    ("multipart/form-data; boundary=" + "x" * 71, b"x"),
    ("multipart/form-data; boundary=a; boundary=b", b"x"),
    ("text/plain", b"x"), ("multipart/mixed; boundary=a", b"--a--\r\n")])
def test_a_form_without_a_good_boundary(server, type, body):
    refused(server.request("POST", "/upload_file", body, {"Content-Type": type}), 400)


def test_a_form_that_is_not_one_upload(server, session):
    twice = [part("file", b"1", "a"), part("file", b"2", "b")]
    refused(send_form(server, form(part("session_id", session), *twice)), 400,
            "Only one file can be uploaded at a time")
    other = server.create()
    for order in ([part("session_id", session), part("session_id", other), twice[0]],
                  [part("session_id", session), twice[0], part("session_id", other)],
                  [twice[0], part("session_id", other), part("session_id", session)],
                  [part("session_id", session), part("filename", "a"), part("filename", "b"),
                   twice[0]]):
        assert "two fields" in refused(send_form(server, form(*order)), 400)["error"]
    whole = upload_form(session, "f", b"x" * 1000)
    for cut in (0, 1, 50, len(whole) - 500, len(whole) - len(END), len(whole) - 3):
        refused(send_form(server, whole[:cut]), 400)
    assert everything(server, session) == [] and everything(server, other) == []
    server.cleanup(other)


# ---- limits ----

def test_413_has_both_sizes_and_the_limit_itself_fits(small, narrow):
    assert uploaded(small, narrow, "f", bytes(MIB))["size_bytes"] == MIB
    for size in (MIB + 1, 3 * MIB):
        refused(upload(small, narrow, "g", bytes(size)), 413,
                "File size exceeds maximum allowed size", max_size_mb=1,
                uploaded_size_mb=round(size / MIB, 2))
    late = form(part("file", bytes(2 * MIB), "g"), part("session_id", narrow))
    refused(send_form(small, late), 413, uploaded_size_mb=2)
    assert everything(small, narrow) == ["./f"]


def test_507_counts_files_in_all_directories_before_it_looks_at_sizes(small, narrow):
    small.stdout(narrow, "mkdir -p d/e && for i in $(seq 19); do echo > d/e/$i; done; ln -s d x")
    uploaded(small, narrow, "twentieth", b"x")
    refused(upload(small, narrow, "d/one-more", bytes(MIB)), 507, "Maximum file count exceeded",
            max_files=20, current_files=20)
    small.stdout(narrow, "rm d/e/1")
    uploaded(small, narrow, "d/one-more", b"x")


def test_507_has_the_three_sizes_and_nothing_stays(small, narrow):
    small.stdout(narrow, "head -c 15500K /dev/zero > used")
    body = refused(upload(small, narrow, "f", bytes(MIB)), 507, "Workspace size limit exceeded",
                   max_workspace_mb=16, file_size_mb=1)
    assert abs(body["current_workspace_mb"] - 15.14) < 0.02
    late = form(part("file", bytes(MIB), "f"), part("session_id", narrow))
    refused(send_form(small, late), 507, "Workspace size limit exceeded", file_size_mb=1)
    assert everything(small, narrow) == ["./used"]
    uploaded(small, narrow, "f", bytes(100_000))


def test_507_when_the_kernel_says_so_and_the_room_is_free_again(small, narrow):
    """What has no name is in nobody's count, so here only the kernel knows."""
    hold = ("python3 -c \"import os,time\nf=os.open('/workspace',os.O_TMPFILE|os.O_RDWR)\n"
            "try:\n  while True: os.write(f, b'x'*65536)\nexcept OSError: pass\n"
            "print('full', flush=True); time.sleep(60)\" > /dev/shm/told 2>&1 & "
            "until grep -q full /dev/shm/told; do sleep 0.05; done")
    small.execute(narrow, hold)
    refused(upload(small, narrow, "f", bytes(MIB)), 507, "Workspace size limit exceeded",
            file_size_mb=1)
    assert everything(small, narrow) == []
    small.execute(narrow, "pkill python3")
    wait_until(lambda: upload(small, narrow, "f", bytes(MIB)).status == 200, "there is room again")


def test_a_client_hears_the_refusal_of_an_upload_that_it_goes_on_sending(small, narrow):
    for name, session in (("f", narrow), ("f", UNKNOWN), ("../f", narrow)):
        reply = upload(small, session, name, bytes(20 * MIB))
        assert reply.status in (400, 404, 413), reply


def test_uploads_and_downloads_are_logged(server, session):
    uploaded(server, session, "f", b"12345")
    download(server, session, "f")
    for event in ("file_uploaded", "file_downloaded"):  # the second one after its last byte is out
        pattern = rf"event={event} session={session[:12]} .*bytes=5 "
        wait_until(lambda: re.search(pattern, server.log()), lambda: server.log()[-500:])
