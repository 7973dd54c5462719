# SPDX-License-Identifier: Apache-2.0
"""Webhooks don't reach the inside either, and tell their secrets to nobody."""
import os

import pytest

from receiver import KEY, NameServer, Receiver
from server import wait_until
from test_callbacks import INSIDE


def dead(server):
    return server.get("/api/webhooks/deliveries?state=dead").json["deliveries"]


@pytest.mark.parametrize("host", INSIDE)
def test_literal_addresses_of_the_inside_are_refused(server, host):
    for scheme in ("http", "https"):
        reply = server.post("/api/webhooks", {"url": f"{scheme}://{host}:9/"})
        assert reply.status == 400 and "nothing is sent to" in reply.json["error"], reply
    assert server.get("/api/webhooks").json["total"] == 0


def test_a_name_that_leads_inside_gets_neither_events_nor_tests(start_server):
    with Receiver() as receiver, NameServer("127.0.0.1") as names:
        server = start_server(WEBHOOK_DNS_SERVERS=names.name)
        url = f"http://evil.example:{receiver.port}/"
        mine = server.post("/api/webhooks", {"url": url, "events": ["session.created"]}).json
        tested = server.post(f"/api/webhooks/{mine['id']}/test").json
        assert not tested["delivered"] and "nothing is sent to" in tested["error"]
        assert "address is not allowed" in tested["error"], tested
        server.create()
        row = wait_until(lambda: dead(server), "it is dead")[0]
        assert "nothing is sent to evil.example" in row["last_error"] and row["attempts"] == 1
        assert not receiver.got


def test_a_change_does_not_lead_inside(start_server):
    with Receiver(host="127.0.0.2") as outside, Receiver() as inside:
        server = start_server(WEBHOOK_ALLOW_NETWORKS="127.0.0.2/32", WEBHOOK_RETRY_SECONDS="1")
        mine = server.post("/api/webhooks", {"url": f"http://127.0.0.2:{outside.port}/"}).json
        reply = server.request("PATCH", f"/api/webhooks/{mine['id']}", {"url": inside.base})
        assert reply.status == 400
        outside.answers = [(307, {"Location": f"{inside.base}/"})]
        tested = server.post(f"/api/webhooks/{mine['id']}/test").json
        assert not tested["delivered"] and "127.0.0.1" in tested["error"]
        assert outside.got and not inside.got


def test_secrets_are_in_no_log_and_in_no_file_of_others(start_server):
    with Receiver() as receiver:
        server = start_server(WEBHOOK_ALLOW_PRIVATE="true", WEBHOOK_RETRY_SECONDS="1")
        hidden = "/a-secret-path-of-the-receiver"
        body = {"url": receiver.base + hidden, "secret": KEY, "events": ["session.created"]}
        receiver.answers = [500]
        assert server.post("/api/webhooks", body).status == 201
        server.create()
        receiver.wait(2)
        wait_until(lambda: "webhook_delivered" in server.log(), "it is told")
        assert KEY.removeprefix("whsec_") not in server.log() and hidden not in server.log()
        place = os.path.join(server.state_dir, "store")
        assert os.stat(place).st_mode & 0o077 == 0
        for name in os.listdir(place):
            assert os.stat(os.path.join(place, name)).st_mode & 0o077 == 0, name


def test_there_is_an_end_to_how_many_there_may_be(start_server):
    server = start_server(WEBHOOK_ALLOW_PRIVATE="true")
    body = {"url": "http://127.0.0.1:9/", "events": ["session.closed"], "active": False}
    for _ in range(64):
        assert server.post("/api/webhooks", body).status == 201
    reply = server.post("/api/webhooks", body)
    assert reply.status == 409 and "64 webhooks" in reply.json["error"]
