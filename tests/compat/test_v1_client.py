# SPDX-License-Identifier: Apache-2.0
"""The first generation: one session for each client, no threads, `output` in one piece."""
import uuid

import pytest
import requests

import answers
import v1_client


@pytest.fixture
def client(url):
    with v1_client.SandboxClient(url) as made:
        yield made


def test_its_own_example_runs(url, monkeypatch, capsys):
    monkeypatch.setattr(v1_client.SandboxClient.__init__, "__defaults__", (url,))
    v1_client.main()
    told = capsys.readouterr().out
    assert "Hello from sandbox!\n(exit 0)" in told


def test_create_answers_an_id_and_created(url):
    client = v1_client.SandboxClient(url)
    assert str(uuid.UUID(client.create_session())) == client.session_id
    client.cleanup()
    body = answers.ok(requests.post(url + "/create_session"), "session_id")
    assert body["status"] == "created"
    answers.cleanup(url, body["session_id"])


def test_who_and_where(client):
    result = client.execute("whoami")
    assert (result["exit_code"], result["output"]) == (0, "sandboxuser\n")
    assert client.execute("pwd")["output"] == "/workspace\n"


def test_files_stay_in_the_session_and_nowhere_else(url, client):
    assert client.execute("mkdir -p a/b && echo data > a/b/c")["exit_code"] == 0
    assert client.execute("cat a/b/c")["output"] == "data\n"
    with v1_client.SandboxClient(url) as other:
        assert other.session_id != client.session_id
        assert other.execute("ls -A")["output"] == ""


def test_output_is_both_streams_in_the_order_of_writing(client):
    result = client.execute("echo 1; sleep 0.2; echo 2 >&2; sleep 0.2; echo 3")
    assert result["output"] == "1\n2\n3\n"


def test_output_that_is_not_utf8_is_replaced(client):
    assert client.execute(r"printf 'a\377b\303\274'")["output"] == "a\ufffdbü"


def test_quotes_of_all_kinds_arrive(client):
    assert client.execute("""echo 'a "b"' "it's" \\'""")["output"] == """a "b" it's '\n"""
    assert client.execute("echo 'zwölf \U0001f600'")["output"] == "zwölf \U0001f600\n"


@pytest.mark.parametrize("command,code", [("true", 0), ("false", 1), ("grep x missing", 2),
                                          ("python3 -c 'import sys; sys.exit(77)'", 77)])
def test_a_failed_command_is_an_answer(client, command, code):
    result = client.execute(command)
    assert result["exit_code"] == code and type(result["exit_code"]) is int
    assert type(result["output"]) is str


def test_after_cleanup_the_session_is_gone(url):
    client = v1_client.SandboxClient(url)
    session = client.create_session()
    client.cleanup()
    assert client.session_id is None
    client.session_id = session
    with pytest.raises(requests.HTTPError) as caught:
        client.execute("ls")
    assert caught.value.response.status_code == 404
    assert "Invalid or expired session" in str(caught.value)
    client.cleanup()  # of what is gone: fine


def test_why_a_command_was_refused_is_in_the_exception(client):
    with pytest.raises(requests.HTTPError) as caught:
        client.execute("rm -rf x")
    assert "400 Client Error: " in str(caught.value)
    assert r"Command contains forbidden pattern: \brm\b" in str(caught.value)
    assert client.execute("echo on")["output"] == "on\n"


def test_a_full_server_is_a_503_that_says_so(start_server):
    url = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1)
    with v1_client.SandboxClient(url):
        with pytest.raises(requests.HTTPError) as caught:
            v1_client.SandboxClient(url).create_session()
    assert caught.value.response.status_code == 503
    assert "capacity" in str(caught.value)
    with v1_client.SandboxClient(url) as next_one:
        assert next_one.execute("echo on")["output"] == "on\n"


def test_the_context_manager_cleans_up_after_an_exception(url):
    with pytest.raises(ZeroDivisionError):
        with v1_client.SandboxClient(url) as client:
            session = client.session_id
            client.execute(str(1 / 0))
    assert answers.get(url, f"/status/{session}").status_code == 404


def test_status(url, client):
    assert answers.ok(answers.get(url, f"/status/{client.session_id}"))["status"] == "active"
    gone = answers.get(url, f"/status/{uuid.uuid4()}")
    assert gone.status_code == 404 and gone.json()["status"] == "not found"
