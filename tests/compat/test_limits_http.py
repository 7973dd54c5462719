# SPDX-License-Identifier: Apache-2.0
"""Limits: 413, 507 and 503 with their numbers, and exactly at the limit all is well."""
import pytest
import requests

import enhanced_client
from answers import cleanup, create, execute, get, ok, post, refused, unique, upload

MIB = 1 << 20


def test_413_says_how_large_and_how_large_it_may_be(start_server):
    url = start_server(MAX_FILE_SIZE_MB=1)
    session = create(url)
    assert ok(upload(url, session, "f", bytes(MIB)))["size_bytes"] == MIB
    body = refused(upload(url, session, "g", bytes(MIB + MIB // 2)), 413,
                   "File size exceeds maximum allowed size", max_size_mb=1)
    assert abs(body["uploaded_size_mb"] - 1.5) <= 0.01
    assert body["uploaded_size_mb"] == round(body["uploaded_size_mb"], 2)
    refused(upload(url, session, "h", bytes(MIB + 1)), 413)
    files = ok(get(url, "/list_files", session_id=session))["files"]
    assert [file["name"] for file in files] == ["f"]


def test_413_reaches_a_client_that_is_still_sending(start_server, tmp_path):
    url = start_server(MAX_FILE_SIZE_MB=1)
    (tmp_path / "large").write_bytes(bytes(20 * MIB))
    with enhanced_client.SandboxClient("remote", url) as client:
        client.get_or_create_session("u", unique())
        with pytest.raises(requests.HTTPError) as caught:
            client.upload_file(str(tmp_path / "large"))
        assert caught.value.response.status_code == 413
        assert "File size exceeds maximum allowed size" in str(caught.value)


def test_507_counts_regular_files_in_all_directories(start_server):
    url = start_server(MAX_TOTAL_FILES=3)
    session = create(url)
    execute(url, session, "mkdir -p d/e && touch a d/b")
    ok(upload(url, session, "d/e/c", b"x"))
    refused(upload(url, session, "one-more", b"x"), 507, "Maximum file count exceeded",
            max_files=3, current_files=3)


def test_507_says_how_full_the_workspace_is(start_server):
    url = start_server(MAX_WORKSPACE_SIZE_MB=16)
    session = create(url)
    ok(upload(url, session, "first", bytes(10 * MIB)))
    body = refused(upload(url, session, "second", bytes(8 * MIB)), 507,
                   "Workspace size limit exceeded", max_workspace_mb=16)
    assert abs(body["current_workspace_mb"] - 10) <= 0.5
    assert abs(body["file_size_mb"] - 8) <= 0.01
    ok(upload(url, session, "third", bytes(2 * MIB)))


def test_the_count_is_tested_before_the_size(start_server):
    url = start_server(MAX_WORKSPACE_SIZE_MB=16, MAX_TOTAL_FILES=1)
    session = create(url)
    ok(upload(url, session, "first", bytes(10 * MIB)))
    refused(upload(url, session, "second", bytes(10 * MIB)), 507, "Maximum file count exceeded")


def test_503_when_no_sandbox_is_left(start_server):
    url = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1)
    session = create(url, "one")
    for body in (None, {}, {"user_id": "u", "thread_id": "two", "timeout_minutes": 30}):
        answer = post(url, "/create_session", body)
        assert "capacity" in refused(answer, 503)["error"]
        assert int(answer.headers["Retry-After"]) > 0
    known = post(url, "/create_session", {"user_id": "u", "thread_id": "one"})
    assert (known.status_code, known.json()["session_id"]) == (409, session)
    cleanup(url, session)
    create(url, "two")
