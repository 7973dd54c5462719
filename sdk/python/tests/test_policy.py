# SPDX-License-Identifier: Apache-2.0
"""Commands that are refused without a round trip, and never wrongly."""

import pytest
import requests

from threadbox import CommandRefusedError, SandboxClient
from threadbox._policy import PolicyChecks

LIST = "not in whitelist. Allowed: cat, ls"


def parser(policy, command):
    """As the native one: why a command is refused, or None."""
    word = command.split()[0]
    if word == "rm":
        return r"Command contains forbidden pattern: \brm\b"
    return None if word in ("cat", "ls") or policy != "strict" else f"Command '{word}' {LIST}"


def test_nothing_is_refused_before_the_server_did():
    checks = PolicyChecks(parser)
    checks.check("strict", "git log")
    checks.confirm("strict", CommandRefusedError(f"Command 'make' {LIST}"))
    with pytest.raises(CommandRefusedError, match="'git' not in whitelist"):
        checks.check("strict", "git log")
    checks.check("wide", "git log")  # that one was never refused there
    checks.check("strict", "rm x")  # nor for this reason


def test_a_server_with_another_list_is_left_alone():
    checks = PolicyChecks(parser)
    checks.confirm("strict", CommandRefusedError(f"Command 'make' {LIST}, git"))
    checks.check("strict", "git log")


def test_the_second_refusal_costs_no_round_trip(server, url, thread, monkeypatch):
    monkeypatch.setattr("threadbox._policy._find_check", lambda: parser)
    with SandboxClient(server_url=url, policy="strict") as client:
        client.get_or_create_session("u", thread)
        with pytest.raises(requests.HTTPError):
            client.execute("rm x")
        with pytest.raises(CommandRefusedError) as caught:
            client.execute("rm y")
    assert not isinstance(caught.value, requests.HTTPError)
    assert caught.value.command == "rm y"
