# SPDX-License-Identifier: Apache-2.0
"""Code of a session over HTTP."""
import contextlib
import json

from live import read_events


def try_run(server, session, code, seconds=60, **fields):
    return server.post(f"/api/sessions/{session}/code", {"code": code, **fields}, seconds=seconds)


def run(server, session, code, **fields):
    reply = try_run(server, session, code, **fields)
    why = [line for line in server.log().splitlines() if "internal_error" in line]
    assert reply.status == 200, (reply, why)
    return reply.json


def show(server, session, context):
    reply = server.get(f"/api/sessions/{session}/contexts/{context}")
    assert reply.status == 200, reply
    return reply.json


@contextlib.contextmanager
def stream(server, session, code, events=False, **fields):
    """An iterator of (type, message) as they come."""
    with contextlib.closing(server.connect()) as connection:
        headers = {"Content-Type": "application/json"}
        if events:
            headers["Accept"] = "text/event-stream"
        body = json.dumps({"code": code, "stream": True, **fields})
        connection.request("POST", f"/api/sessions/{session}/code", body, headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        with contextlib.closing(answer):
            yield messages_of(answer, events)


def messages_of(answer, events):
    if events:
        for event in read_events(answer):
            yield event.name, event.data
        return
    while line := answer.readline():
        if line.strip():
            message = json.loads(line)
            yield message.pop("type"), message
