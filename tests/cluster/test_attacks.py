# SPDX-License-Identifier: Apache-2.0
"""What somebody tries who reaches a coordinator: to be taken for another, to lead requests astray,
and to get at what is between workers."""
import re
import socket
import uuid

import pytest

from cluster import Guarded
from redis_server import need_redis
from server import wait_until


@pytest.fixture(scope="module")
def guarded(binary):
    need_redis()
    one = Guarded(CLUSTER_LEASE_MS=6000)
    try:
        yield one.start(workers=2, coordinators=2)
    finally:
        one.close()


@pytest.fixture(scope="module")
def two_boxes(guarded):
    """Sessions of two tenants: (front, thread, mine, theirs)."""
    front, thread = guarded.coordinators[0], f"t-{uuid.uuid4()}"
    made = {tenant: guarded.ask(front, tenant).create(thread) for tenant in ("mine", "theirs")}
    for tenant, session in made.items():
        guarded.ask(front, tenant).stdout(session, f"echo {tenant} > f")
    return front, thread, made["mine"], made["theirs"]


def raw(server, text):
    """Sent as it is, with LF for CRLF; the status and all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as wire:
        wire.sendall(text.replace("\n", "\r\n").encode())
        wire.shutdown(socket.SHUT_WR)
        data = b""
        while more := wire.recv(65536):
            data += more
    found = re.match(rb"HTTP/1.1 (\d+)", data)
    return int(found[1]) if found else 0, data.decode(errors="replace")


def test_two_credentials_are_none(guarded, two_boxes):
    """Also where the coordinator asks on behalf of the client: for lists, and for whose a thread
    is."""
    front, thread, mine, theirs = two_boxes
    keys = [f"Authorization: Bearer {guarded.keys[one]}" for one in ("mine", "theirs")]
    shown = [f"X-API-Key: {guarded.keys[one]}" for one in ("mine", "theirs")]
    offered = f"Sec-WebSocket-Protocol: threadbox.token.{guarded.keys['theirs']}"
    for pair in (keys, keys[::-1], shown, [keys[0], shown[1]], [keys[0], shown[0]],
                 [keys[0], offered]):
        for path in ("/api/sessions", f"/get_session?thread_id={thread}", f"/status/{mine}",
                     f"/api/sessions/{theirs}"):
            status, text = raw(front, f"GET {path} HTTP/1.1\nHost: localhost\n{pair[0]}\n"
                                      f"{pair[1]}\nConnection: close\n\n")
            assert status == 401, (path, pair, text)
            assert mine not in text.split("\r\n\r\n")[1]


def test_headers_that_a_client_has_named_stay_its_own(guarded, two_boxes):
    """What `Connection` names is dropped by some proxies: then a request would come in as another,
    or as nobody's."""
    front, _, mine, _ = two_boxes
    for named in ("authorization", "close, authorization", "host, authorization, x-api-key"):
        status, text = raw(front, f"GET /api/sessions/{mine} HTTP/1.1\nHost: localhost\n"
                                  f"Authorization: Bearer {guarded.keys['theirs']}\n"
                                  f"Connection: {named}\n\n")
        assert status == 404, text


@pytest.mark.parametrize("header", ["X-Forwarded-User", "X-Tenant", "X-Threadbox-Tenant",
                                    "X-Forwarded-Host", "X-Worker", "X-Original-URL", "Forwarded",
                                    "X-Cluster-Secret"])
def test_no_header_makes_another_of_one(guarded, two_boxes, header):
    front, thread, mine, theirs = two_boxes
    for value in ("mine", "", mine, "w1", "/cluster/redis", "a secret of this cluster"):
        asked = guarded.ask(front, "theirs")
        reply = asked.get(f"/get_session?thread_id={thread}", headers={header: value})
        assert reply.json["session_id"] == theirs
        assert asked.get(f"/api/sessions/{mine}", headers={header: value}).status == 404
        rows = asked.get("/api/sessions", headers={header: value}).json["sessions"]
        assert [row["session_id"] for row in rows] == [theirs]


def test_what_workers_ask_each_other_is_closed(guarded):
    """However it is written, and with the right secret."""
    secret = {"X-Cluster-Secret": guarded.coordinators[0].settings["CLUSTER_SECRET"]}
    for path in ("/cluster/redis", "/cluster/caller", "/cluster/leaving/x", "/cluster/arrivals",
                 "//cluster/redis", "/./cluster/redis", "/x/../cluster/redis", "/%63luster/redis",
                 "/cluster%2fredis", "/cluster/redis/", "/cluster//redis", "/CLUSTER/redis",
                 "http://localhost/cluster/redis", "http:///cluster/redis"):
        for method in ("GET", "POST", "HEAD"):
            status, text = raw(guarded.coordinators[0],
                               f"{method} {path} HTTP/1.1\nHost: localhost\nContent-Length: 0\n"
                               f"X-Cluster-Secret: {secret['X-Cluster-Secret']}\n"
                               f"Authorization: Bearer {guarded.keys['']}\n"
                               "Connection: close\n\n")
            assert status in (400, 404, 405), (method, path, text)
            assert "reached" not in text and "tenant" not in text


def test_a_body_that_ends_twice_is_no_second_request(guarded, two_boxes):
    """The one of a worker must see the same requests as the coordinator."""
    front, _, mine, _ = two_boxes
    inner = (f"GET /api/sessions/{mine} HTTP/1.1\nHost: localhost\n"
             f"Authorization: Bearer {guarded.keys['mine']}\n\n")
    for framing in ("Content-Length: 4\nTransfer-Encoding: chunked",
                    "Transfer-Encoding: chunked\nContent-Length: 4",
                    "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, identity",
                    "Content-Length: 4\nContent-Length: 5", "Content-Length: +4",
                    "Transfer-Encoding : chunked", "Content-Length: 0x4"):
        status, text = raw(front, f"POST /execute HTTP/1.1\nHost: localhost\n"
                                  f"Authorization: Bearer {guarded.keys['theirs']}\n{framing}\n\n"
                                  f"0\n\n{inner}")
        assert status in (400, 501), (framing, text)
        assert text.count("HTTP/1.1 ") == 1, text


def test_no_body_leads_others_astray(guarded, two_boxes):
    """Names in it are looked for, and are nobody's proof: a session of another tenant beside one's
    own thread, a worker, the same name twice."""
    front, thread, mine, theirs = two_boxes
    asked, owner = guarded.ask(front, "theirs"), guarded.ask(front, "mine")
    for _ in range(3):
        for worker in ("w1", "w2", "nobody"):
            reply = asked.post("/create_session", {
                "session_id": mine, "worker": worker, "user_id": "u", "thread_id": thread})
            assert (reply.status, reply.json["session_id"]) == (409, theirs), reply
            assert reply.json["worker"] in ("w1", "w2")
        for names in ((mine, theirs), (theirs, mine)):
            body = '{"session_id":"%s","session_id":"%s","command":"cat f"}' % names
            reply = asked.post("/execute", body, headers={"Content-Type": "application/json"})
            assert reply.status in (200, 400, 404) and b"mine" not in reply.body, reply
            reply = asked.post(f"/execute?session_id={names[0]}",
                               {"session_id": names[1], "command": "cat f"})
            assert reply.status in (200, 404) and b"mine" not in reply.body, reply
        assert owner.stdout(mine, "cat f") == "mine\n"
        assert asked.stdout(theirs, "cat f") == "theirs\n"
        assert owner.create(thread) == mine


def test_wrong_keys_teach_the_coordinator_nothing(guarded, two_boxes):
    """It remembers whose threads a key means: of those that a worker took."""
    front, thread, mine, theirs = two_boxes
    for key in ("x", "tb_0123456789ab_" + "A" * 43, guarded.keys["mine"][:-1],
                guarded.keys["mine"] + "A", "mine"):
        guarded.keys["wrong"] = key
        asked = guarded.ask(front, "wrong")
        assert asked.get(f"/get_session?thread_id={thread}").status in (401, 429)
        assert asked.post("/create_session", {
            "user_id": "u", "thread_id": thread}).status in (401, 429)
    assert guarded.ask(front, "mine").create(thread) == mine
    assert guarded.ask(front, "theirs").create(thread) == theirs


def test_where_a_request_comes_from_is_written_at_the_end(guarded, two_boxes):
    """What a client claims stays before it: the last address is what the coordinator saw."""
    front, _, mine, _ = two_boxes
    worker = guarded.worker_of(mine, "mine").settings["WORKER_ID"]
    for lines, expected in (("X-Forwarded-For: 6.6.6.6", "6.6.6.6, 127.0.0.1"),
                            ("X-Forwarded-For: 6.6.6.6\nx-forwarded-for: 7.7.7.7",
                             "6.6.6.6, 7.7.7.7, 127.0.0.1"), ("X-A: b", "127.0.0.1")):
        raw(front, f"GET /api/sessions/{mine}/no-such-place HTTP/1.1\nHost: localhost\n{lines}\n"
                   f"Authorization: Bearer {guarded.keys['mine']}\nConnection: close\n\n")

        def last():
            rows = guarded.ask(front, "").get(
                f"/admin/audit?worker={worker}&result=refused").json["entries"]
            told = [row.get("forwarded_for") for row in rows
                    if "no-such-place" in row.get("target", "")]
            return told and told[0] == expected
        wait_until(last, f"it stands there: {expected}")


def test_a_name_that_leads_here_lets_no_page_in(shared_cluster):
    """DNS rebinding: where nobody is asked for a key, only names of this machine are answered."""
    front = shared_cluster.coordinators[0]
    session = front.create(f"t-{uuid.uuid4()}")
    evil = {"Host": "evil.example"}
    for method, path, body in (("GET", "/api/sessions", None),
                               ("GET", f"/api/sessions/{session}", None),
                               ("GET", "/get_session?thread_id=x", None),
                               ("POST", "/create_session", {}),
                               ("POST", "/execute", {"session_id": session, "command": "id"})):
        reply = front.request(method, path, body, headers=evil)
        assert reply.status == 421 and session not in reply.body.decode(), (path, reply)
        assert "answers only to the names" in reply.json["error"]
    front.cleanup(session)
