# SPDX-License-Identifier: Apache-2.0
"""What a server says of itself, and what it says to who asks for the wrong thing."""
import re

import requests

from answers import cleanup, create, get, ok, post


def test_health_is_the_union_of_all_generations(url):
    before = ok(get(url, "/health"))
    assert (before["status"], before["redis_connected"]) == ("healthy", False)
    assert isinstance(before["worker_id"], str) and before["worker_id"]
    for key in ("pool_size", "pool_available", "active_sessions", "uptime_seconds"):
        assert type(before[key]) is int, key
    for key in ("available", "allocated", "total", "max_capacity"):
        assert type(before["pool"][key]) is int, key
    assert type(before["config"]["pool_size"]) is int
    assert type(before["config"]["max_pool_size"]) is int
    assert type(before["config"]["aggressive_cleanup"]) is bool


def test_health_counts_sessions(start_server):
    url = start_server()
    assert ok(get(url, "/health"))["active_sessions"] == 0
    session = create(url)
    assert ok(get(url, "/health"))["active_sessions"] == 1
    assert ok(get(url, "/health"))["pool"]["allocated"] == 1
    cleanup(url, session)
    assert ok(get(url, "/health"))["active_sessions"] == 0


def test_the_worker_has_the_name_that_it_was_given(start_server):
    url = start_server(WORKER_ID="worker7")
    assert ok(get(url, "/health"))["worker_id"] == "worker7"
    assert "worker7" in ok(post(url, "/create_session"))["worker"]


def test_5000_is_the_port_unless_told_otherwise(server):
    assert re.search(r"^ *PORT +5000\b", server.command("serve", "--help").stdout, re.M)


def test_unknown_paths_and_methods(url):
    for answer, status in ((get(url, "/nothing/here"), 404), (get(url, "/execute"), 405),
                           (requests.delete(url + "/health"), 405)):
        assert answer.status_code == status
        assert answer.json()["error"] and answer.json()["detail"]


def test_no_client_needs_a_key(url):
    answer = get(url, "/health")
    assert answer.status_code == 200 and "WWW-Authenticate" not in answer.headers
