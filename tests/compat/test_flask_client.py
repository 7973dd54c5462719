# SPDX-License-Identifier: Apache-2.0
"""The two Flask generations: one client, and servers whose answers differ."""
import time

import pytest
import requests

import answers
import flask_client


@pytest.fixture
def client(url):
    with flask_client.SandboxClient(url + "/") as made:
        yield made


def test_its_self_test_runs(url, capsys):
    flask_client.self_test(url)
    told = capsys.readouterr().out
    for line in ("$ whoami\nsandboxuser\n(exit 0)", "$ pwd\n/workspace\n(exit 0)",
                 "$ cat test.txt && ls -lh test.txt\nHello from sandbox!\n-rw", "\nPython 3.",
                 "Status: active"):
        assert line in told, told
    assert "(exit 0)" in told and told.count("(exit") == told.count("(exit 0)")


def test_create_names_user_workspace_and_worker(url, client, server):
    """`worker` is what the coordinator's documents promise; the client reads it."""
    assert isinstance(client.worker, str) and client.worker
    for body in (None, {}):
        created = answers.ok(answers.post(url, "/create_session", body), "session_id", "worker")
        assert (created["status"], created["user"], created["workspace"]) == (
            "created", "sandboxuser", "/workspace")
        answers.cleanup(url, created["session_id"])


def test_files_stay_in_the_session_and_nowhere_else(url, client):
    client.execute("echo data > f")
    assert client.execute("cat f")["output"] == "data\n"
    with flask_client.SandboxClient(url) as other:
        assert other.execute("ls -A")["output"] == ""


def test_output_has_both_streams(client):
    result = client.execute("echo out; echo err >&2; false")
    assert sorted(result["output"].split()) == ["err", "out"]
    assert result["exit_code"] == 1


def test_a_timeout_ends_the_command_and_is_an_answer(client):
    began = time.monotonic()
    result = client.execute("echo before; sleep 60", timeout=1)
    assert time.monotonic() - began < 4
    assert result["exit_code"] == 124 and result["timed_out"] is True
    assert result["output"].startswith("before\n")
    assert result["output"].endswith("timed out after 1 s\n")
    assert client.execute("echo on")["output"] == "on\n"


def test_upload_by_name_and_under_another(client, tmp_path):
    content = bytes(range(256)) * 5
    (tmp_path / "data.bin").write_bytes(content)
    told = client.upload_file(str(tmp_path / "data.bin"))
    assert (told["status"], told["filename"], told["path"]) == ("uploaded", "data.bin",
                                                               "/workspace/data.bin")
    told = client.upload_file(str(tmp_path / "data.bin"), "other name ü.bin")
    assert told["path"] == "/workspace/other name ü.bin"
    assert client.execute("cat data.bin 'other name ü.bin' | wc -c")["output"].strip() == "2560"
    assert client.execute("stat -c %U data.bin")["output"] == "sandboxuser\n"


def test_status_of_both_generations(url, client):
    body = client.get_status()
    assert body["status"] == "active"
    assert body["worker"] == client.worker
    assert answers.moment(body["created_at"]) <= answers.moment(body["last_activity"])
    answers.cleanup(url, client.session_id)
    with pytest.raises(requests.HTTPError) as caught:
        client.get_status()
    assert caught.value.response.status_code == 404
    assert caught.value.response.json()["status"] == "not found"


def test_cleanup_forgets_and_may_be_repeated(url):
    client = flask_client.SandboxClient(url)
    session = client.create_session()
    client.cleanup()
    client.cleanup()
    assert (client.session_id, client.worker) == (None, None)
    client.session_id = session
    for call in (lambda: client.execute("ls"), lambda: client.upload_file(__file__)):
        with pytest.raises(requests.HTTPError) as caught:
            call()
        answers.refused(caught.value.response, 404, "Invalid or expired session")


def test_a_batch_goes_on_after_failures(url):
    commands = ["echo 1 > f", "false", "sudo ls", "grep", "sleep 60", "cat f"]
    results = flask_client.BatchSandboxClient(url).execute_batch(commands, timeout=1)
    assert [r["exit_code"] for r in results] == [0, 1, -1, 2, 124, 0]
    assert results[2]["output"].startswith("Error: 400 Client Error: ")
    assert r"forbidden pattern: \bsudo\b" in results[2]["output"]
    assert results[5]["output"] == "1\n"


def test_a_full_server_is_a_503_that_says_so(start_server):
    url = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1)
    with flask_client.SandboxClient(url):
        with pytest.raises(requests.HTTPError) as caught:
            flask_client.SandboxClient(url).create_session()
        answers.refused(caught.value.response, 503)
        assert "capacity" in str(caught.value)
        assert int(caught.value.response.headers["Retry-After"]) > 0


def test_health_of_the_first_flask_server(url, client):
    health = answers.ok(answers.get(url, "/health"), "status", "pool_size", "active_sessions",
                        "worker_id")
    assert health["status"] == "healthy"
    assert type(health["active_sessions"]) is int and health["active_sessions"] >= 1


def test_health_of_the_second_flask_server(url, client):
    health = answers.ok(answers.get(url, "/health"), "status", "worker_id", "active_sessions")
    assert set(health["pool"]) >= {"available", "allocated", "total", "max_capacity"}
    assert set(health["config"]) >= {"pool_size", "max_pool_size", "aggressive_cleanup"}
    assert health["worker_id"] == client.worker
