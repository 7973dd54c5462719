# SPDX-License-Identifier: Apache-2.0
"""What each client sends, byte by byte: the promise that the clients here are the originals."""
import pathlib
import re

import pytest
import requests

import enhanced_client
import flask_client
import head_client
import v1_client

COMMAND = 'echo "ü" \U0001f600 \udc80\0'
ESCAPED = r'echo \"\u00fc\" \ud83d\ude00 \udc80\u0000'
CREATE = b'{"user_id": "u", "thread_id": "t 1&\\u00fc", "timeout_minutes": 30}'
GET_SESSION = "GET /get_session?thread_id=t+1%26%C3%BC HTTP/1.1"


def check(recorder, request, line, body=b"", content_type=None):
    """One request on a connection of its own, with exactly these headers."""
    assert request.line == line
    assert not request.repeated
    assert request.closed, "the client closes"
    headers = dict(request.headers)
    assert headers.pop("Host") == f"127.0.0.1:{recorder.port}"
    assert re.fullmatch(r"python-requests/[\d.]+", headers.pop("User-Agent"))
    assert headers.pop("Accept-Encoding").startswith("gzip, deflate")
    assert headers.pop("Accept") == "*/*"
    assert headers.pop("Connection") == "keep-alive"
    if line.startswith("POST "):
        assert headers.pop("Content-Length") == str(len(request.body))
    if content_type:
        assert re.fullmatch(content_type, headers.pop("Content-Type"))
    assert headers == {}
    if body is not None:
        assert request.body == body


def check_json(recorder, request, path, body):
    check(recorder, request, f"POST {path} HTTP/1.1", body, "application/json")


def check_upload(recorder, request, filename, content):
    """The session's part first; the file's part says nothing about its type."""
    check(recorder, request, "POST /upload_file HTTP/1.1", None,
          r"multipart/form-data; boundary=[0-9a-f]{32}")
    mark = request.headers["Content-Type"].partition("=")[2].encode()
    assert request.body == (
        b"--" + mark + b'\r\nContent-Disposition: form-data; name="session_id"\r\n\r\nsess-1\r\n'
        b"--" + mark + b'\r\nContent-Disposition: form-data; name="file"; filename="'
        + filename.encode() + b'"\r\n\r\n' + content + b"\r\n--" + mark + b"--\r\n")


@pytest.fixture
def upload_me(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(256)) + b"\r\n--")
    return path


def test_v1(recorder, calls):
    with v1_client.SandboxClient(recorder.url) as client:
        assert client.session_id == "sess-1"
        assert client.execute(COMMAND)["exit_code"] == 0
    create, execute, cleanup = recorder.take()
    check(recorder, create, "POST /create_session HTTP/1.1")
    check_json(recorder, execute, "/execute",
               b'{"session_id": "sess-1", "command": "%s"}' % ESCAPED.encode())
    check_json(recorder, cleanup, "/cleanup", b'{"session_id": "sess-1"}')
    assert set(calls.timeouts.values()) == {None}


def test_v1_keeps_a_trailing_slash(recorder):
    recorder.script["//create_session"] = [(200, {"session_id": "sess-2"})]
    assert v1_client.SandboxClient(recorder.url + "/").create_session() == "sess-2"
    assert recorder.take()[0].line == "POST //create_session HTTP/1.1"


def test_flask(recorder, calls, upload_me):
    with flask_client.SandboxClient(recorder.url + "/") as client:
        client.execute(COMMAND, timeout=7)
        client.execute("ls")
        client.upload_file(str(upload_me))
        client.upload_file(str(upload_me), 'sub/ü 1".txt')
        client.get_status()
    create, execute, default, upload, renamed, status, cleanup = recorder.take()
    check(recorder, create, "POST /create_session HTTP/1.1")
    check_json(recorder, execute, "/execute",
               b'{"session_id": "sess-1", "command": "%s", "timeout": 7}' % ESCAPED.encode())
    check_json(recorder, default, "/execute",
               b'{"session_id": "sess-1", "command": "ls", "timeout": 30}')
    check_upload(recorder, upload, "data.bin", upload_me.read_bytes())
    check_upload(recorder, renamed, "sub/ü 1%22.txt", upload_me.read_bytes())
    check(recorder, status, "GET /status/sess-1 HTTP/1.1")
    check_json(recorder, cleanup, "/cleanup", b'{"session_id": "sess-1"}')
    assert calls.timeouts == {"/create_session": 10, "/execute": 35, "/upload_file": 60,
                              "/status/sess-1": 5, "/cleanup": 10}


@pytest.mark.parametrize("module", [enhanced_client, head_client])
def test_enhanced(recorder, calls, upload_me, tmp_path, module):
    recorder.script["/get_session"] = [(404, {"detail": {}})]
    recorder.script["/download_file"] = [(200, b"\x00\xff")]
    with module.SandboxClient("remote", recorder.url + "/") as client:
        client.get_or_create_session("u", "t 1&ü")
        client.execute(COMMAND, timeout=7)
        client.upload_file(str(upload_me), "sub/data.bin")
        assert client.download_file("a b.bin", str(tmp_path / "got")) == str(tmp_path / "got")
        client.list_files()
    find, create, execute, upload, download, files, cleanup = recorder.take()
    check(recorder, find, GET_SESSION)
    check_json(recorder, create, "/create_session", CREATE)
    check_json(recorder, execute, "/execute",
               b'{"session_id": "sess-1", "command": "%s", "timeout": 7}' % ESCAPED.encode())
    check_upload(recorder, upload, "sub/data.bin", upload_me.read_bytes())
    check_json(recorder, download, "/download_file",
               b'{"session_id": "sess-1", "filename": "a b.bin"}')
    assert (tmp_path / "got").read_bytes() == b"\x00\xff"
    check(recorder, files, "GET /list_files?session_id=sess-1 HTTP/1.1")
    check_json(recorder, cleanup, "/cleanup", b'{"session_id": "sess-1"}')
    assert calls.timeouts == {"/get_session": 5, "/create_session": 10, "/execute": 12,
                              "/upload_file": 60, "/download_file": 60, "/list_files": 5,
                              "/cleanup": 10}


def test_head_uploads_from_memory(recorder):
    client = head_client.SandboxClient("remote", recorder.url)
    client.get_or_create_session("u", "t")
    client.upload_file_from_bytes("a/b.txt", b"content")
    client.upload_file_from_bytes('a\r\n"b', b"")
    _, plain, escaped = recorder.take()
    check_upload(recorder, plain, "a/b.txt", b"content")
    check_upload(recorder, escaped, "a%0D%0A%22b", b"")


@pytest.mark.parametrize("found", [(500, {}), (404, {}), (200, b"no JSON")])
def test_enhanced_creates_whenever_it_finds_nothing(recorder, found):
    recorder.script["/get_session"] = [found]
    enhanced_client.SandboxClient("remote", recorder.url).get_or_create_session("u", "t 1&ü")
    find, create = recorder.take()
    check(recorder, find, GET_SESSION)
    check_json(recorder, create, "/create_session", CREATE)


def test_enhanced_retries_once_after_a_404_and_creates_with_30_minutes(recorder):
    client = enhanced_client.SandboxClient("remote", recorder.url)
    client.get_or_create_session("u", "t 1&ü", timeout_minutes=99)
    recorder.take()
    recorder.script["/execute"] = [(404, {}), (404, {}), (200, {"exit_code": 9})]
    recorder.script["/get_session"] = [(404, {})]
    with pytest.raises(requests.HTTPError):
        client.execute("ls")
    execute, find, create, again = recorder.take()
    for request in (execute, again):
        check_json(recorder, request, "/execute",
                   b'{"session_id": "sess-1", "command": "ls", "timeout": 30}')
    check(recorder, find, GET_SESSION)
    check_json(recorder, create, "/create_session", CREATE)


@pytest.mark.parametrize("status", [400, 409, 500, 503])
def test_enhanced_retries_after_nothing_else(recorder, status):
    client = enhanced_client.SandboxClient("remote", recorder.url)
    client.get_or_create_session("u", "t")
    recorder.take()
    recorder.script["/execute"] = [(status, {})]
    with pytest.raises(requests.HTTPError):
        client.execute("ls")
    assert [request.call for request in recorder.take()] == ["POST /execute"]


def test_enhanced_ignores_how_a_cleanup_went(recorder):
    client = enhanced_client.SandboxClient("remote", recorder.url)
    client.get_or_create_session("u", "t")
    recorder.script["/cleanup"] = [(500, {})]
    client.close_session()
    assert client.session_id is None
    client.close_session()
    assert [r.call for r in recorder.take()] == ["GET /get_session", "POST /cleanup"]


def test_shells(recorder, program):
    recorder.script["/execute"] = [(200, {"exit_code": 0, "output": "/workspace\n"})]
    assert program("v1_shell.py", recorder.url, stdin="ls\nexit\n").returncode == 0
    create, where, execute, cleanup = recorder.take()
    check(recorder, create, "POST /create_session HTTP/1.1")
    check_json(recorder, where, "/execute", b'{"session_id": "sess-1", "command": "pwd"}')
    check_json(recorder, execute, "/execute",
               b'{"session_id": "sess-1", "command": "cd /workspace && ls"}')
    check_json(recorder, cleanup, "/cleanup", b'{"session_id": "sess-1"}')

    recorder.script["/execute"] = [(200, {"exit_code": 0, "stdout": "/workspace\n"})]
    assert program("shell.py", "--mode", "remote", "--url", recorder.url,
                   stdin="ls\n").returncode == 0
    find, where, execute, cleanup = recorder.take()
    assert re.fullmatch(r"GET /get_session\?thread_id=shell_[0-9a-f]{8} HTTP/1.1", find.line)
    check_json(recorder, execute, "/execute",
               b'{"session_id": "sess-1", "command": "cd /workspace && ls", "timeout": 30}')


def test_load_tests(recorder, program):
    old = program("load_test_old.py", "--url", recorder.url, "--workers", "1", "--requests", "1")
    assert "Successful: 1, failed: 0" in old.stdout, old
    told = recorder.take()
    assert [r.call for r in told] == ["GET /health", "POST /create_session"] + \
        ["POST /execute"] * 3 + ["POST /cleanup"]
    check_json(recorder, told[1], "/create_session", b"{}")
    check_json(recorder, told[2], "/execute", b'{"session_id": "sess-1", "command": "whoami"}')

    recorder.script["/create_session"] = [(201, {"session_id": "sess-1"})]
    new = program("load_test_new.py", "--url", recorder.url, "--workers", "1",
                  "--num-requests", "1")
    assert "Successful: 1, failed: 0" in new.stdout, new
    assert re.fullmatch(rb'{"user_id": "load_user_0", "thread_id": "load_[0-9a-f]{32}", '
                        rb'"timeout_minutes": 30}', recorder.take()[1].body)
    recorder.script["/create_session"] = [(201, {"session_id": "sess-1"})]
    old = program("load_test_old.py", "--url", recorder.url, "--workers", "1", "--requests", "1")
    assert "Successful: 0, failed: 1" in old.stdout, "the older one wants a 200"


def test_no_client_knows_whom_it_talks_to():
    files = list(pathlib.Path(v1_client.__file__).parent.glob("*.py"))
    assert len(files) == 8
    assert not [file.name for file in files if "threadbox" in file.read_text().lower()]


def test_a_server_that_is_away(recorder):
    """Who can't be reached is an exception in all but the places that promise silence."""
    recorder.close()
    for client in (v1_client.SandboxClient(recorder.url), flask_client.SandboxClient(recorder.url)):
        with pytest.raises(requests.ConnectionError):
            client.create_session()
        client.session_id = "sess-1"
        with pytest.raises(requests.ConnectionError):
            client.execute("ls")
    client.cleanup()  # Flask's: printed only
    client = enhanced_client.SandboxClient("remote", recorder.url)
    with pytest.raises(requests.ConnectionError):
        client.get_or_create_session("u", "t")
    client.session_id = "sess-1"
    client.close_session()
    assert client.session_id is None
