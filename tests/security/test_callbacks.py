# SPDX-License-Identifier: Apache-2.0
"""Callbacks don't reach the inside: not by address, by name, by rebinding or by a redirect."""
import pytest

from live import start, try_start
from receiver import NameServer, Receiver
from server import wait_until


def dead(server, session):
    def found():
        rows = server.get("/api/webhooks/deliveries?state=dead").json["deliveries"]
        return next((row for row in rows if row["session_id"] == session), None)
    return wait_until(found, "it is dead", 20)


INSIDE = ["127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1",
          "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "[::1]", "[::]",
          "[fe80::1]", "[fd00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]",
          "[64:ff9b::7f00:1]", "[64:ff9b::a00:1]", "[2002:7f00:1::]", "[2002:a00:1::1]",
          "localhost", "LOCALHOST", "x.localhost"]


@pytest.mark.parametrize("host", INSIDE)
def test_literal_addresses_of_the_inside_are_refused(server, session, host):
    for scheme in ("http", "https"):
        reply = try_start(server, session, "true", notify_url=f"{scheme}://{host}:9/")
        assert reply.status == 400 and "nothing is sent to" in reply.json["error"], reply
        body = {"session_id": session, "command": "true", "notify_url": f"{scheme}://{host}/"}
        assert server.post("/execute", body).status == 400
    assert server.processes(session) == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "0.0.0.0"])
def test_a_name_that_leads_inside_is_refused(start_server, address):
    with Receiver() as receiver, NameServer(address) as names:
        server = start_server(WEBHOOK_DNS_SERVERS=names.name)
        session = server.create()
        url = f"http://evil.example:{receiver.port}/"
        start(server, session, "true", notify_url=url)
        row = dead(server, session)
        assert "nothing is sent to evil.example: its address is not allowed" in row["last_error"]
        assert address not in row["last_error"], "what names mean inside is nobody's business"
        assert row["attempts"] == 1 and not receiver.got


def test_what_was_checked_is_what_is_connected_to(start_server):
    """The name is asked for once: a second answer, to the inside, is never asked for."""
    with Receiver(host="127.0.0.2") as good, NameServer("127.0.0.2", "127.0.0.3") as names:
        server = start_server(WEBHOOK_DNS_SERVERS=names.name, WEBHOOK_ALLOW_NETWORKS="127.0.0.2/32")
        with Receiver(host="127.0.0.3", port=good.port) as inside:
            session = server.create()
            start(server, session, "true", notify_url=f"http://rebind.example:{good.port}/")
            good.wait()
            assert [kind for _, kind in names.asked].count(1) == 1
            start(server, session, "true", notify_url=f"http://rebind.example:{good.port}/")
            assert "its address is not allowed" in dead(server, session)["last_error"]
            assert len(good.got) == 1 and not inside.got


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_the_inside_is_not_followed(start_server, status):
    with Receiver(host="127.0.0.2") as outside, Receiver() as inside:
        server = start_server(WEBHOOK_ALLOW_NETWORKS="127.0.0.2/32", WEBHOOK_RETRY_SECONDS="1")
        outside.answers = [(status, {"Location": f"{inside.base}/"})] * 2
        session = server.create()
        start(server, session, "true", notify_url=f"http://127.0.0.2:{outside.port}/")
        row = dead(server, session)
        if status in (307, 308):
            assert "127.0.0.1" in row["last_error"]
        assert outside.got and not inside.got


def test_networks_that_are_allowed_are_and_their_neighbours_are_not(start_server):
    with Receiver(host="127.0.0.2") as receiver:
        server = start_server(WEBHOOK_ALLOW_NETWORKS="127.0.0.2/32, 10.0.0.0/8")
        session = server.create()
        start(server, session, "true", notify_url=f"http://127.0.0.2:{receiver.port}/")
        receiver.wait()
        assert try_start(server, session, "true", notify_url="http://127.0.0.1/").status == 400
        assert try_start(server, session, "true", notify_url="http://192.168.0.1/").status == 400
