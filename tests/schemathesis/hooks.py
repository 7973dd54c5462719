# SPDX-License-Identifier: Apache-2.0
"""What schemathesis can't guess: sessions, processes and files that are there. Half of the
requests name one of them, the others whatever was generated; what requests make is taken away."""
import json
import os
import random
import urllib.request

import schemathesis

BASE = os.environ["THREADBOX_URL"]
CHANCE = random.Random(1)
ENDS = {"deleteSession", "cleanup", "stopSandbox"}
MAKES = {"createSession", "makeSession", "startSandbox"}
known = {}


def ask(method, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(BASE + path, data, {"Content-Type": "application/json"},
                                     method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def session():
    """One that lives, with a process that waits and a file."""
    if known:
        try:
            ask("GET", f"/status/{known['session_id']}")
            return known["session_id"]
        except OSError:
            known.clear()
    known["session_id"] = ask("POST", "/create_session", {"policy": "open"})["session_id"]
    path = f"/api/sessions/{known['session_id']}"
    ask("POST", "/execute", {"session_id": known["session_id"],
                             "command": "mkdir -p d; echo text > d/a.txt"})
    known["process_id"] = ask("POST", f"{path}/processes",
                              {"command": "cat", "stdin_open": True})["process_id"]
    known["shell_id"] = ask("POST", f"{path}/shells", {})["shell_id"]
    return known["session_id"]


@schemathesis.serializer("application/x-tar", "application/gzip", "application/octet-stream")
def as_bytes(context, value):
    """Archives that are none, mostly."""
    return value if isinstance(value, bytes) else str(value).encode()


def throw_away():
    return ask("POST", "/create_session", {})["session_id"]


@schemathesis.hook
def before_call(context, case, kwargs):
    if CHANCE.random() < 0.4:
        return
    operation = case.operation.definition.raw.get("operationId")
    real = throw_away() if operation in ENDS else session()
    for place in (case.path_parameters, case.query, case.body):
        if not isinstance(place, dict):
            continue
        for name, value in (("session_id", real), ("process_id", known.get("process_id")),
                            ("shell_id", known.get("shell_id"))):
            if name in place:
                place[name] = value
    if isinstance(case.body, dict) and "path" in case.body and CHANCE.random() < 0.5:
        case.body["path"] = "d/a.txt"


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw.get("operationId")
    if operation not in MAKES or response.status_code not in (200, 201, 409):
        return
    made = json.loads(response.content).get("session_id")
    if made and made != known.get("session_id"):
        ask("POST", "/cleanup", {"session_id": made})
