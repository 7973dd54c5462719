# SPDX-License-Identifier: Apache-2.0
"""The deepagents backend beyond LangChain's standard tests: the rules of 0.7, threads, expiry, what
is outside of the workspace, and that nothing runs in the sandbox for the sake of files."""

import asyncio
import pathlib
import re
import sys
import uuid

import pytest

pytest.importorskip("deepagents")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

from deepagents import create_deep_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from scripted_model import ScriptedModel, call, last_result

from threadbox import SandboxClient, UnsupportedError
from threadbox.integrations.deepagents import ThreadboxSandbox, make_copy_tool


@pytest.fixture
def client(url):
    made = SandboxClient(server_url=url, policy="open")
    yield made
    made.close()


@pytest.fixture
def sandbox(client, thread):
    made = ThreadboxSandbox(client, thread, rules="0.7")
    yield made
    made.close()


def paths(found):
    assert found.error is None
    return sorted(one["path"] for one in found.matches)


def test_a_write_replaces(sandbox):
    assert sandbox.write("/workspace/a.txt", "one").error is None
    assert sandbox.write("/workspace/a.txt", "two").error is None
    assert sandbox.read("/workspace/a.txt").file_data["content"] == "two"
    sandbox.execute("mkdir /workspace/d")
    refused = sandbox.write("/workspace/d", "x").error
    assert refused and "already exists" not in refused


def test_a_glob_finds_files_by_their_absolute_paths(sandbox):
    for name in ("top.py", "src/app/main.py", ".github/ci.yml", ".env", "src/.hid/x.py", "a.txt"):
        sandbox.write(f"/workspace/{name}", "x")
    everywhere = ["/workspace/src/.hid/x.py", "/workspace/src/app/main.py", "/workspace/top.py"]
    assert paths(sandbox.glob("*.py", "/workspace")) == everywhere
    assert paths(sandbox.glob("*.py")) == paths(sandbox.glob("*.py", "/")) == everywhere
    assert paths(sandbox.glob("/*.py", "/workspace")) == ["/workspace/top.py"]
    assert paths(sandbox.glob("src/**/*.py")) == ["/workspace/src/app/main.py"]
    assert paths(sandbox.glob("*.yml")) == ["/workspace/.github/ci.yml"]
    assert paths(sandbox.glob("**/*.yml")) == []
    assert paths(sandbox.glob(".env")) == ["/workspace/.env"]
    assert paths(sandbox.glob("*.{txt,md}")) == ["/workspace/a.txt"]
    assert "/workspace/src" not in paths(sandbox.glob("*"))
    assert "/workspace/.env" not in paths(sandbox.glob("*"))
    assert sandbox.glob("../*").matches is None
    assert "path_not_found" in sandbox.glob("*", "/workspace/none").error


def test_pages_of_a_file_say_where_they_are(sandbox):
    sandbox.write("/workspace/n", "".join(f"{n}\n" for n in range(1, 11)))
    page = sandbox.read("/workspace/n", offset=2, limit=3)
    assert page.file_data["content"] == "3\n4\n5"
    assert (page.start_line, page.end_line, page.next_offset) == (3, 5, 5)
    last = sandbox.read("/workspace/n", offset=8)
    assert (last.end_line, last.next_offset, last.total_lines) == (10, None, 10)
    assert sandbox.read("/workspace/n", limit=0).no_lines_requested
    assert sandbox.read("/workspace/n", offset=-3, limit=1).file_data["content"] == "1"
    assert "exceeds file length" in sandbox.read("/workspace/n", offset=10).error


def test_long_pages_go_on_where_they_were_cut(sandbox):
    lines = [f"{n:04} " + "x" * 1000 for n in range(1500)]
    sandbox.write("/workspace/long", "\n".join(lines))
    seen, offset = [], 0
    while offset is not None:
        page = sandbox.read("/workspace/long", offset=offset)
        shown = page.file_data["content"].split("\n")
        seen += shown[: page.end_line - page.start_line + 1]
        offset = page.next_offset
    assert seen == lines


def test_text_is_told_from_bytes(sandbox):
    sandbox.upload_files([("/workspace/odd.txt", b"\xff\xfe\x00x")])
    sandbox.upload_files([("/workspace/pdf.pdf", b"%PDF")])
    assert sandbox.read("/workspace/odd.txt").file_data["encoding"] == "base64"
    assert sandbox.read("/workspace/pdf.pdf").file_data["encoding"] == "base64"
    sandbox.write("/workspace/u.txt", "a \ufffd in a text")
    assert sandbox.read("/workspace/u.txt").file_data["content"] == "a \ufffd in a text"
    large = 600_000
    sandbox.upload_files([("/workspace/large.log", "é\n".encode("latin-1") * large)])
    assert sandbox.read("/workspace/large.log", limit=1).file_data["content"] == "\ufffd"
    sandbox.upload_files([("/workspace/large.dat", b"\xff\x00\n" * large)])
    assert "exceeds maximum preview size" in sandbox.read("/workspace/large.dat").error


def test_ends_of_lines_survive_an_edit(sandbox):
    sandbox.upload_files([("/workspace/w.txt", b"one\r\ntwo\r\nthree\r\n")])
    assert sandbox.read("/workspace/w.txt").file_data["content"] == "one\ntwo\nthree"
    assert sandbox.edit("/workspace/w.txt", "one\ntwo", "1\n2").occurrences == 1
    assert sandbox.download_files(["/workspace/w.txt"])[0].content == b"1\r\n2\r\nthree\r\n"


def test_an_ambiguous_edit_names_the_lines(sandbox):
    sandbox.write("/workspace/e", "a\nb\na\n")
    assert "lines 1, 3" in sandbox.edit("/workspace/e", "a", "x").error
    assert sandbox.edit("/workspace/e", "", "x").error


def test_grep_is_bounded_and_skips_what_git_packed(sandbox):
    for n in range(5):
        sandbox.write(f"/workspace/g{n}.txt", "needle\n")
    sandbox.write("/workspace/.git/packed", "needle\n")
    found = sandbox.grep("needle", "/workspace")
    assert len(found.matches) == 5 and not found.truncated
    few = sandbox.grep("needle", max_count=3)
    assert len(few.matches) == 3 and few.truncated
    assert not sandbox.grep("needle", max_count=5).truncated
    one = sandbox.grep("needle", "/workspace/g1.txt")
    assert [match["path"] for match in one.matches] == ["/workspace/g1.txt"]
    assert len(sandbox.grep("needle", "/workspace/.git").matches) == 1
    sandbox.write("/workspace/sub/g0.txt", "needle\n")
    assert len(sandbox.grep("needle", glob="g0.txt").matches) == 2
    assert len(sandbox.grep("needle", glob="/g0.txt").matches) == 1
    assert len(sandbox.grep("needle", glob="sub/*.txt").matches) == 1


def test_what_is_deleted_is_gone(sandbox):
    sandbox.write("/workspace/t/a/b", "x")
    assert sandbox.delete("/workspace/t").error is None
    assert "not found" in sandbox.delete("/workspace/t").error
    assert sandbox.delete("/workspace").error


def test_the_top_shows_the_workspace(sandbox):
    assert sandbox.ls("/").entries == [{"path": "/workspace", "is_dir": True}]
    sandbox.write("/workspace/f", "12345")
    (entry,) = sandbox.ls("/workspace/").entries
    assert entry["path"] == "/workspace/f" and entry["size"] == 5 and not entry["is_dir"]
    assert sandbox.ls("/workspace/f").error and sandbox.ls("/workspace/none").error


def test_paths_outside_go_by_commands(sandbox):
    data = bytes(range(256)) * 20_000
    assert sandbox.upload_files([("/tmp/new/b.bin", data)])[0].error is None
    assert sandbox.download_files(["/tmp/new/b.bin"])[0].content == data
    assert sandbox.write("/tmp/t.txt", "one\ntwo\n").error is None
    assert sandbox.edit("/tmp/t.txt", "two", "2").error is None
    assert sandbox.read("/tmp/t.txt").file_data["content"] == "one\n2"
    assert "/tmp/t.txt" in [one["path"] for one in sandbox.ls("/tmp").entries]
    assert sandbox.download_files(["/tmp/none", "/tmp"]) and sandbox.execute("ls -A").output == ""
    assert [one.error for one in sandbox.download_files(["/tmp/none", "/tmp"])] == [
        "file_not_found",
        "is_directory",
    ]
    assert sandbox.upload_files([("/usr/x", b"")])[0].error == "permission_denied"


def test_a_policy_without_python_has_files(client, thread):
    strict = ThreadboxSandbox(client, thread, policy="strict", rules="0.7")
    assert strict.execute("curl http://example.com").exit_code == 126
    assert "not in whitelist" in strict.execute("perl -e 1").output
    before = strict.session().execute("true")["process_id"]
    assert strict.write("/workspace/rm.txt", "rm -rf").error is None
    assert strict.edit("/workspace/rm.txt", "rm", "mv").error is None
    assert paths(strict.glob("*.txt")) == ["/workspace/rm.txt"]
    assert strict.grep("mv").matches[0]["line"] == 1
    assert strict.session().execute("true")["process_id"] == before + 1
    strict.close()


def test_commands_that_end_badly_say_how(sandbox):
    done = sandbox.execute("echo out; echo err >&2; exit 3")
    assert done.exit_code == 3 and done.output == "out\nerr\n"
    late = sandbox.execute("sleep 60", timeout=1)
    assert late.exit_code == 124 and "killed after 1 second" in late.output
    assert sandbox.execute("  ").exit_code == 126


def test_a_session_that_is_gone_comes_back(client, sandbox):
    sandbox.write("/workspace/f", "x")
    first = sandbox.session().session_id
    client.session(sandbox.id).close()
    assert "file_not_found" in sandbox.read("/workspace/f").error
    assert sandbox.session().session_id != first
    client.session(sandbox.id).close()
    assert sandbox.write("/workspace/g", "y").error is None
    assert sandbox.execute("cat g").output == "y"


def test_one_backend_serves_the_threads_of_a_graph(client):
    backend = ThreadboxSandbox(client)
    with pytest.raises(ValueError, match="whose sandbox"):
        backend.execute("true")

    def work(state):
        before = backend.execute("cat name 2>/dev/null").output
        backend.write("/workspace/name", backend.id)
        return {"messages": [("ai", before or "none")]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", RunnableLambda(work))
    graph.add_edge(START, "work")
    app = graph.compile()
    one, two = (f"graph-{uuid.uuid4().hex}" for _ in range(2))

    def said(thread):
        config = {"configurable": {"thread_id": thread}}
        return app.invoke({"messages": []}, config)["messages"][-1].content

    assert [said(one), said(two), said(one), said(two)] == ["none", "none", one, two]
    for thread in (one, two):
        ThreadboxSandbox(client, thread).close()


def test_async_calls_go_side_by_side(sandbox):
    async def test():
        names = [f"/workspace/p{n}" for n in range(8)]
        await asyncio.gather(*(sandbox.awrite(name, name) for name in names))
        read = await asyncio.gather(*(sandbox.aread(name) for name in names))
        assert [one.file_data["content"] for one in read] == names
        assert (await sandbox.adelete(names[0])).error is None
        assert len((await sandbox.als("/workspace")).entries) == 7
        assert (await sandbox.aedit(names[1], "p1", "P1")).occurrences == 1
        assert paths(await sandbox.aglob("p[23]")) == names[2:4]
        assert len((await sandbox.agrep("workspace")).matches) == 7

    asyncio.run(test())


def test_a_copy_tool_says_what_it_did(sandbox):
    copy = make_copy_tool(sandbox)
    sandbox.upload_files([("/workspace/a", b"\x00\xff")])
    told = copy.invoke({"source": "/workspace/a", "target": "/workspace/b/c"})
    assert "copied 2 bytes" in told
    assert sandbox.download_files(["/workspace/b/c"])[0].content == b"\x00\xff"
    lost = copy.invoke({"source": "/workspace/x", "target": "/workspace/y"})
    assert lost == "Error: /workspace/x: file_not_found"


def test_what_deepagents_puts_aside_is_found_again(sandbox):
    assert sandbox.write("/large_tool_results/c1", "a\nneedle\n").error is None
    assert sandbox.read("/large_tool_results/c1", offset=1).file_data["content"] == "needle"
    (match,) = sandbox.grep("needle", "/large_tool_results").matches
    assert sandbox.read(match["path"]).error is None
    assert sandbox.execute("cat .agent/large_tool_results/c1").output == "a\nneedle\n"


def test_long_output_does_not_reach_the_model_but_can_be_read(client, thread):
    def path_of(messages):
        told = last_result(messages)
        assert len(told) < 20_000
        (path,) = set(re.findall(r"/large_tool_results/[\w-]+", told))
        return call("read_file", file_path=path, offset=99_990, limit=5)

    script = [call("execute", command="seq 100000"), path_of, AIMessage("done")]
    backend = ThreadboxSandbox(client, thread)
    agent = create_deep_agent(model=ScriptedModel(script=[script]), backend=backend)
    state = agent.invoke({"messages": [("user", "count")]})
    assert "99993" in last_result(state["messages"])
    backend.close()


def test_rules_are_those_of_the_installed_version(monkeypatch, client):
    for version, rules in (("0.6.12", "0.6"), ("0.7.0", "0.7"), ("1.0.1", "0.7")):
        monkeypatch.setattr("importlib.metadata.version", lambda _, answer=version: answer)
        assert ThreadboxSandbox(client, "x").rules == rules


def test_an_engine_without_file_operations_has_commands(sandbox, monkeypatch):
    def refuse(engine):
        raise UnsupportedError("this engine knows only upload, download and list_files")

    monkeypatch.setattr("threadbox._core.file_engine", refuse)
    data = bytes(range(256)) * 10_000
    assert sandbox.upload_files([("/workspace/d/b.bin", data)])[0].error is None
    assert sandbox.download_files(["/workspace/d/b.bin"])[0].content == data
    assert sandbox.download_files(["/workspace/none"])[0].error == "file_not_found"
    assert sandbox.write("/workspace/a.txt", "one\ntwo\n").error is None
    assert sandbox.edit("/workspace/a.txt", "two", "2").occurrences == 1
    assert sandbox.read("/workspace/a.txt").file_data["content"] == "one\n2"
    assert paths(sandbox.glob("*.txt", "/workspace")) == ["/workspace/a.txt"]
    assert sandbox.grep("one", "/workspace").matches[0]["path"] == "/workspace/a.txt"
    assert sandbox.upload_files([("/tmp/x/y", b"z")])[0].error is None
    assert sandbox.download_files(["/tmp/x/y"])[0].content == b"z"
    listed = {one["path"] for one in sandbox.ls("/workspace").entries}
    assert listed == {"/workspace/a.txt", "/workspace/d"}
    assert sandbox.delete("/workspace/a.txt").error is None
