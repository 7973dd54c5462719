# SPDX-License-Identifier: Apache-2.0
"""Webhooks: who asked for it is told of what happens to sessions, signed with a secret of its own.
"""
import json
import re
import time

import pytest

from live import start
from receiver import KEY, LOOPBACK, Receiver, verify
from server import Server, wait_until


@pytest.fixture(scope="module")
def teller(binary):
    """A server that may call loopback, for all tests that don't kill it."""
    shared = Server(**LOOPBACK)
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture
def receiver():
    with Receiver() as one:
        yield one


@pytest.fixture
def hook(teller, receiver):
    """Makes webhooks, which are gone after the test."""
    made = []

    def make(*events, **fields):
        body = {"url": f"{receiver.base}/{len(made)}", **fields}
        if events:
            body["events"] = list(events)
        reply = teller.post("/api/webhooks", body)
        assert reply.status == 201, reply
        made.append(reply.json)
        return reply.json
    yield make
    for one in made:
        teller.request("DELETE", f"/api/webhooks/{one['id']}")


def told(receiver, path=None):
    return [json.loads(one.body) for one in list(receiver.got) if path in (None, one.path)]


def wait_types(receiver, *types):
    """Until these were told, in whichever order; each once."""
    wait_until(lambda: sorted(one["type"] for one in told(receiver)) == sorted(types),
               lambda: f"{types} came, not {told(receiver)}")
    return {one["type"]: one for one in told(receiver)}


def rows(server, webhook, state=""):
    query = f"?webhook_id={webhook['id']}&limit=1000" + (f"&state={state}" if state else "")
    return server.get("/api/webhooks/deliveries" + query).json["deliveries"]


# ---- what is told ----

def test_each_event_is_told_with_what_it_is_about(teller, receiver, hook):
    mine = hook()
    assert mine["events"] == ["*"] and mine["active"]
    session = teller.post("/create_session", {"user_id": "u", "thread_id": "webhook thread",
                                              "timeout_minutes": 5}).json["session_id"]
    teller.execute(session, "echo fine")
    teller.execute(session, "exit 3")
    teller.execute(session, "sleep 9", timeout=0.1)
    teller.upload(session, "a.txt", b"12345")
    reply = teller.post(f"/api/sessions/{session}/artifacts", {"path": "a.txt"})
    assert reply.status == 201
    teller.cleanup(session)
    wait_until(lambda: len(receiver.got) == 7, lambda: told(receiver))
    events = sorted(told(receiver), key=lambda one: one["sequence"])
    assert [one["type"] for one in events] == [
        "session.created", "command.finished", "command.failed", "command.failed",
        "limit.exceeded", "artifact.kept", "session.closed"]
    assert [one["sequence"] for one in events] == list(range(1, 8))
    assert len({one["event_id"] for one in events}) == 7
    for one in events:
        data = one["data"]
        assert (data["session_id"], data["thread_id"], data["user_id"]) == (
            session, "webhook thread", "u")
        assert one["timestamp"].endswith("Z")
    fine, failed, late, limit, kept = (one["data"] for one in events[1:6])
    assert (fine["process_id"], fine["command"], fine["exit_code"]) == (1, "echo fine", 0)
    assert (failed["exit_code"], failed["cause"]) == (3, "exited")
    assert (late["cause"], limit["limit"]) == ("timeout", "command_timeout")
    assert limit["process_id"] == late["process_id"]
    assert (kept["artifact_id"], kept["size_bytes"]) == (reply.json["artifact_id"], 5)
    for one in receiver.got:
        assert verify(mine["secret"], one.headers, one.body)
        assert not verify(KEY, one.headers, one.body), "the server's secret is for callbacks"


def test_only_what_was_asked_for_is_told(teller, receiver, hook):
    hook("command.refused", "session.expired")
    fields = {"policy": "strict", "timeout_minutes": 0.02}
    session = teller.post("/create_session", fields).json["session_id"]
    assert teller.try_execute(session, "ls; rm -r x").status == 400
    types = wait_types(receiver, "command.refused", "session.expired")
    refused = types["command.refused"]["data"]
    assert (refused["command"], refused["reason"]) == ("ls; rm -r x", "forbidden")
    assert types["session.expired"]["data"]["session_id"] == session


def test_two_webhooks_are_told_of_one_event_by_its_one_name(teller, receiver, hook):
    first, second = hook("session.created"), hook("session.created")
    assert first["secret"] != second["secret"]
    teller.create()
    receiver.wait(2)
    assert len({one["event_id"] for one in told(receiver)}) == 1
    assert len(set(receiver.ids())) == 2
    by_path = {one.path: one for one in receiver.got}
    assert verify(first["secret"], by_path["/0"].headers, by_path["/0"].body)
    assert verify(second["secret"], by_path["/1"].headers, by_path["/1"].body)


# ---- the webhook itself ----

def test_the_secret_is_shown_once_and_may_be_brought_along(teller, hook):
    mine = hook("session.closed", secret=KEY, description="née \u2603")
    assert mine["secret"] == KEY
    shown = teller.get(f"/api/webhooks/{mine['id']}").json
    assert shown == {name: mine[name] for name in mine if name != "secret"}
    assert shown["description"] == "née \u2603"
    listed = teller.get("/api/webhooks")
    assert shown in listed.json["webhooks"] and KEY.encode() not in listed.body
    assert KEY.removeprefix("whsec_") not in teller.log()


def test_a_secret_is_changed_and_nothing_is_refused_meanwhile(teller, receiver, hook):
    first = hook()
    path = f"/api/webhooks/{first['id']}"

    def signed_by():
        before = len(receiver.got)
        assert teller.post(f"{path}/test", {}).json["delivered"]
        got = receiver.got[before]
        return [secret for secret in secrets if verify(secret, got.headers, got.body)]
    secrets = [first["secret"]]
    made = teller.request("PATCH", path, {"secret": ""})
    assert made.status == 200 and made.json["secret"] not in secrets, made
    secrets.append(made.json["secret"])
    assert signed_by() == secrets
    third = "whsec_" + "A" * 32
    assert teller.request("PATCH", path, {"secret": third}).json["secret"] == third
    secrets.append(third)
    assert signed_by() == secrets[1:], "the one before the last signs no more"
    teller.restart()
    assert signed_by() == secrets[1:]
    assert "secret" not in teller.get(path).json
    assert "secret" not in teller.request("PATCH", path, {"active": True}).json
    for wrong in ("whsec_short", "x", third + " " + third, third + " 1"):
        assert teller.request("PATCH", path, {"secret": wrong}).status == 400, wrong
    assert signed_by() == secrets[1:]


def test_what_is_wrong_is_refused_by_its_name(teller, receiver):
    for fields, word in [({}, "url"), ({"url": 5}, "url"), ({"url": "ftp://x/"}, "http"),
                         ({"url": "http://user@x/"}, "user"), ({"events": "x"}, "events"),
                         ({"events": []}, "events"), ({"events": ["nothing"]}, "nothing"),
                         ({"events": [1]}, "events"), ({"active": "yes"}, "active"),
                         ({"description": "x" * 1001}, "description"),
                         ({"secret": "short"}, "whsec_")]:
        body = fields if "url" in fields or not fields else {"url": receiver.base, **fields}
        reply = teller.post("/api/webhooks", body)
        assert reply.status == 400 and word in reply.json["error"], (fields, reply)
    assert teller.get("/api/webhooks").json["total"] == 0


def test_who_is_not_active_is_told_nothing_and_who_is_again_is(teller, receiver, hook):
    mine = hook("session.created")
    path = f"/api/webhooks/{mine['id']}"
    assert teller.request("PATCH", path, {"active": False}).json["active"] is False
    teller.create()
    assert rows(teller, mine) == []
    change = {"active": True, "url": f"{receiver.base}/new"}
    assert teller.request("PATCH", path, change).status == 200
    teller.create()
    receiver.wait()
    assert [one.path for one in receiver.got] == ["/new"]


def test_a_test_is_one_attempt_and_says_what_came_of_it(teller, receiver, hook):
    mine = hook("session.created")
    reply = teller.post(f"/api/webhooks/{mine['id']}/test")
    assert reply.json == {"delivered": True, "status": 200, "error": None}
    one = receiver.got[0]
    assert json.loads(one.body)["type"] == "webhook.test"
    assert json.loads(one.body)["data"] == {"webhook_id": mine["id"]}
    assert verify(mine["secret"], one.headers, one.body)
    receiver.answers = [500]
    reply = teller.post(f"/api/webhooks/{mine['id']}/test")
    assert reply.json == {"delivered": False, "status": 500, "error": "answered 500"}
    assert len(receiver.got) == 2 and rows(teller, mine) == []


def test_dead_letters_are_listed_and_replayed_since_a_time(teller, receiver, hook):
    mine = hook("session.created")
    receiver.answers = [410] * 2
    sessions = [teller.create()]
    wait_until(lambda: len(rows(teller, mine, "dead")) == 1, "one is dead")
    between = time.time()
    sessions.append(teller.create())
    wait_until(lambda: len(rows(teller, mine, "dead")) == 2, "both are dead")
    replay = f"/api/webhooks/{mine['id']}/replay"
    assert teller.post(replay, {"since": between}).json == {"replayed": 1, "complete": True}
    receiver.wait(3)
    assert told(receiver)[2]["data"]["session_id"] == sessions[1]
    assert teller.post(replay).json["replayed"] == 1
    receiver.wait(4)
    assert sorted(receiver.ids()[:2]) == sorted(receiver.ids()[2:]), "under their old names"
    wait_until(lambda: len(rows(teller, mine, "done")) == 2, "both came")
    assert teller.post(replay).json["replayed"] == 0
    assert teller.post(replay, {"done": True}).json["replayed"] == 2
    receiver.wait(6)


def test_what_was_to_be_delivered_goes_with_its_webhook(teller, receiver, hook):
    mine = hook("session.created")
    receiver.answers = [500] * 6
    teller.create()
    receiver.wait()
    assert teller.request("DELETE", f"/api/webhooks/{mine['id']}").status == 200
    assert rows(teller, mine) == []
    assert teller.get(f"/api/webhooks/{mine['id']}").status == 404
    text = teller.get("/metrics").body.decode()
    assert "threadbox_webhooks 0\n" in text


def test_one_that_hangs_keeps_no_other_webhook_waiting(teller, receiver, hook):
    receiver.answers = ["hang"] * 30
    hook("session.created")
    for _ in range(6):
        teller.create()
    receiver.wait(4)
    with Receiver(host="127.0.0.2") as other:
        hook("session.created", url=f"http://127.0.0.2:{other.port}/")
        teller.create()
        other.wait()
        session = teller.create()
        start(teller, session, "true", notify_url=f"http://127.0.0.2:{other.port}/callback")
        other.wait(3)
        assert len(receiver.got) == 4


def test_webhooks_are_counted(teller, receiver, hook):
    def counted(name):
        text = teller.get("/metrics").body.decode()
        return int(re.search(rf"^{name} (\d+)", text, re.M)[1])
    before = counted("threadbox_webhook_events_total")
    hook("session.created")
    assert counted("threadbox_webhooks") == 1
    teller.create()
    receiver.wait()
    assert counted("threadbox_webhook_events_total") == before + 1
    assert counted("threadbox_webhook_events_lost_total") == 0
