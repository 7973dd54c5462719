# SPDX-License-Identifier: Apache-2.0
"""The dual-mode client and the newest one: a thread owns a session, lost ones are renewed."""
import concurrent.futures
import os
import time

import pytest
import requests

import answers
import enhanced_client
import head_client


@pytest.fixture(params=[enhanced_client, head_client])
def make(request, url):
    def make(server_url=url):
        return request.param.SandboxClient(mode="remote", server_url=server_url)
    return make


@pytest.fixture
def client(make):
    with make() as made:
        made.get_or_create_session("user123", answers.unique())
        yield made


def test_its_self_test_runs(make, capsys):
    enhanced_client.self_test(make())
    told = capsys.readouterr().out
    for line in ("$ whoami\nsandboxuser\n(exit 0", "$ pwd\n/workspace\n(exit 0",
                 "$ cat test.txt && ls -lh test.txt\nHello from sandbox!\n-rw", "Python 3.",
                 "Files: 1, 20 bytes\n  -rw"):
        assert line in told, told
    assert told.count("(exit") == told.count("(exit 0")


def test_modes(make):
    with pytest.raises(ValueError, match="server_url required for remote mode"):
        enhanced_client.SandboxClient(mode="remote")
    with pytest.raises(ValueError, match="No active session"):
        make().execute("ls")


def test_first_created_then_active_and_the_same(make, calls):
    thread = answers.unique()
    one, two = make(), make()
    created = one.get_or_create_session("user123", thread, timeout_minutes=30)
    assert created["status"] == "created"
    found = two.get_or_create_session("user123", thread)
    assert (found["status"], found["session_id"]) == ("active", created["session_id"])
    assert calls == [("GET", "/get_session", 404), ("POST", "/create_session", 200),
                     ("GET", "/get_session", 200)]
    one.execute("echo data > f")
    assert two.execute("cat f")["stdout"] == "data\n"
    one.close_session()


def test_a_session_is_found_as_soon_as_it_is_there(make):
    for _ in range(20):
        thread, one, two = answers.unique(), make(), make()
        made = one.get_or_create_session("u", thread)
        assert two.get_or_create_session("u", thread)["session_id"] == made["session_id"]
        one.close_session()


def test_threads_of_one_user_share_nothing(make, client):
    client.execute("mkdir d && echo data > d/f && touch /tmp/t ~/h")
    with make() as other:
        other.get_or_create_session("user123", answers.unique())
        assert other.session_id != client.session_id
        assert other.execute("ls -A . /tmp ~")["stdout"].split() == [
            ".:", "/home/sandboxuser:", "/tmp:"]
        assert other.list_files()["files"] == []


def test_what_execute_answers(client):
    result = client.execute("echo out; echo err >&2; false")
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (1, "out\n", "err\n")
    assert type(result["execution_time_ms"]) is int
    assert result["session_id"] == client.session_id
    assert client.execute("whoami; pwd")["stdout"] == "sandboxuser\n/workspace\n"


def test_the_guides_workflow(client):
    client.execute("""echo '{"data": [1,2,3]}' > data.json""")
    assert client.execute("jq '.data | add' data.json")["stdout"] == "6\n"
    client.execute("""echo '[{"amount": 42}, {"amount": 100}]' > data.json""")
    result = client.execute(
        "jq -r '.[].amount' data.json | awk '{sum += $1} END {print sum}'", timeout=30)
    assert result["stdout"] == "142\n"
    assert client.execute("ls -lh /workspace")["exit_code"] == 0


def test_a_lost_race_is_a_409_raised(make, url, monkeypatch):
    """Somebody creates the session between this client's look and its own creation."""
    thread, original = answers.unique(), requests.get

    def get(*args, **options):
        response = original(*args, **options)
        answers.create(url, thread)
        return response

    monkeypatch.setattr(requests, "get", get)
    loser = make()
    with pytest.raises(requests.HTTPError) as caught:
        loser.get_or_create_session("u", thread)
    assert caught.value.response.status_code == 409
    body = caught.value.response.json()
    assert (body["status"], body["thread_id"]) == ("existing", thread)
    monkeypatch.undo()
    assert loser.get_or_create_session("u", thread)["session_id"] == body["session_id"]
    loser.close_session()


def test_many_at_once_get_one_session_or_a_409(make):
    thread = answers.unique()

    def attempt(_):
        try:
            return make().get_or_create_session("u", thread)["session_id"]
        except requests.HTTPError as error:
            assert error.response.status_code == 409
            return error.response.json()["session_id"]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(attempt, range(32)))) == 1


def test_a_session_cleaned_up_by_others_is_renewed_with_one_retry(client, url, calls):
    old = client.session_id
    client.execute("touch old")
    answers.cleanup(url, old)
    calls.clear()
    result = client.execute("ls; echo again")
    assert (result["stdout"], result["exit_code"]) == ("again\n", 0)
    assert client.session_id != old
    assert calls == [("POST", "/execute", 404), ("GET", "/get_session", 404),
                     ("POST", "/create_session", 200), ("POST", "/execute", 200)]


def test_a_session_renewed_by_others_is_found_again(client, make, url, calls):
    answers.cleanup(url, client.session_id)
    other = make()
    other.get_or_create_session("somebody", client.thread_id)
    calls.clear()
    assert client.execute("echo again")["stdout"] == "again\n"
    assert client.session_id == other.session_id
    assert calls == [("POST", "/execute", 404), ("GET", "/get_session", 200),
                     ("POST", "/execute", 200)]


def test_without_retries_a_404_is_raised(client, url):
    answers.cleanup(url, client.session_id)
    for call in (lambda: client.execute("ls", auto_retry=False), client.list_files,
                 lambda: client.upload_file(__file__), lambda: client.download_file("f")):
        with pytest.raises(requests.HTTPError) as caught:
            call()
        answers.refused(caught.value.response, 404, "Invalid or expired session")
        assert "Invalid or expired session" in str(caught.value)


def test_an_expired_session_is_renewed(make, url):
    with make() as client:
        session = client.get_or_create_session("u", answers.unique(), timeout_minutes=0.01)
        client.execute("touch old")
        answers.wait_expired(url, session["session_id"])
        assert client.execute("ls")["stdout"] == ""
        assert client.session_id != session["session_id"]


@pytest.mark.parametrize("command,why", [
    ("sudo ls", r"Command contains forbidden pattern: \bsudo\b"),
    ("gcc x.c", "Command 'gcc' not in whitelist. Allowed: "),
    ("echo 'open", "Invalid command syntax: "),
    ("  ", "Empty command")])
def test_why_a_command_was_refused_is_in_the_exception(client, calls, command, why):
    with pytest.raises(requests.HTTPError) as caught:
        client.execute(command)
    assert "400 Client Error: " in str(caught.value) and why in str(caught.value)
    assert calls == [("POST", "/execute", 400)], "no retry"


def test_a_timeout_ends_the_command_before_the_client_gives_up(client):
    began = time.monotonic()
    result = client.execute("echo before; sleep 60", timeout=2)
    assert 2 <= time.monotonic() - began < 5
    assert (result["exit_code"], result["timed_out"]) == (124, True)
    assert result["stdout"] == "before\n"
    assert result["stderr"].endswith("timed out after 2 s\n")


def test_files_go_up_and_down(client, tmp_path, monkeypatch):
    content = os.urandom(3 << 20)
    (tmp_path / "in.bin").write_bytes(content)
    told = client.upload_file(str(tmp_path / "in.bin"), remote_name="sub/dir/ü \u4e2d.bin")
    assert told == {**told, "status": "uploaded", "filename": "sub/dir/ü \u4e2d.bin",
                    "path": "/workspace/sub/dir/ü \u4e2d.bin", "size_bytes": len(content)}
    assert client.execute("cp 'sub/dir/ü \u4e2d.bin' 'out 中.bin'")["exit_code"] == 0
    target = str(tmp_path / "got")
    assert client.download_file("sub/dir/ü \u4e2d.bin", target) == target
    assert (tmp_path / "got").read_bytes() == content
    monkeypatch.chdir(tmp_path)
    assert client.download_file("out 中.bin") == str(tmp_path / "out 中.bin")
    assert (tmp_path / "out 中.bin").read_bytes() == content
    with pytest.raises(FileNotFoundError):
        client.upload_file(str(tmp_path / "missing"))


def test_a_missing_file_is_a_404_and_no_retry(client, calls, tmp_path):
    with pytest.raises(requests.HTTPError) as caught:
        client.download_file("missing", str(tmp_path / "x"))
    answers.refused(caught.value.response, 404, "File not found in workspace", filename="missing",
                    workspace_dir="/workspace")
    assert calls == [("POST", "/download_file", 404)]


def test_list_files(client):
    client.execute("printf 12345 > 'a b.txt' && mkdir sub && echo x > sub/inner")
    told = client.list_files()
    assert (told["session_id"], told["workspace_dir"]) == (client.session_id, "/workspace")
    assert sorted(f["name"] for f in told["files"]) == ["a b.txt", "sub"]
    assert told["total_files"] == 2 and told["total_size_bytes"] >= 5


def test_head_uploads_from_memory(url):
    with head_client.SandboxClient("remote", url) as client:
        client.get_or_create_session("u", answers.unique())
        assert client.upload_file_from_bytes("d/e.txt", b"a\r\n\0b")["size_bytes"] == 5
        assert client.upload_file_from_bytes("empty", b"")["size_bytes"] == 0
        assert client.execute("stat -c '%n %s' d/e.txt empty")["stdout"] == "d/e.txt 5\nempty 0\n"


def test_the_context_manager_closes_but_does_not_create(make, url):
    with make() as client:
        assert client.session_id is None
        session = client.get_or_create_session("u", answers.unique())["session_id"]
    assert client.session_id is None
    assert answers.get(url, f"/status/{session}").status_code == 404


@pytest.mark.parametrize("module", [enhanced_client, head_client])
def test_a_batch_goes_on_after_failures_and_closes(module, url):
    thread = answers.unique("batch")
    commands = ["echo 1 > f", "false", "sudo ls", "sleep 60", "cat f"]
    batch = module.BatchSandboxClient("remote", url)
    results = batch.execute_batch(commands, timeout=1, thread_id=thread)
    assert [r["exit_code"] for r in results] == [0, 1, -1, 124, 0]
    assert results[2]["stderr"].startswith("Error: 400 Client Error: ")
    assert results[4]["stdout"] == "1\n"
    assert answers.get(url, "/get_session", thread_id=thread).status_code == 404


def test_a_full_server_is_a_503_that_says_so(make, start_server):
    url = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1)
    with make(url) as first, make(url) as second:
        first.get_or_create_session("u", "one")
        with pytest.raises(requests.HTTPError) as caught:
            second.get_or_create_session("u", "two")
        assert caught.value.response.status_code == 503 and "capacity" in str(caught.value)
        first.close_session()
        second.get_or_create_session("u", "two")
        assert second.execute("echo on")["stdout"] == "on\n"
