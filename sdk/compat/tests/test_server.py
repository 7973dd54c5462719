# SPDX-License-Identifier: Apache-2.0
"""The server as an object, for clients that were written for local mode."""

import concurrent.futures
import sys

import pytest
import threadbox
from conftest import ROOT, lib, load

import server
from server import SessionExpiredError, get_server_instance


@pytest.fixture
def instance(fresh):
    return get_server_instance()


@pytest.fixture
def session(instance, thread):
    made = instance.create_session("user123", thread, 30)["session_id"]
    yield made
    instance.cleanup_session(made)


def test_there_is_one(fresh):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: get_server_instance(), range(8)))
    assert len(set(map(id, made))) == 1


def test_sessions_by_thread(instance, thread):
    assert instance.get_session_by_thread(thread) is None
    created = instance.create_session("user123", thread, 30)
    assert created["status"] == "created" and created["thread_id"] == thread
    assert {"session_id", "workspace_dir", "user", "expires_at"} <= created.keys()
    found = instance.get_session_by_thread(thread)
    assert (found["status"], found["session_id"]) == ("active", created["session_id"])
    again = instance.create_session("user123", thread, 30)
    assert (again["status"], again["session_id"]) == ("existing", created["session_id"])
    done = instance.cleanup_session(created["session_id"])
    assert done == {"status": "cleaned_up", "session_id": created["session_id"]}
    assert instance.get_session_by_thread(thread) is None
    assert instance.cleanup_session(created["session_id"]) == done


def test_commands_and_files(instance, session):
    result = instance.execute_command(session, "echo out; echo err >&2; false", 30)
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (1, "out\n", "err\n")
    uploaded = instance.upload_file(session, "d/data.bin", b"\0\xff")
    assert (uploaded["path"], uploaded["size_bytes"]) == ("/workspace/d/data.bin", 2)
    assert instance.download_file(session, "d/data.bin") == b"\0\xff"
    listed = instance.list_files(session)
    assert [entry["name"] for entry in listed["files"]] == ["d"] and listed["total_files"] == 1


def test_what_goes_wrong(instance, session):
    with pytest.raises(ValueError, match="curl"):
        instance.execute_command(session, "curl x", 30)
    with pytest.raises(ValueError, match="Empty command"):
        instance.execute_command(session, "", 30)
    with pytest.raises(ValueError, match="Invalid filename"):
        instance.upload_file(session, "../x", b"")
    with pytest.raises(FileNotFoundError):
        instance.download_file(session, "none")


def test_a_session_that_is_gone_is_told_before_all_else(instance, session):
    instance.cleanup_session(session)
    for use in (lambda: instance.execute_command(session, "ls", 30),
                lambda: instance.execute_command(session, "curl x", 30),
                lambda: instance.upload_file(session, "../x", b""),
                lambda: instance.download_file(session, "f"),
                lambda: instance.list_files(session)):
        with pytest.raises(SessionExpiredError, match=f"Session {session} not found or expired"):
            use()


def test_limits(binary, thread):
    """A pool that is exhausted, a file that is too large."""
    small = lib.Server(MAX_POOL_SIZE=1, POOL_SIZE=0, MIN_POOL_SIZE=0, MAX_FILE_SIZE_MB=1)
    try:
        client = threadbox.SandboxClient(server_url=f"http://127.0.0.1:{small.start().port}")
        instance = server.SandboxServer(client)
        session = instance.create_session("u", thread)["session_id"]
        with pytest.raises(Exception, match="Pool at max capacity"):
            instance.create_session("u", thread + "-other")
        with pytest.raises(ValueError, match="File size exceeds"):
            instance.upload_file(session, "big", bytes(2 << 20))
        small.close()
    finally:
        small.remove()


@pytest.fixture
def old_client(fresh, monkeypatch):
    """A dual-mode client that knows nothing of Threadbox and looks for a module ``server``."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return load("enhanced_client", ROOT / "tests" / "compat" / "clients" / "enhanced_client.py")


def test_an_unmodified_client_in_local_mode(old_client, thread, tmp_path):
    with old_client.SandboxClient(mode="local") as client:
        assert client.server is server.get_server_instance()
        assert client.get_or_create_session("user123", thread)["status"] == "created"
        client.execute("echo '{\"data\": [1,2,3]}' > data.json")
        assert client.execute("jq '.data | add' data.json")["stdout"] == "6\n"
        path = client.download_file("data.json", str(tmp_path / "d"))
        client.upload_file(path, "copy.json")
        assert client.list_files()["total_files"] == 2
        client.server.cleanup_session(client.session_id)
        assert client.execute("ls")["stdout"] == ""  # it made a new one
        with pytest.raises(ValueError, match="wget"):
            client.execute("wget x")
        with pytest.raises(FileNotFoundError):
            client.download_file("none")
    assert server.get_server_instance().get_session_by_thread(thread) is None


def test_its_self_test_and_its_batches(old_client, capsys):
    old_client.self_test(old_client.SandboxClient())
    told = capsys.readouterr().out
    assert "Hello from sandbox!" in told and told.count("(exit") == told.count("(exit 0")
    results = old_client.BatchSandboxClient().execute_batch(["echo 1 > f", "curl x", "cat f"])
    assert [result["exit_code"] for result in results] == [0, -1, 0]
