# SPDX-License-Identifier: Apache-2.0
"""Which engine a client uses."""

import inspect

import pytest

import threadbox
from threadbox import AsyncSandboxClient, SandboxClient
from threadbox._modes import choose_mode


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv("SANDBOX_MODE", raising=False)
    monkeypatch.delenv("SANDBOX_URL", raising=False)


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ((None, None), {}, ("local", None)),
        ((None, "http://a"), {}, ("remote", "http://a")),
        (("remote", "http://a/"), {}, ("remote", "http://a")),
        (("http://a", None), {}, ("remote", "http://a")),
        (("local", "http://a"), {}, ("local", None)),
        (("remote", None), {"SANDBOX_URL": "http://b"}, ("remote", "http://b")),
        ((None, None), {"SANDBOX_URL": "http://b"}, ("remote", "http://b")),
        ((None, None), {"SANDBOX_MODE": "local", "SANDBOX_URL": "http://b"}, ("local", None)),
        ((None, None), {"SANDBOX_MODE": "remote", "SANDBOX_URL": "http://b"},
         ("remote", "http://b")),
        ((None, "http://a"), {"SANDBOX_MODE": "local"}, ("remote", "http://a")),
        (("local", None), {"SANDBOX_MODE": "remote"}, ("local", None)),
    ],
)
def test_arguments_come_before_the_environment(monkeypatch, arguments, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    chosen = choose_mode(*arguments)
    assert (chosen.name, chosen.server_url) == expected


def test_remote_mode_needs_a_url():
    with pytest.raises(ValueError, match="server_url required for remote mode"):
        SandboxClient(mode="remote")


@pytest.mark.parametrize("mode", ["", "cloud"])
def test_other_modes_are_refused(mode):
    with pytest.raises(ValueError, match="mode must be"):
        SandboxClient(mode=mode)


@pytest.mark.parametrize("url", ["localhost:5000", "ftp://x", "http://"])
def test_a_url_must_be_one(url):
    with pytest.raises(ValueError, match="server_url"):
        SandboxClient(mode="remote", server_url=url)


def test_a_key_goes_into_a_header_and_nowhere_else():
    client = SandboxClient(server_url="http://127.0.0.1:9", api_key="s3cret")
    assert "Authorization: Bearer s3cret\r\n" in client._engine.http._headers
    assert "s3cret" not in repr(client)
    with pytest.raises(ValueError, match="Authorization"):
        SandboxClient(server_url="http://127.0.0.1:9", api_key="a\r\nX: b")


def test_both_clients_have_the_same_methods():
    pairs = [(getattr(threadbox, name), getattr(threadbox, "Async" + name))
             for name in ("SandboxClient", "Session", "BatchSandboxClient", "Processes",
                          "Process", "Attachment", "Files", "Shells", "Shell")]
    assert pairs[0] == (SandboxClient, AsyncSandboxClient)
    for blocking, suspending in pairs:
        ours = {n: m for n, m in inspect.getmembers(blocking) if not n.startswith("_")}
        theirs = {n: m for n, m in inspect.getmembers(suspending) if not n.startswith("_")}
        assert ours.keys() == theirs.keys()
        for name, method in ours.items():
            if inspect.isfunction(method):
                assert (list(inspect.signature(method).parameters.values())
                        == list(inspect.signature(theirs[name]).parameters.values())), name
