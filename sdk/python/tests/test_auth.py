# SPDX-License-Identifier: Apache-2.0
"""Servers that ask for an API key."""

import pytest
import requests
from keys import make_key
from server import wait_until

from threadbox import AuthenticationError, SandboxClient, SandboxError


@pytest.fixture
def guarded(start_server):
    server = start_server()
    server.right = make_key(server, tenant="acme")
    server.reader = make_key(server, tenant="acme", role="readonly")
    wait_until(lambda: server.get("/api/sessions").status == 401, "keys are asked for")
    server.url = f"http://127.0.0.1:{server.port}"
    return server


def test_a_key_of_the_call_or_of_the_environment_opens_the_server(guarded, monkeypatch):
    for name in ("SANDBOX_API_KEY", "THREADBOX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with SandboxClient(server_url=guarded.url, api_key=guarded.right) as client:
        client.get_or_create_session("u", "t")
        assert client.execute("echo hello")["stdout"] == "hello\n"
        process = client.session("t").processes.start("exec cat", stdin_open=True)
        with process.attach() as attached:  # a WebSocket
            attached.send("x\n")
        process.kill()
    for name in ("SANDBOX_API_KEY", "THREADBOX_API_KEY"):
        with monkeypatch.context() as patch:
            patch.setenv(name, guarded.right)
            with SandboxClient(server_url=guarded.url) as client:
                client.get_or_create_session("u", "t")


@pytest.mark.parametrize("key", [None, "wrong"])
def test_without_a_good_key_the_error_says_what_to_do(guarded, monkeypatch, key):
    for name in ("SANDBOX_API_KEY", "THREADBOX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    client = SandboxClient(server_url=guarded.url, api_key=key)
    with pytest.raises(AuthenticationError, match="SANDBOX_API_KEY") as caught:
        client.get_or_create_session("u", "t")
    assert isinstance(caught.value, requests.HTTPError) and isinstance(caught.value, SandboxError)
    assert caught.value.response.status_code == 401


def test_a_reader_may_not_write_and_is_told_so(guarded):
    client = SandboxClient(server_url=guarded.url, api_key=guarded.reader)
    with pytest.raises(PermissionError, match="readonly"):
        client.get_or_create_session("u", "t")
