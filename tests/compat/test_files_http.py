# SPDX-License-Identifier: Apache-2.0
"""Files key by key: upload_file, download_file and list_files."""
import re
import time
import uuid

import pytest
import requests

from answers import create, cleanup, execute, get, moment, ok, post, refused, unique, upload

UNKNOWN = str(uuid.UUID(int=7))


def download(url, session, name):
    return post(url, "/download_file", {"session_id": session, "filename": name})


def names(url, session):
    return [file["name"] for file in ok(get(url, "/list_files", session_id=session))["files"]]


def test_upload_answers_where_it_went(url, session):
    body = ok(upload(url, session, "a.txt", b"hello"))
    assert body == {**body, "status": "uploaded", "filename": "a.txt",
                    "path": "/workspace/a.txt", "size_bytes": 5}
    assert execute(url, session, "cat a.txt; stat -c ' %U' a.txt")["stdout"] == \
        "hello sandboxuser\n"
    assert execute(url, session, "echo more >> a.txt")["exit_code"] == 0


def test_upload_replaces(url, session):
    ok(upload(url, session, "f", b"a long first version"))
    ok(upload(url, session, "f", b"short"))
    assert download(url, session, "f").content == b"short"


@pytest.mark.parametrize("name", ["sub/dir/f.txt", "with space", "ü 中 \U0001f600.txt", ".hidden",
                                  "a..b", "-rf", "semi;colon", "$(x)", "'"])
def test_names_go_up_and_down(url, session, name):
    content = bytes(range(256))
    body = ok(upload(url, session, name, content))
    assert (body["filename"], body["path"]) == (name, f"/workspace/{name}")
    answer = download(url, session, name)
    assert (answer.status_code, answer.content) == (200, content)
    assert name.split("/")[0] in names(url, session)


def test_a_quote_in_a_name_is_one_name(url, session):
    """It travels as %22; either reading is fine, as long as all agree."""
    name = ok(upload(url, session, 'a"b', b"x"))["filename"]
    assert name in ('a"b', "a%22b")
    assert names(url, session) == [name]
    assert download(url, session, name).content == b"x"


def test_a_backslash_is_a_character_of_the_name(url, session):
    """Sent by hand: some versions of the clients' library double it, newer ones don't."""
    body = (b'--x\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n%s\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a\\b.txt"\r\n\r\n'
            b'content\r\n--x--\r\n' % session.encode())
    told = ok(requests.post(url + "/upload_file", data=body,
                            headers={"Content-Type": "multipart/form-data; boundary=x"}))
    assert told["filename"] == "a\\b.txt" and told["size_bytes"] == 7
    assert names(url, session) == ["a\\b.txt"]


def test_the_filename_field_goes_before_the_parts_name(url, session):
    body = ok(upload(url, session, "part.txt", b"x", filename="field.txt"))
    assert (body["filename"], body["path"]) == ("field.txt", "/workspace/field.txt")
    assert names(url, session) == ["field.txt"]


@pytest.mark.parametrize("name", ["../../x", "..", "a/../../x", "sub/.."])
def test_uploads_stay_inside(url, session, name):
    refused(upload(url, session, name, b"x"), 400, "Invalid filename")
    refused(upload(url, session, "fine", b"x", filename=name), 400, "Invalid filename")
    assert names(url, session) == []


def test_uploads_do_not_follow_links_out(url, session):
    execute(url, session, "python3 -c 'import os; os.symlink(\"/etc\", \"out\")'")
    assert upload(url, session, "out/passwd", b"x").status_code in range(400, 500)
    assert execute(url, session, "wc -c < /etc/passwd")["stdout"].strip() != "1"


def test_an_upload_lacks_something(url, session):
    only_session = {"session_id": (None, session)}
    only_file = {"file": ("f", b"x")}
    refused(requests.post(url + "/upload_file", files=only_session), 400, "No file provided")
    refused(requests.post(url + "/upload_file", files=only_file), 400, "session_id required")
    refused(requests.post(url + "/upload_file", data={"session_id": session}), 400)
    refused(requests.post(url + "/upload_file"), 400)


def test_files_of_an_unknown_session(url):
    refused(upload(url, UNKNOWN, "f", b"x"), 404, "Invalid or expired session")
    refused(download(url, UNKNOWN, "f"), 404, "Invalid or expired session")
    refused(get(url, "/list_files", session_id=UNKNOWN), 404, "Invalid or expired session")


def test_a_download_is_raw_bytes_with_a_name(url, session):
    content = bytes(range(256)) * 4096
    ok(upload(url, session, "data.bin", content))
    answer = download(url, session, "data.bin")
    assert answer.content == content
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="data.bin"'
    assert answer.headers["Content-Length"] == str(len(content))


def test_a_download_of_a_name_beyond_latin_1(url, session):
    ok(upload(url, session, "中ü.txt", b"x"))
    header = download(url, session, "中ü.txt").headers["Content-Disposition"]
    assert header.startswith('attachment; filename="') and header.isascii()
    assert "filename*=UTF-8''%E4%B8%AD%C3%BC.txt" in header


def test_a_download_of_an_empty_file(url, session):
    execute(url, session, "touch empty")
    answer = download(url, session, "empty")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Length"] == "0"


@pytest.mark.parametrize("name", ["../x", "..", "/etc/passwd", "a/../b", "a/.."])
def test_downloads_stay_inside_and_say_so_before_looking_for_the_session(url, session, name):
    for one in (session, UNKNOWN):
        refused(download(url, one, name), 400, "Invalid filename")


@pytest.mark.parametrize("body", [{}, {"session_id": UNKNOWN}, {"filename": "f"}])
def test_a_download_lacks_something(url, body):
    refused(post(url, "/download_file", body), 400, "session_id and filename required")


def test_only_regular_files_are_there_to_download(url, session):
    execute(url, session, "mkdir dir; python3 -c 'import os; os.mkfifo(\"fifo\"); "
            "os.symlink(\"/proc/self/environ\", \"link\")'")
    for name in ("missing", "dir", "fifo", "dir/missing", "missing/f", "link"):
        refused(download(url, session, name), 404, "File not found in workspace", filename=name,
                workspace_dir="/workspace")


def test_list_files_of_nothing(url, session):
    body = ok(get(url, "/list_files", session_id=session))
    assert body == {**body, "session_id": session, "workspace_dir": "/workspace", "files": [],
                    "total_files": 0, "total_size_bytes": 0}


def test_list_files_newest_first_one_level_with_all_kinds(url, session):
    made = execute(url, session, """python3 -c '
import os
os.umask(0o027)
for age, name in enumerate(["newest", "with  two spaces", ".hidden", "dir", "old\\tü"]):
    os.makedirs("dir/inner") if name == "dir" else open(name, "w").write("x" * age)
    os.utime(name, (1700000000 - age, 1700000000 - age))
'""")
    assert made["exit_code"] == 0, made
    body = ok(get(url, "/list_files", session_id=session))
    files = body["files"]
    assert [f["name"] for f in files] == ["newest", "with  two spaces", ".hidden", "dir",
                                          "old\tü"]
    assert body["total_files"] == 5
    assert body["total_size_bytes"] in (sum(f["size_bytes"] for f in files), 0 + 1 + 2 + 4)
    for age, file in enumerate(files):
        assert moment(file["modified"]) == 1700000000 - age
        assert re.fullmatch(r"[-d][-rwxsStT]{9}", file["permissions"])
        if file["name"] != "dir":
            assert file["size_bytes"] == age
    assert files[0]["permissions"] == "-rw-r-----"
    assert files[3]["permissions"][0] == "d"


def test_list_files_modified_is_now_for_a_new_file(url, session):
    execute(url, session, "echo x > f")
    file = ok(get(url, "/list_files", session_id=session))["files"][0]
    assert abs(moment(file["modified"]) - time.time()) < 30
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", file["modified"])


def test_a_listing_is_no_use_of_the_session(url):
    session = create(url, unique())
    before = ok(get(url, f"/status/{session}"))["last_activity"]
    execute(url, session, "sleep 1.1")
    used = ok(get(url, f"/status/{session}"))["last_activity"]
    assert moment(used) > moment(before)
    for _ in range(3):
        ok(get(url, "/list_files", session_id=session))
    assert ok(get(url, f"/status/{session}"))["last_activity"] == used
    cleanup(url, session)


def test_list_files_without_a_session(url):
    refused(get(url, "/list_files"), 400)


def test_files_never_cross_threads(url):
    one, two = create(url, unique()), create(url, unique())
    ok(upload(url, one, "secret", b"x"))
    assert names(url, two) == []
    refused(download(url, two, "secret"), 404, "File not found in workspace")
    for session in (one, two):
        cleanup(url, session)
