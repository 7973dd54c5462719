# SPDX-License-Identifier: Apache-2.0
"""The orchestrator of the /api system, over sandboxes of Threadbox."""

import json
import os
import urllib.request

import pytest
import threadbox

from orchestrator.e2b_manager import E2BManager, E2BSandboxManager
from orchestrator.lifecycle import Lifecycle
from orchestrator.sandbox_manager import SandboxManager
from orchestrator.session_manager import SessionManager
from orchestrator.state_manager import StateManager
from orchestrator.unified_manager import UnifiedSandboxManager

pytestmark = pytest.mark.usefixtures("fresh")


def alive(sandbox_id):
    try:
        return threadbox.SandboxClient().session_by_id(sandbox_id).status()["status"] == "active"
    except threadbox.SessionExpiredError:
        return False


def test_integration_points(tmp_path, monkeypatch):
    """The guide's example for agent developers. Its middle part waits for code execution."""
    monkeypatch.chdir(tmp_path)
    lifecycle = Lifecycle(
        storage_path="./storage", runtime_path="./sandbox_runtime", e2b_api_key="your_key")
    session = lifecycle.start(
        agent_config={"type": "code_executor"}, environment="Python3", provider="e2b")
    assert session.keys() == {"session_id", "sandbox_id", "provider", "status", "url"}
    assert (session["provider"], session["status"], session["url"]) == ("e2b", "running", None)
    assert (tmp_path / f"storage/sessions/session_{session['session_id']}").is_dir()
    assert alive(session["sandbox_id"])
    def execute(code):
        return lifecycle.sandbox_mgr.execute_code(session_id=session["session_id"], code=code)

    assert execute("print('Hello World'); x = 41") == {
        "stdout": "Hello World\n", "stderr": "", "error": None, "results": [], "artifacts": []}
    assert execute("x + 1")["results"] == [{"text": "42", "is_main_result": True}]
    assert execute("1 / 0")["error"]["name"] == "ZeroDivisionError"
    assert lifecycle.stop(session["session_id"], session["sandbox_id"]) is True
    assert not alive(session["sandbox_id"])
    assert lifecycle.stop(session["session_id"], session["sandbox_id"]) is True


def names_of(manager, thread):
    """Without the directories that a server's environments begin with."""
    listed = manager.list_files(thread)
    assert len(listed) == len(set(listed))
    return set(listed) - {"data", "outputs", "src", "tmp"}


def test_a_server_makes_it_of_the_environment(tmp_path):
    url = os.environ.get("SANDBOX_URL")
    if not url:
        pytest.skip("environments are a server's")
    lifecycle = Lifecycle(str(tmp_path / "s"), str(tmp_path / "r"))
    started = lifecycle.start({"type": "code_executor"}, "Python3", provider="docker")
    with urllib.request.urlopen(f"{url}/api/sessions/{started['sandbox_id']}") as answer:
        found = json.load(answer)
    assert (found["environment"], found["provider"]) == ("Python3", "native")
    lifecycle.stop(started["session_id"], started["sandbox_id"])


def test_provider_abstraction(thread):
    """Key Design Principles 1: the same call for both providers, and sandboxes apart."""
    manager = UnifiedSandboxManager()
    one, two = thread + "-1", thread + "-2"
    e2b = manager.start_sandbox(one, "Python3", provider="e2b")
    docker = manager.start_sandbox(two, "python:latest", provider="docker")
    assert (e2b["provider"], e2b["session_id"], e2b["url"]) == ("e2b", one, None)
    assert docker == {"sandbox_id": docker["sandbox_id"], "provider": "docker", "session_id": two}
    assert e2b["sandbox_id"] != docker["sandbox_id"]
    assert (manager.get_provider(one), manager.get_provider(two)) == ("e2b", "docker")
    assert manager.get_provider("other") is None
    with pytest.raises(NotImplementedError, match="e2b only"):
        manager.execute_code(two, "1")
    with pytest.raises(NotImplementedError, match="e2b only"):
        manager.execute_code("other", "1")
    assert manager.stop_sandbox(two, "another") is False and alive(docker["sandbox_id"])
    for session, started in ((one, e2b), (two, docker)):
        assert manager.stop_sandbox(session, started["sandbox_id"]) is True
        assert not alive(started["sandbox_id"]) and manager.get_provider(session) is None
        assert manager.stop_sandbox(session, started["sandbox_id"]) is False


def test_an_unknown_provider_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="Unknown provider: vm"):
        UnifiedSandboxManager().start_sandbox("s", "Python3", provider="vm")
    lifecycle = Lifecycle(str(tmp_path / "s"), str(tmp_path / "r"))
    with pytest.raises(ValueError, match="Unknown provider: vm"):
        lifecycle.start({}, "Python3", provider="vm")
    noted = [json.loads(path.read_text()) for path in tmp_path.rglob("session.json")]
    assert len(noted) == 1 and "destroyed_at" in noted[0]


def test_the_default_provider_is_docker(tmp_path):
    lifecycle = Lifecycle(str(tmp_path), str(tmp_path))
    session = lifecycle.start({"type": "code_executor"}, "sandbox-python:latest")
    assert session["provider"] == "docker" and session["url"] is None
    lifecycle.stop(session["session_id"], session["sandbox_id"])
    assert not alive(session["sandbox_id"])


def test_files(thread):
    manager = E2BSandboxManager(api_key="k")
    assert E2BManager is E2BSandboxManager
    with pytest.raises(ValueError, match=f"No active sandbox for session {thread}"):
        manager.list_files(thread)
    manager.start_sandbox(thread)
    assert names_of(manager, thread) == set()
    manager.write_file(thread, "data/in.bin", b"\0\xff")
    manager.write_file(thread, "/workspace/text.txt", "text")
    assert names_of(manager, thread) | {"data"} == {"data", "text.txt"}
    assert manager.list_files(thread, "/workspace/data") == ["in.bin"]
    assert manager.read_file(thread, "/workspace/data/in.bin") == b"\0\xff"
    assert manager.read_file(thread, "text.txt") == b"text"
    with pytest.raises(FileNotFoundError):
        manager.read_file(thread, "none")
    for path in ("../x", "/etc/passwd"):
        with pytest.raises(ValueError, match="Invalid filename"):
            manager.read_file(thread, path)
    assert manager.stop_sandbox(thread) is True
    assert manager.stop_sandbox(thread) is False


def test_all_names_of_a_directory(thread):
    """However many pages they take."""
    manager = E2BSandboxManager()
    sandbox = manager.start_sandbox(thread)
    box = threadbox.SandboxClient().session_by_id(sandbox)
    box.execute("python3 -c 'for n in range(1500): open(str(n), \"w\")'")
    assert names_of(manager, thread) == {str(n) for n in range(1500)}
    manager.stop_sandbox(thread)


def test_the_manager_of_containers(thread):
    manager = SandboxManager()
    sandbox = manager.start_sandbox(thread, "python:latest")
    assert manager.start_sandbox(thread, "python:latest") == sandbox  # it has one already
    assert alive(sandbox)
    assert manager.stop_sandbox("other") is False
    assert manager.stop_sandbox(sandbox) is True and not alive(sandbox)


def test_a_bad_environment(thread):
    with pytest.raises(ValueError, match="environment"):
        SandboxManager().start_sandbox(thread, "")


def test_states_of_sessions_are_apart(tmp_path):
    states = StateManager(str(tmp_path))
    assert states.read_state("a") == {}
    assert states.write_state("a", {"step": 1, "notes": ["ü"]}) is True
    states.write_state("b", {"step": 2})
    assert StateManager(str(tmp_path)).read_state("a") == {"step": 1, "notes": ["ü"]}
    with pytest.raises(TypeError):
        states.write_state("a", {"step": object()})
    assert states.read_state("a")["step"] == 1
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["state.json", "state.json"]


@pytest.mark.parametrize("bad", ["", ".", "..", "../a", "a/b", "/a", "a\0", "a" * 129])
def test_session_ids_are_no_paths(tmp_path, bad):
    for use in (lambda: StateManager(str(tmp_path)).read_state(bad),
                lambda: StateManager(str(tmp_path)).write_state(bad, {}),
                lambda: SessionManager(str(tmp_path)).destroy_session(bad),
                lambda: SandboxManager().start_sandbox(bad, "Python3")):
        with pytest.raises(ValueError, match="Invalid session id"):
            use()
    assert list(tmp_path.iterdir()) == []


def test_notes_of_sessions(tmp_path):
    manager = SessionManager(str(tmp_path))
    session = manager.create_session({"type": "code_executor"})
    file = tmp_path / "sessions" / f"session_{session}" / "session.json"
    noted = json.loads(file.read_text())
    assert (noted["session_id"], noted["agent_config"]) == (session, {"type": "code_executor"})
    assert manager.destroy_session(session) is True
    assert json.loads(file.read_text())["agent_config"] == {"type": "code_executor"}
    assert manager.destroy_session("unknown") is True
