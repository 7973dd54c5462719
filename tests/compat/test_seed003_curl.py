# SPDX-License-Identifier: Apache-2.0
"""The lines of the /api system's architecture page for curl, as they are written there: against
`PORT=8000 threadbox serve`, with the ids that were returned in place of the page's."""
import json
import socket
import subprocess
import urllib.request

import pytest

CREATE = r"""
curl -X POST http://localhost:8000/api/sessions \
  -d '{"environment": "Python3", "provider": "e2b"}'
"""
EXECUTE = r"""
curl -X POST http://localhost:8000/api/e2b/execute \
  -d '{"session_id": "abc-123", "code": "print(42)"}'
"""
DESTROY = "curl -X DELETE http://localhost:8000/api/sessions/abc-123?sandbox_id=xyz"


def curl(line, **ids):
    """What it printed. curl takes any status for success: the answer must be looked at."""
    for name, value in ids.items():
        assert name.replace("_", "-") in line, "the page names another id"
        line = line.replace(name.replace("_", "-"), value)
    done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, data, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def page(start_server):
    """The address of the server that the page speaks of."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 8000))
        except OSError:
            pytest.skip("somebody has port 8000, which the page names")
    return start_server(PORT=8000)


def test_create_and_destroy(page):
    made = curl(CREATE)
    assert set(made) >= {"session_id", "sandbox_id", "provider", "status", "url"}
    assert made["status"] == "running"
    ids = {"abc_123": made["session_id"], "xyz": made["sandbox_id"]}
    assert curl(DESTROY, **ids) == {"status": "deleted", "session_id": made["session_id"]}
    assert "Session not found" in curl(DESTROY, **ids)["detail"]


def test_execute(page):
    made = curl(CREATE)
    answer = curl(EXECUTE, abc_123=made["session_id"])
    assert set(answer) >= {"stdout", "stderr", "error", "results", "artifacts"}
    assert (answer["stdout"], answer["stderr"], answer["error"]) == ("42\n", "", None)


def test_files_as_the_flow_of_the_page_has_them(page):
    session = curl(CREATE)["session_id"]
    listed = ask(f"{page}/api/e2b/files/{session}")
    assert listed["files"] == ["data", "outputs", "src", "tmp"]
    body = {"session_id": session, "file_path": "data/x.txt", "content": "aGk="}
    assert ask(page + "/api/e2b/files", body)["status"] == "success"
    read = ask(f"{page}/api/e2b/files/{session}/data/x.txt")
    assert (read["content"], read["encoding"]) == ("aGk=", "base64")
    assert ask(f"{page}/api/sessions/{session}")["state"] == {}
