# SPDX-License-Identifier: Apache-2.0
"""The earlier client called sandbox_client_v2: a URL, create_session, cleanup; ``with`` creates."""

import pytest

from sandbox_client_v2 import BatchSandboxClient, SandboxClient


@pytest.mark.parametrize("how", ["by position", "by name"])
def test_with_makes_a_session_and_ends_it(url, made_server, how):
    with SandboxClient(url) if how == "by position" else SandboxClient(server_url=url) as client:
        result = client.execute("echo out; echo err >&2", timeout=10)
        assert (result["exit_code"], sorted(result["output"].split())) == (0, ["err", "out"])
        session = client.session_id
        assert made_server.exists(session)
        assert client.worker == "standalone"
        assert client.get_status()["status"] == "active"
    assert not made_server.exists(session) and client.session_id is None


def test_its_id_is_there_at_once(url):
    with SandboxClient(url) as client:
        assert client.session_id and client.session_id == client.session_id
        client.cleanup()
        assert client.session_id is None
        with pytest.raises(ValueError, match="No active session"):
            client.execute("ls")


def test_without_with(url, tmp_path):
    client = SandboxClient(url)
    assert client.session_id is None and client.worker is None
    assert client.create_session() == client.session_id
    (tmp_path / "data.csv").write_text("1,2\n")
    assert client.upload_file(str(tmp_path / "data.csv"))["path"] == "/workspace/data.csv"
    assert client.execute("cat data.csv")["output"] == "1,2\n"
    client.cleanup()
    assert client.session_id is None


def test_who_names_a_thread_gets_no_second_session(url, made_server, thread):
    before = made_server.health()["active_sessions"]
    with SandboxClient(server_url=url) as client:
        client.get_or_create_session("user123", thread)
        assert made_server.health()["active_sessions"] == before + 1
        assert client.user_id == "user123" and client.thread_id == thread
    assert made_server.health()["active_sessions"] == before


def test_the_later_client_makes_none_by_with(url):
    with SandboxClient(mode="remote", server_url=url) as client:
        assert client.session_id is None
        with pytest.raises(ValueError, match="No active session"):
            client.execute("ls")


def test_a_batch_goes_on_after_failures(url):
    results = BatchSandboxClient(url).execute_batch(
        ["echo 1 > f", "curl x", "false", "cat f"], timeout=10)
    assert [result["exit_code"] for result in results] == [0, -1, 1, 0]
    assert results[1]["output"].startswith("Error: ") and results[3]["output"] == "1\n"
