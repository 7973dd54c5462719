# SPDX-License-Identifier: Apache-2.0
"""Bad bodies and guessed names through the real server: always a 4xx that says why."""
import time
import uuid

import pytest

from test_http import assert_refused


def post_text(server, path, text, **headers):
    """A body exactly as it is given."""
    data = text.encode() if isinstance(text, str) else text
    return server.post(path, data, headers={"Content-Type": "application/json", **headers})


def test_H09_nesting_is_refused_and_not_echoed(server):
    for text in ("[" * 100000, '{"session_id":' + "[" * 100000 + "]" * 100000 + "}",
                 '{"a":' * 100000 + "1" + "}" * 100000):
        began = time.monotonic()
        reply = post_text(server, "/execute", text)
        assert_refused(reply)
        assert len(reply.body) < 1000 and time.monotonic() - began < 1


STRANGE = {
    "huge number": '{"timeout_minutes":1e999999}', "NaN": '{"timeout_minutes":NaN}',
    "infinity": '{"timeout_minutes":Infinity}', "minus zero": '{"timeout_minutes":-0}',
    "2^64": '{"timeout_minutes":' + str(2**64) + "}",
    "too many digits": '{"timeout_minutes":' + "9" * 5000 + "}",
    "lone surrogate": '{"thread_id":"\\ud800"}', "wrong order": '{"thread_id":"\\udc00\\ud800"}',
    "NUL": '{"thread_id":"a\\u0000b"}', "invalid UTF-8": b'{"thread_id":"\xff"}',
    "overlong": b'{"thread_id":"\xc0\xaf"}', "encoded surrogate": b'{"thread_id":"\xed\xa0\x80"}',
    "BOM": b'\xef\xbb\xbf{}', "comment": '{/* */"thread_id":"t"}',
    "trailing comma": '{"thread_id":"t",}', "two values": "{}{}",
    "single quotes": "{'thread_id':'t'}", "UTF-16": "{}".encode("utf-16"),
    "raw newline": '{"thread_id":"a\nb"}', "bad escape": '{"thread_id":"\\x"}'}


@pytest.mark.parametrize("name", STRANGE)
def test_H11_strange_json_is_400(server, name):
    assert_refused(post_text(server, "/create_session", STRANGE[name]))


@pytest.mark.parametrize("value", [1, 1.5, True, [], {}, ["t"], {"a": "t"}])
@pytest.mark.parametrize("path,field", [
    ("/create_session", "thread_id"), ("/create_session", "user_id"), ("/create_session", "policy"),
    ("/execute", "session_id"), ("/execute", "command"), ("/cleanup", "session_id"),
    ("/download_file", "session_id"), ("/download_file", "filename")])
def test_H11_wrong_types_are_400_with_the_name_of_the_field(server, path, field, value):
    body = {"session_id": "s", "command": "ls", "filename": "f", field: value}
    if path == "/create_session":
        body = {field: value}
    reply = server.post(path, body)
    assert_refused(reply)
    assert field in reply.json["error"]


def test_H11_a_million_keys_take_linear_time(server):
    def seconds(count):
        text = "{" + ",".join(f'"key{n}":{n}' for n in range(count)) + "}"
        began = time.monotonic()
        reply = post_text(server, "/cleanup", text)
        assert_refused(reply, 400, 413)
        return time.monotonic() - began
    few, many = min(seconds(50000) for _ in range(3)), seconds(800000)
    assert many < 40 * few + 0.5, (few, many)


@pytest.mark.parametrize("command", ["echo \0", "\0", "a\0b"])
def test_a_command_with_NUL_is_400(server, session, command):
    assert_refused(server.try_execute(session, command))


def test_names_that_are_guesses_lead_nowhere(server, session):
    guesses = ["", "0", "1", "x" * 5000, "../" + session, session.upper(), session[:-1],
               session + " ", "%00", "*", "'; DROP TABLE sessions; --", str(uuid.uuid4()),
               "\u0661", session.replace("-", ""), "ready host"]
    for guess in guesses:
        for reply in (server.try_execute(guess, "ls"), server.post(
                "/download_file", {"session_id": guess, "filename": "f"})):
            assert_refused(reply, 400, 404)
        assert server.post("/cleanup", {"session_id": guess}).status == 200
    for path in ("/status/..%2f..%2fetc", "/status/%2e%2e", "/status/", "/status",
                 "/api/sessions/../processes", "/status/" + "a" * 7000):
        assert_refused(server.get(path), 400, 404)
    assert server.stdout(session, "echo usable") == "usable\n"


def test_H26_compressed_bodies_are_not_unpacked(server):
    reply = post_text(server, "/create_session", b"\x1f\x8b\x08\x00" + bytes(100),
                      **{"Content-Encoding": "gzip"})
    assert_refused(reply, 400, 415)
