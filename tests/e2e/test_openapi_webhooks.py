# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says of callbacks is true, and what docs/api.md shows to receivers works."""
import json
import re

import pytest

from live import start
from receiver import KEY, LOOPBACK, Receiver, wait_state
from server import Server
from test_openapi import MANUAL, assert_described, resolve, validator


@pytest.fixture(scope="module")
def notifier(binary):
    shared = Server(**LOOPBACK)
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture(scope="module")
def spec(notifier):
    return notifier.get("/openapi.json").json


def test_deliveries_and_what_is_delivered_are_as_described(notifier, spec):
    session = notifier.create("t")
    path = "/api/webhooks/deliveries"
    with Receiver() as receiver:
        receiver.answers = [410]
        fields = {"command": "echo x", "notify_url": receiver.base, "tag": "t"}
        validator(spec, spec["components"]["schemas"]["StartProcess"]).validate(fields)
        start(notifier, session, **fields)
        row = wait_state(notifier, "dead", session)
        for query in ("", "?state=dead", "?state=waiting&limit=1"):
            assert_described(spec, "listDeliveries", notifier.get(path + query), 200)
        assert_described(spec, "listDeliveries", notifier.get(path + "?state=x"), 400)
        assert_described(spec, "replayDelivery", notifier.post(f"{path}/{row['id']}/replay"), 200)
        receiver.wait(2)
        running = start(notifier, session, "sleep 100", notify_url=receiver.base)
        waiting = wait_state(notifier, "waiting", session)
        reply = notifier.post(f"{path}/{waiting['id']}/replay")
        assert_described(spec, "replayDelivery", reply, 409)
        running.delete()
        receiver.wait(3)
        wait_state(notifier, "done", session)
        for status in (200, 404):
            reply = notifier.request("DELETE", f"{path}/{row['id']}")
            assert_described(spec, "removeDelivery", reply, status)
        reply = notifier.post(f"{path}/{row['id']}/replay")
        assert_described(spec, "replayDelivery", reply, 404)
        told = spec["webhooks"]["processEnded"]["post"]
        schema = resolve(spec, told["requestBody"]["content"]["application/json"]["schema"])
        for one in receiver.got:
            validator(spec, schema).validate(json.loads(one.body))
            for header in told["parameters"]:
                assert one.headers[header["name"]]


def test_webhooks_and_what_they_are_sent_are_as_described(notifier, spec):
    path = "/api/webhooks"
    with Receiver() as receiver:
        fields = {"url": receiver.base, "events": ["session.closed"], "description": "d"}
        validator(spec, spec["components"]["schemas"]["MakeWebhook"]).validate(fields)
        made = assert_described(spec, "createWebhook", notifier.post(path, fields), 201).json
        own = f"{path}/{made['id']}"
        assert_described(spec, "createWebhook", notifier.post(path, {"url": "ftp://x"}), 400)
        assert_described(spec, "createWebhook", notifier.post(path, "{"), 400)
        assert_described(spec, "listWebhooks", notifier.get(path), 200)
        assert_described(spec, "getWebhook", notifier.get(own), 200)
        change = {"description": "", "events": ["*"]}
        reply = notifier.request("PATCH", own, change)
        assert assert_described(spec, "changeWebhook", reply, 200).json["events"] == ["*"]
        reply = notifier.request("PATCH", own, {"active": 1})
        assert_described(spec, "changeWebhook", reply, 400)
        assert_described(spec, "testWebhook", notifier.post(f"{own}/test"), 200)
        notifier.cleanup(notifier.create())
        receiver.wait(3)
        told = spec["webhooks"]["event"]["post"]
        schema = resolve(spec, told["requestBody"]["content"]["application/json"]["schema"])
        for one in receiver.got:
            validator(spec, schema).validate(json.loads(one.body))
        listed = notifier.get(f"{path}/deliveries?webhook_id={made['id']}")
        assert assert_described(spec, "listDeliveries", listed, 200).json["deliveries"]
        for body, status in [({"since": 0, "done": True}, 200), ({"since": -1}, 400)]:
            reply = notifier.post(f"{own}/replay", body)
            assert_described(spec, "replayWebhook", reply, status)
        for status in (200, 404):
            assert_described(spec, "removeWebhook", notifier.request("DELETE", own), status)
        for operation, reply in [
                ("getWebhook", notifier.get(own)),
                ("changeWebhook", notifier.request("PATCH", own, {})),
                ("testWebhook", notifier.post(f"{own}/test")),
                ("replayWebhook", notifier.post(f"{own}/replay"))]:
            assert_described(spec, operation, reply, 404)


def test_the_manuals_way_to_verify_works(notifier):
    code = re.search(r"^```python\n(.*?)^```", MANUAL.read_text(), re.S | re.M)[1]
    names = {}
    exec(compile(code, str(MANUAL), "exec"), names)  # our own text
    with Receiver() as receiver:
        start(notifier, notifier.create(), "true", notify_url=receiver.base)
        one = receiver.wait()[0]
        assert names["verify"](KEY, one.headers, one.body)
        assert not names["verify"](KEY, one.headers, one.body + b"x")
        old = {**dict(one.headers.items()), "webhook-timestamp": "1614265330"}
        assert not names["verify"](KEY, old, one.body)
