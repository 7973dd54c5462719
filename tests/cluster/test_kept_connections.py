# SPDX-License-Identifier: Apache-2.0
"""A connection between coordinator and worker that was kept, and has ended while nobody looked."""
import pytest

from cluster import Cluster
from redis_server import Wire, free_port, need_redis
from websocket import Refused, WebSocket


class Fickle(Wire):
    """Ends connections that bring another request after their first, or all of them, without
    passing it on; `ended` counts."""
    ends, ended = None, 0

    def forth(self, near, far):
        first = True
        while data := self.receive(near):
            if self.ends == "all" or (self.ends == "kept" and not first):
                self.ended += 1
                break
            first = False
            far.sendall(data)
        self.end(near)
        self.end(far)

    @staticmethod
    def receive(near):
        try:
            return near.recv(65536)
        except OSError:
            return b""


@pytest.fixture(scope="module")
def behind(binary):
    """A cluster of one worker; the coordinator reaches it over a wire."""
    need_redis()
    cluster = Cluster(CLUSTER_LEASE_MS=6000)

    def put_between(server):
        server.settings["PORT"] = str(free_port())
        cluster.wire = Fickle(int(server.settings["PORT"]))
        server.settings["ADVERTISE_URL"] = f"http://127.0.0.1:{cluster.wire.port}"
    try:
        cluster.worker(before=put_between)
        cluster.coordinator()
        cluster.wait_open()
        yield cluster
    finally:
        cluster.wire.close()
        cluster.close()


@pytest.fixture
def kept(behind):
    """The front, a session, and the wire; there is a connection that is kept."""
    behind.wire.ends, behind.wire.ended = None, 0
    front = behind.coordinators[0]
    session = front.create("t")
    assert front.get(f"/status/{session}").status == 200
    yield front, session, behind.wire
    behind.wire.ends = None


def ready(front, session):
    """And a connection is kept again."""
    return front.get(f"/status/{session}").status == 200


def test_what_only_asks_is_asked_again(kept):
    front, session, wire = kept
    for number in range(1, 4):
        wire.ends = "kept"
        method = "HEAD" if number == 2 else "GET"
        reply = front.request(method, f"/api/sessions/{session}/processes")
        assert reply.status == 200, reply
        assert wire.ended == number, "over a connection of its own"
        wire.ends = None
        assert ready(front, session)


def test_what_may_have_been_done_is_not(kept):
    front, session, wire = kept
    for method, path, body in (
            ("POST", "/execute", {"session_id": session, "command": "echo x >> done"}),
            ("DELETE", f"/api/sessions/{session}/processes/1", None),
            ("GET", f"/api/sessions/{session}/processes", "a body")):
        wire.ends = "kept"
        before = wire.ended
        reply = front.request(method, path, body)
        assert reply.status == 503 and reply.headers["Retry-After"], (path, reply)
        assert wire.ended == before + 1
        wire.ends = None
        assert ready(front, session)
    assert front.stdout(session, "cat done 2> /dev/null || echo none") == "none\n"


def test_a_websocket_is_not_begun_twice(kept):
    front, session, wire = kept
    wire.ends = "kept"
    with pytest.raises(Refused) as refused:
        WebSocket("127.0.0.1", front.port, f"/api/sessions/{session}/attach?start=cat")
    assert refused.value.status == 503 and wire.ended == 1


def test_once_more_is_enough(kept):
    front, session, wire = kept
    wire.ends = "all"
    reply = front.get(f"/api/sessions/{session}/processes")
    assert reply.status == 503 and wire.ended == 2, (reply, wire.ended)
    wire.ends = None
    assert ready(front, session)
