# SPDX-License-Identifier: Apache-2.0
"""The first generation's client. It knows servers only."""

from datetime import datetime, timedelta

import pytest
import requests

import sandbox_client
from sandbox_client import SandboxClient


@pytest.fixture
def client(url):
    made = SandboxClient(url)
    yield made
    made.cleanup()


def test_the_calls_of_its_guide(client, made_server):
    """System Flow: create, execute, clean up."""
    created = client.create_session()
    assert isinstance(created, str) and client.session_id == created
    result = client.execute("echo out; echo err >&2; ls none")
    assert result["exit_code"] == 2
    assert result["output"].startswith("out\nerr\n") and "none" in result["output"]
    assert client.execute("echo \"it's\"")["output"] == "it's\n"
    client.cleanup()
    assert client.session_id is None and not made_server.exists(created)
    client.cleanup()  # nothing to do


def test_with_makes_a_session_and_ends_it(url, made_server):
    with SandboxClient(url + "/") as client:
        session = client.session_id
        client.execute("echo data > f")
        assert client.execute("cat f")["output"] == "data\n"
    assert not made_server.exists(session)
    with client:
        assert client.session_id != session and client.execute("ls")["output"] == ""


def test_sessions_are_fresh_and_live_for_an_hour(client, made_server):
    first = client.create_session()
    client.execute("echo data > f")
    second = client.create_session()
    assert first != second and client.execute("ls")["output"] == ""
    status = made_server.get(f"/status/{second}").json
    idle = [datetime.fromisoformat(status[key][:-1]) for key in ("last_activity", "expires_at")]
    assert idle[1] - idle[0] == timedelta(minutes=60)
    client.session_id = first  # a session of before
    assert client.execute("cat f")["output"] == "data\n"
    made_server.cleanup(second)


def test_without_a_session(client):
    with pytest.raises(ValueError, match=r"No active session. Call create_session\(\) first."):
        client.execute("ls")


def test_a_session_that_is_gone_is_a_404(client, made_server):
    made_server.cleanup(client.create_session())
    with pytest.raises(requests.HTTPError) as caught:
        client.execute("ls")
    assert caught.value.response.status_code == 404


def test_the_servers_policy_holds_and_another_can_be_chosen(client, url):
    client.create_session()
    with pytest.raises(requests.HTTPError, match="rm"):
        client.execute("rm -f x")
    with SandboxClient(url, policy="open") as free:
        assert free.execute("rm -f x && echo done")["output"] == "done\n"


def test_functions_without_an_object(url, monkeypatch, made_server):
    """Migration Guide: what came before the second generation."""
    monkeypatch.setenv("SANDBOX_URL", url)
    sandbox_client._client.cache_clear()
    session_id = sandbox_client.create_session()
    sandbox_client.execute(session_id, "echo data > f")
    assert sandbox_client.execute(session_id, "ls")["output"] == "f\n"
    sandbox_client.cleanup(session_id)
    assert not made_server.exists(session_id)
    sandbox_client._client.cache_clear()


def test_its_example(url, program, monkeypatch):
    monkeypatch.setenv("SANDBOX_URL", url)
    done = program(sandbox_client.__file__)
    assert done.returncode == 0 and "Hello from sandbox!\n(exit code 0)" in done.stdout, done
    monkeypatch.setenv("SANDBOX_URL", "http://127.0.0.1:9")
    done = program(sandbox_client.__file__)
    assert done.returncode == 1 and "127.0.0.1:9" in done.stderr, done
