# SPDX-License-Identifier: Apache-2.0
"""What all answers have in common, whoever asked."""
import re
import uuid
from datetime import datetime, timezone

import requests

from server import wait_until

WORKSPACE = "/workspace"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def unique(prefix="thread"):
    return f"{prefix}_{uuid.uuid4().hex[:12]}"


def moment(text):
    """A time stamp of an answer: UTC ISO-8601 with a Z."""
    assert TIME.fullmatch(text), text
    seconds = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return seconds.timestamp() + float(f"0{text[19:-1]}" if text[19:-1] else 0)


def ok(response, *keys, status=200):
    """The JSON object of a success, with all these keys in it."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["Content-Type"].split(";")[0] == "application/json"
    body = response.json()
    assert set(keys) <= set(body), f"missing: {set(keys) - set(body)} in {body}"
    return body


def refused(response, status, error=None, **keys):
    """The body of an error: the documented keys on top, `detail` as FastAPI has it, and the text
    in the reason phrase, for the users of clients that never read a body."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["Content-Type"].split(";")[0] == "application/json"
    body = response.json()
    if error is not None:
        assert body["error"] == error
    assert isinstance(body["error"], str) and body["error"]
    for name, value in keys.items():
        assert body[name] == value, (name, body)
    detail = body["detail"]
    assert detail == body["error"] or detail["error"] == body["error"], body
    visible = re.match(r"[ -~]{0,40}", body["error"])[0]
    assert visible in response.reason, response.reason
    assert all(" " <= c <= "~" for c in response.reason), response.reason
    return body


def post(url, path, body=None, **options):
    """As curl would; clients have their own ways."""
    if body is not None:
        options["json"] = body
    return requests.post(url + path, timeout=60, **options)


def get(url, path, **query):
    return requests.get(url + path, params=query, timeout=60)


def create(url, thread=None, **more):
    """A new session's id; for a thread if one is named."""
    body = {"user_id": "compat_user", "thread_id": thread, **more} if thread else more
    return ok(post(url, "/create_session", body), "session_id")["session_id"]


def execute(url, session, command, **more):
    return ok(post(url, "/execute", {"session_id": session, "command": command, **more}))


def upload(url, session, name, content, **fields):
    return requests.post(url + "/upload_file", files={"file": (name, content)}, timeout=60,
                         data={"session_id": session, **fields})


def cleanup(url, session):
    return ok(post(url, "/cleanup", {"session_id": session}))


def wait_expired(url, session):
    """Looks at it in a way that is no use of it."""
    path = f"/api/sessions/{session}/processes"
    wait_until(lambda: get(url, path).status_code == 404, "the session is gone")
