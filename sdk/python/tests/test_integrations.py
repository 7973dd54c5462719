# SPDX-License-Identifier: Apache-2.0
"""What needs no framework: BashTool, prompts, and what is said when a framework is missing."""

import subprocess
import sys
import threading

import pytest

from threadbox import SandboxClient, integrations
from threadbox.integrations import BashTool, prompts


@pytest.fixture
def tool(url):
    made = BashTool(server_url=url, policy="open")
    yield made
    made.close()


def test_files_stay_in_their_conversation(tool, thread):
    first = tool.execute("echo '[1,2,3]' > data.json", user_id="u", thread_id=thread)
    assert set(first) == {"exit_code", "stdout", "stderr", "execution_time_ms"}
    assert tool.execute("cat data.json", "u", thread)["stdout"] == "[1,2,3]\n"
    assert tool.execute("cat data.json", "u", f"{thread}-2")["exit_code"] == 1
    tool.cleanup_session(thread)
    assert tool.execute("cat data.json", "u", thread)["exit_code"] == 1
    for one in (thread, f"{thread}-2"):
        tool.cleanup_session(one)


def test_files_go_in_and_out(tool, thread, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n")
    assert tool.upload_file(str(tmp_path / "in.csv"), "u", thread)["status"] == "uploaded"
    tool.execute("sed s/a/A/ in.csv > out.csv", "u", thread)
    local = tool.download_file("out.csv", "u", thread, str(tmp_path / "out.csv"))
    assert local == str(tmp_path / "out.csv") and (tmp_path / "out.csv").read_text() == "A,b\n"
    names = {one["name"] for one in tool.list_files("u", thread)["files"]}
    assert names == {"in.csv", "out.csv"}
    tool.cleanup_session(thread)


def test_conversations_run_at_once(tool, thread):
    seen = {}

    def work(n):
        for _ in range(5):
            tool.execute(f"echo {n} >> mine", "u", f"{thread}-{n}")
        seen[n] = tool.execute("sort -u mine", "u", f"{thread}-{n}")["stdout"].strip()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert seen == {n: str(n) for n in range(6)}
    for n in range(6):
        tool.cleanup_session(f"{thread}-{n}")


def test_a_tool_without_a_thread_is_a_mistake(tool, url):
    with pytest.raises(ValueError, match="thread_id is empty"):
        tool.execute("true", "u", "")
    with pytest.raises(TypeError, match="either a client"):
        BashTool(client=SandboxClient(server_url=url), server_url=url)


def test_prompts_of_before_become_those_of_now():
    old = f"You are helpful.\n\n{prompts.SYSTEM_PROMPT_BEFORE}\n{prompts.FILES_PROMPT_BEFORE}\nBye."
    new = prompts.update_prompt(old)
    assert "heredoc" not in new and "fresh container" not in new
    assert prompts.SYSTEM_PROMPT.strip() in new and prompts.FILES_PROMPT.strip() in new
    assert new.startswith("You are helpful.") and new.endswith("Bye.")
    assert prompts.update_prompt(new) == new
    appended = prompts.update_prompt("You are helpful.", timeout_minutes=5)
    assert appended.startswith("You are helpful.\n\nThe bash tool")
    assert "5 minutes of inactivity" in appended and prompts.update_prompt("") == (
        prompts.SYSTEM_PROMPT
    )


def test_what_is_missing_is_named_with_its_remedy():
    """In a Python that finds neither framework, whatever is installed here."""
    program = """
import sys
for name in ("langchain", "deepagents"):
    sys.modules[name] = None
from threadbox import integrations
assert integrations.BashTool and "langchain_core" not in sys.modules
for name in ("BASH_TOOLS", "ThreadboxSandbox"):
    try:
        getattr(integrations, name)
    except ImportError as problem:
        print(problem)
"""
    words = [sys.executable, "-c", program]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    first, second = run.stdout.splitlines()
    assert "not installed" in first and "pip install 'threadbox[langchain]'" in first
    assert "not installed" in second and "pip install 'threadbox[deepagents]'" in second
    with pytest.raises(AttributeError):
        _ = integrations.Nothing
