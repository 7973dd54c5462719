# SPDX-License-Identifier: Apache-2.0
"""The code of the integration guide of the enhanced second generation, section by section: the same
calls, in the same forms, with what the guide says comes of them."""

import pytest
import requests
from conftest import ROOT

from sandbox_client_v2 import SandboxClient, SessionExpiredError

SOURCE = ROOT / "sdk" / "compat" / "src"
CLIENT = str(SOURCE / "sandbox_client_v2.py")
MAX_TOTAL_FILES, MAX_WORKSPACE_SIZE_MB = 1000, 500


@pytest.fixture
def client(arguments, thread):
    with SandboxClient(**arguments) as made:
        made.get_or_create_session(user_id="user123", thread_id=thread)
        yield made


def test_basic_usage(arguments, thread, capsys):
    """Quick Start: both modes; SDK Modes: the same constructors."""
    client = SandboxClient(**arguments)
    client.get_or_create_session(user_id="user123", thread_id=thread)
    client.execute("echo '{\"data\": [1,2,3]}' > data.json")
    result = client.execute("jq '.data | add' data.json")
    print(result['stdout'])
    files = client.list_files()
    print(f"Total files: {files['total_files']}")
    result = client.execute("ls -lh /workspace")
    assert "data.json" in result['stdout']
    client.close_session()
    assert capsys.readouterr().out == "6\n\nTotal files: 1\n"


class BashTool:
    """AI Agent Integration: a tool that keeps a session for each conversation."""

    def __init__(self, mode: str = "local", server_url: str = None):  # noqa: RUF013
        self.mode = mode
        self.server_url = server_url
        self.client = SandboxClient(mode=mode, server_url=server_url)

    def execute(self, command, user_id, thread_id, timeout=30):
        self.client.get_or_create_session(
            user_id=user_id, thread_id=thread_id, timeout_minutes=30)
        result = self.client.execute(command, timeout=timeout, auto_retry=True)
        return {
            'exit_code': result['exit_code'],
            'stdout': result['stdout'],
            'stderr': result['stderr'],
            'execution_time_ms': result.get('execution_time_ms', 0),
        }

    def upload_file(self, file_path, user_id, thread_id, remote_name=None):
        self.client.get_or_create_session(user_id=user_id, thread_id=thread_id)
        return self.client.upload_file(file_path, remote_name)

    def download_file(self, remote_name, user_id, thread_id, local_path=None):
        self.client.get_or_create_session(user_id=user_id, thread_id=thread_id)
        return self.client.download_file(remote_name, local_path)

    def list_files(self, user_id, thread_id):
        self.client.get_or_create_session(user_id=user_id, thread_id=thread_id)
        return self.client.list_files()

    def cleanup_session(self, thread_id=None):
        if thread_id:
            self.client.thread_id = thread_id
        self.client.close_session()


def test_the_bash_tool(arguments, thread, tmp_path, monkeypatch):
    """AI Agent Integration: its usage, for two conversations of one user."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_text('{"data": [4, 5]}')
    tool, who = BashTool(**arguments), {"user_id": "user123", "thread_id": thread}
    uploaded = tool.upload_file("in.json", remote_name="input.json", **who)
    assert uploaded == {"status": "uploaded", "filename": "input.json",
                        "path": "/workspace/input.json", "size_bytes": 16}
    result = tool.execute(command="jq '.data | length' input.json", **who)
    assert (f"Exit code: {result['exit_code']}", f"Output: {result['stdout']}") == (
        "Exit code: 0", "Output: 2\n")
    assert tool.list_files("user123", thread + "-other")["total_files"] == 0
    assert tool.list_files(**who)["total_files"] == 1
    assert tool.download_file("input.json", **who) == str(tmp_path / "input.json")
    assert (tmp_path / "input.json").read_text() == '{"data": [4, 5]}'
    tool.cleanup_session(thread)
    assert tool.client.find_session(thread) is None
    tool.cleanup_session(thread + "-other")
    assert tool.client.find_session(thread + "-other") is None
    tool.cleanup_session()  # nothing is left: no error


def test_one_session_for_a_conversation(arguments, thread):
    """Best Practices 1: also when every command asks for it anew."""
    client = SandboxClient(**arguments)
    for command in ("echo a > f", "cat f"):
        client.get_or_create_session(user_id="user123", thread_id=thread)
        result = client.execute(command)
    assert result["stdout"] == "a\n"
    client.close_session()


def handled(client, command, auto_retry=True):
    """Best Practices 2: the exceptions, in the guide's order."""
    try:
        client.execute(command, auto_retry=auto_retry)
    except SessionExpiredError:
        return "expired"
    except requests.HTTPError as e:
        return f"HTTP error: {e.response.status_code}"
    except ValueError as e:
        return f"Invalid command: {e}"
    except Exception as e:
        return f"Execution failed: {e}"
    return "ran"


def test_error_handling(client, mode, thread, arguments):
    assert handled(client, "ls") == "ran"
    told = handled(client, "wget https://example.com/data.json")
    if mode == "remote" and not told.startswith("Invalid"):
        assert told == "HTTP error: 400"
    else:
        assert "wget" in told and told.startswith("Invalid command: Command")
    other = SandboxClient(**arguments)
    other.session_by_id(client.session_id).close()
    assert handled(client, "ls", auto_retry=False) == "expired"
    assert handled(client, "ls", auto_retry=True) == "ran"
    assert client.find_session(thread).session_id == client.session_id


def test_a_server_that_is_down_is_the_last_case():
    """Best Practices 2: what is neither."""
    client = SandboxClient(mode="remote", server_url="http://127.0.0.1:9")
    with pytest.raises(requests.ConnectionError):
        client.get_or_create_session(user_id="u", thread_id="t")


def test_file_operations(client, tmp_path):
    """Best Practices 3."""
    (tmp_path / "data.csv").write_text("".join(f"{n}\n" for n in range(9)))
    client.upload_file(str(tmp_path / "data.csv"), remote_name="input.csv")
    result = client.execute("head -5 input.csv")
    assert result["stdout"] == "0\n1\n2\n3\n4\n"
    client.execute("tail -1 input.csv > output.csv")
    path = client.download_file("output.csv", local_path=str(tmp_path / "output.csv"))
    assert path == str(tmp_path / "output.csv") and (tmp_path / "output.csv").read_text() == "8\n"
    with pytest.raises(FileNotFoundError):
        client.upload_file(str(tmp_path / "none.csv"))
    with pytest.raises(FileNotFoundError):
        client.download_file("none.csv")


def test_cleanup(arguments, thread):
    """Best Practices 4: a context manager."""
    with SandboxClient(**arguments) as client:
        client.get_or_create_session(user_id="...", thread_id=thread)
        client.execute("ls -lh")
    with client:  # again
        assert client.session_id is None and client.find_session(thread) is None
        client.get_or_create_session(user_id="...", thread_id=thread)
        assert client.execute("ls")["stdout"] == ""


def test_resource_limits(client):
    """Best Practices 5, and the appendix: the keys and types of each answer."""
    result = client.execute("echo data > f")
    assert {key: type(result[key]) for key in ("exit_code", "stdout", "stderr",
                                               "execution_time_ms")} == {
        "exit_code": int, "stdout": str, "stderr": str, "execution_time_ms": int}
    files = client.list_files()
    assert f"Files: {files['total_files']}/{MAX_TOTAL_FILES}" == "Files: 1/1000"
    size = f"{files['total_size_bytes'] / 1024 / 1024:.2f} MB / {MAX_WORKSPACE_SIZE_MB} MB"
    assert size == "0.00 MB / 500 MB"
    assert files["session_id"] == client.session_id and files["workspace_dir"] == "/workspace"
    entry = files["files"][0]
    assert (entry["name"], entry["size_bytes"]) == ("f", 5)
    assert entry["permissions"].startswith("-rw") and entry["modified"].endswith("Z")


ALLOWED = [
    "jq", "awk", "grep", "sed", "sort", "uniq", "head", "tail", "wc", "cut", "tr", "cat", "echo",
    "date", "find", "ls", "python3", "python", "bc", "comm", "diff", "basename", "dirname", "file",
    "stat", "tee"]
FORBIDDEN = ["rm", "mv", "dd", "curl", "wget", "ssh", "sudo", "chmod", "chown"]


def test_which_commands_may_run(client):
    """Best Practices 6: both lists. A program that this machine lacks is allowed all the same."""
    for name in ALLOWED:
        client.execute(f"{name} --help > help.txt 2>&1", timeout=10)
    for name in FORBIDDEN:
        with pytest.raises(ValueError, match=name):
            client.execute(f"{name} x")


def test_no_session_yet(arguments, thread):
    """Troubleshooting: "No active session"."""
    client = SandboxClient(**arguments)
    with pytest.raises(ValueError, match="No active session"):
        client.execute("ls")
    client.get_or_create_session(user_id="...", thread_id=thread)
    assert client.execute("echo 1 && echo 2 && echo 3")["stdout"] == "1\n2\n3\n"  # "Slow…"
    client.close_session()


def test_an_expired_session(client):
    """Troubleshooting: session expired."""
    client.session_by_id(client.session_id).close()
    assert client.execute("echo again", auto_retry=True)["stdout"] == "again\n"


def test_only_the_path_changes(arguments, thread, program, tmp_path):
    """Troubleshooting: "Failed to import server"; and what existing programs do about it."""
    (tmp_path / "agent.py").write_text(f"""
import sys
sys.path.insert(0, {str(SOURCE)!r})
import sandbox_client_v2
from sandbox_client_v2 import SandboxClient

client = SandboxClient(**{arguments!r})
client.get_or_create_session(user_id="u", thread_id={thread!r})
print(client.execute("echo hello")["stdout"], sandbox_client_v2.__file__)
client.close_session()
""")
    done = program(str(tmp_path / "agent.py"))
    assert (done.stdout, done.returncode) == (f"hello\n {CLIENT}\n", 0), done


def test_from_cloudflare(arguments, thread):
    """Migration Guide: after a worker."""
    client = SandboxClient(**arguments)
    client.get_or_create_session(user_id="...", thread_id=thread)
    client.execute("echo '{\"data\": [1,2,3]}' > input.json")
    result = client.execute("jq '.data | add' input.json")
    assert result["stdout"] == "6\n"
    # What was a work-around there is no error here.
    assert client.execute("""jq '.data | add' <<< '{"data": [1,2,3]}'""")["stdout"] == "6\n"
    client.close_session()


def test_its_command_line(arguments, program):
    words = [CLIENT, "--mode", arguments["mode"]]
    if "server_url" in arguments:
        words += ["--url", arguments["server_url"]]
    done = program(*words, "echo out; echo err >&2; false")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 1), done
    done = program(*words, "--test")
    assert done.returncode == 0 and "Hello from sandbox!" in done.stdout, done
    assert program(CLIENT).returncode == 1
