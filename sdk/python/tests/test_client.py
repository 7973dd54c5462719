# SPDX-License-Identifier: Apache-2.0
"""What the guides of the seed systems promise of a client, in remote mode."""

import os
import re

import pytest
import requests

from threadbox import BatchSandboxClient, CommandRefusedError, SandboxClient, SessionExpiredError


def test_files_persist_between_people_a_thread(client):
    client.execute("echo '{\"data\": [1,2,3]}' > data.json")
    result = client.execute("jq '.data | add' data.json")
    assert result["stdout"] == "6\n"
    assert result["exit_code"] == 0 and result["stderr"] == ""
    assert isinstance(result["execution_time_ms"], int)
    files = client.list_files()
    assert files["total_files"] == 1
    assert files["files"][0]["name"] == "data.json"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", files["files"][0]["modified"])


def test_a_failed_command_is_a_result(client):
    result = client.execute("echo out; echo err >&2; exit 3")
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (3, "out\n", "err\n")
    assert sorted(result["output"].split()) == ["err", "out"]


def test_a_command_may_have_a_directory_variables_and_input(client):
    result = client.execute("pwd; echo $NAME; cat", cwd="/tmp", env={"NAME": "Ada"}, stdin="typed")
    assert result["stdout"] == "/tmp\nAda\ntyped"


def test_a_command_that_takes_too_long_is_killed(client):
    result = client.execute("sleep 60", timeout=0.3)
    assert result["exit_code"] == 124 and result["timed_out"]


def test_the_same_thread_finds_its_session_again(url, thread):
    first = SandboxClient(server_url=url)
    made = first.get_or_create_session(user_id="u", thread_id=thread, timeout_minutes=5)
    assert made["status"] == "created"
    first.execute("echo kept > file")
    first.close()
    with SandboxClient(mode="remote", server_url=url + "/") as second:
        found = second.get_or_create_session("u", thread)
        assert found["status"] == "active" and found["session_id"] == made["session_id"]
        assert second.execute("cat file")["stdout"] == "kept\n"
        assert second.session_id == made["session_id"] and second.thread_id == thread


def test_without_a_session_nothing_runs(url):
    client = SandboxClient(server_url=url)
    with pytest.raises(ValueError, match=r"No active session. Call get_or_create_session\(\)"):
        client.execute("true")
    with pytest.raises(ValueError, match="No active session"):
        client.list_files()
    client.close_session()  # is fine
    client.close()


def test_an_expired_session_is_made_anew(server, client):
    old = client.session_id
    server.cleanup(old)
    before = retries(server)
    assert client.execute("echo again")["stdout"] == "again\n"
    assert client.session_id not in (None, old)
    assert retries(server) == (before[0] + 1, before[1])


def test_a_retry_that_fails_too_is_counted(server, client):
    before = retries(server)
    server.cleanup(client.session_id)
    reply = server.post("/execute", {"session_id": client.session_id, "command": "true"},
                        headers={"X-Threadbox-Retry": "1"})
    assert reply.status == 404
    assert retries(server) == (before[0], before[1] + 1)


def retries(server):
    text = server.get("/metrics").body.decode()
    return tuple(
        int(float(re.search(rf'threadbox_auto_retries_total{{result="{name}"}} (\S+)', text)[1]))
        for name in ("success", "failure")
    )


def test_without_retry_an_expired_session_is_an_error(server, client):
    server.cleanup(client.session_id)
    with pytest.raises(SessionExpiredError) as caught:
        client.execute("true", auto_retry=False)
    assert isinstance(caught.value, requests.HTTPError)
    assert caught.value.response.status_code == 404
    with pytest.raises(SessionExpiredError):
        client.list_files()


def test_a_refused_command_is_an_http_error_and_a_value_error(url, thread):
    with SandboxClient(server_url=url, policy="strict") as client:
        client.get_or_create_session("u", thread)
        with pytest.raises(CommandRefusedError, match="forbidden pattern") as caught:
            client.execute("curl example.org")
    assert isinstance(caught.value, ValueError)
    if isinstance(caught.value, requests.HTTPError):  # not if the SDK itself knew
        assert caught.value.response.status_code == 400
        assert caught.value.response.json()["error"] == str(caught.value)
    assert caught.value.command == "curl example.org"


def test_what_is_surely_wrong_is_not_sent(thread):
    client = SandboxClient(server_url="http://127.0.0.1:9")  # nobody is there
    with pytest.raises(ValueError, match="timeout_minutes"):
        client.get_or_create_session("u", thread, timeout_minutes=0)
    with pytest.raises(ValueError, match="control"):
        client.get_or_create_session("u", "a\nb")
    with pytest.raises(ValueError, match="512"):
        client.get_or_create_session("u", "x" * 513)


@pytest.mark.parametrize("command", ["", "  \n", "echo \0"])
def test_empty_commands_are_refused_here(client, command):
    with pytest.raises(ValueError):
        client.execute(command)


def test_files_go_up_and_down(client, tmp_path, monkeypatch):
    data = os.urandom(300_000)
    local = tmp_path / "blöb \"1\".bin"
    local.write_bytes(data)
    done = client.upload_file(str(local))
    assert done == {"status": "uploaded", "filename": local.name,
                    "path": f"/workspace/{local.name}", "size_bytes": len(data)}
    assert client.upload_file(local, remote_name="sub/dir/x.bin")["path"] == (
        "/workspace/sub/dir/x.bin")
    target = tmp_path / "copy"
    assert client.download_file("sub/dir/x.bin", local_path=str(target)) == str(target)
    assert target.read_bytes() == data
    monkeypatch.chdir(tmp_path)
    assert client.download_file("sub/dir/x.bin") == str(tmp_path / "sub/dir/x.bin")
    assert client.download_file_to_bytes(local.name) == data
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["blöb \"1\".bin", "copy", "sub"]


def test_bytes_become_a_file(client):
    client.upload_file_from_bytes("a.txt", b"hello")
    assert client.execute("cat a.txt")["stdout"] == "hello"
    client.upload_file_from_bytes("empty", b"")
    assert client.download_file_to_bytes("empty") == b""
    assert client.list_files("")["total_files"] == 2


def test_missing_files_are_not_found(client, tmp_path):
    with pytest.raises(FileNotFoundError):
        client.upload_file(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as caught:
        client.download_file("none", tmp_path / "x")
    assert isinstance(caught.value, requests.HTTPError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", "a/../../b", "a\0b", "dir/"])
def test_names_outside_the_workspace_are_refused_here(client, name):
    with pytest.raises(ValueError, match="Invalid filename"):
        client.upload_file_from_bytes(name, b"x")
    with pytest.raises(ValueError, match="Invalid filename"):
        client.download_file_to_bytes(name)


def test_a_limit_of_the_server_is_a_value_error(start_server, thread):
    server = start_server(MAX_FILE_SIZE_MB=1)
    with SandboxClient(server_url=f"http://127.0.0.1:{server.port}") as client:
        client.get_or_create_session("u", thread)
        with pytest.raises(ValueError) as caught:
            client.upload_file_from_bytes("big", bytes(2 << 20))
        assert caught.value.response.status_code == 413


def test_a_full_pool_says_so(start_server):
    server = start_server(POOL_SIZE=1, MIN_POOL_SIZE=0, MAX_POOL_SIZE=1)
    with SandboxClient(server_url=f"http://127.0.0.1:{server.port}") as client:
        client.get_or_create_session("u", "one")
        with pytest.raises(requests.HTTPError) as caught:
            client.session("two")
        assert caught.value.response.status_code == 503


def test_leaving_the_context_closes_the_session(server, url, thread):
    with SandboxClient(server_url=url) as client:
        assert client.session_id is None
        session = client.get_or_create_session("u", thread)["session_id"]
        assert server.exists(session)
    assert not server.exists(session)
    assert client.session_id is None and client.thread_id is None


def test_a_thread_can_be_closed_by_its_name(server, url, thread):
    client = SandboxClient(server_url=url)
    one = client.get_or_create_session("u", thread + "1")["session_id"]
    two = client.get_or_create_session("u", thread + "2")["session_id"]
    client.thread_id = thread + "1"
    with pytest.raises(ValueError, match="No active session"):
        client.execute("true")
    client.close_session()
    assert not server.exists(one) and server.exists(two)
    client.thread_id = thread + "2"
    client.cleanup()
    assert not server.exists(two)
    client.close()


def test_the_first_clients_still_work(url):
    client = SandboxClient(url)
    session = client.create_session()
    assert isinstance(session, str) and client.session_id == session
    assert client.execute("echo hi")["output"] == "hi\n"
    assert client.get_status()["status"] == "active"
    client.cleanup()
    client.close()


def test_a_batch_runs_all_of_it(server, url):
    before = server.health()["active_sessions"]
    batch = BatchSandboxClient(mode="remote", server_url=url)
    results = batch.execute_batch(["echo one > f", "false", "curl x", "cat f"], timeout=10)
    assert [one["exit_code"] for one in results] == [0, 1, -1, 0]
    assert results[3]["stdout"] == "one\n"
    assert results[2]["stderr"].startswith("Error: ") and results[2]["execution_time_ms"] == 0
    batch.close()
    assert server.health()["active_sessions"] == before


def test_a_session_object_leaves_the_current_one_alone(server, url, thread, client):
    mine = client.session_id
    with client.session(thread + "-other", policy="open") as other:
        assert other.session_id != mine == client.session_id
        other.execute("echo other > name")
        client.execute("echo mine > name")
        assert other.execute("cat name")["stdout"] == "other\n"
        assert other.status()["status"] == "active"
        assert other.info["status"] == "created" and other.thread_id == thread + "-other"
    assert not server.exists(other.session_id) and server.exists(mine)


def test_a_session_is_found_without_making_one(client, thread):
    assert client.find_session(thread + "-none") is None
    assert client.find_session("") is None
    found = client.find_session(thread)
    assert found.session_id == client.session_id and found.info["status"] == "active"
    client.execute("echo mine > f")
    assert found.execute("cat f")["stdout"] == "mine\n"


def test_a_session_by_its_id_is_that_one_or_none(client, url, thread):
    other = SandboxClient(server_url=url)
    session = other.session_by_id(client.session_id)
    client.execute("echo mine > f")
    assert session.execute("cat f")["stdout"] == "mine\n"
    assert session.download_file_to_bytes("f") == b"mine\n"
    client.close_session()
    for use in (lambda: session.execute("true"), lambda: list(session.stream("true"))):
        with pytest.raises(SessionExpiredError):
            use()  # another session, which auto_retry would make, has not its files
    assert other.find_session(thread) is None
    with pytest.raises(ValueError, match="session_id"):
        other.session_by_id("")
    other.close()
