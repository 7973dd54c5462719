# SPDX-License-Identifier: Apache-2.0
"""Artifacts, logs and the tree /sandbox: what a session has beside its workspace, and leaves."""
import json
import pathlib
import shutil

import pytest
from server import wait_until
from test_openapi import assert_described, spec  # noqa: F401


@pytest.fixture
def made(server):
    """A session of an environment."""
    one = server.post("/api/sessions", {"environment": "Bash", "user_id": "u-art"}).json
    yield one["session_id"]
    server.cleanup(one["session_id"])


def keep(server, session, **fields):
    return server.post(f"/api/sessions/{session}/artifacts", fields)


def test_what_was_kept_stays_after_the_end(server, spec, made):  # noqa: F811
    server.stdout(made, "echo report > outputs/report.txt")
    kept = assert_described(spec, "keepArtifact",
                            keep(server, made, path="outputs/report.txt"), 201).json
    assert (kept["name"], kept["type"], kept["size_bytes"], kept["origin"]) == (
        "report.txt", "text/plain", 7, "kept")
    server.stdout(made, "echo changed > outputs/report.txt")
    server.cleanup(made)
    listed = server.get(f"/api/sessions/{made}/artifacts")
    assert assert_described(spec, "listSessionArtifacts", listed, 200).json["artifacts"] == [kept]
    place = f"/api/artifacts/{kept['artifact_id']}"
    assert assert_described(spec, "getArtifact", server.get(place), 200).json == kept
    whole = server.get(place + "/content")
    assert whole.status == 200 and whole.body == b"report\n"
    assert whole.headers["Content-Type"] == "text/plain"
    assert whole.headers["Content-Disposition"].startswith("attachment")
    part = server.get(place + "/content", headers={"Range": "bytes=2-3"})
    assert (part.status, part.body) == (206, b"po")
    mine = assert_described(spec, "listArtifacts", server.get("/api/artifacts?user_id=u-art"), 200)
    assert kept in mine.json["artifacts"]
    assert server.get("/api/artifacts?user_id=nobody").json["total"] == 0
    assert_described(spec, "removeArtifact", server.request("DELETE", place), 200)
    assert_described(spec, "removeArtifact", server.request("DELETE", place), 404)
    assert_described(spec, "getArtifact", server.get(place), 404)
    assert_described(spec, "listSessionArtifacts", listed := server.get(
        f"/api/sessions/{made}/artifacts"), 404)
    assert listed.status == 404


def test_what_code_showed_stays_after_the_end(server, made):
    code = "class P:\n    def _repr_png_(self): return b'\\x89PNG'\nP()"
    answer = server.post("/api/e2b/execute", {"session_id": made, "code": code}).json
    assert answer["artifacts"] == ["cell-1-1.png"], answer
    body = {"session_id": made, "code": "1", "stream": True}
    assert b'"artifacts":[]' in server.post("/api/e2b/execute", body).body
    server.cleanup(made)
    kept, = server.get(f"/api/sessions/{made}/artifacts").json["artifacts"]
    assert (kept["name"], kept["type"], kept["origin"], kept["path"]) == (
        "cell-1-1.png", "image/png", "code", None)
    place = f"/api/artifacts/{kept['artifact_id']}"
    assert server.get(place + "/content").body == b"\x89PNG"
    server.request("DELETE", place)


@pytest.mark.parametrize("fields,status", [
    ({}, 400), ({"path": "nothing"}, 404), ({"path": "../etc/passwd"}, 400),
    ({"path": "/etc/passwd"}, 400), ({"path": "src"}, 400), ({"path": "link"}, 400),
    ({"path": "fifo"}, 400), ({"path": "f", "type": "nonsense"}, 400),
    ({"path": "f", "type": "text/html\r\nX: y"}, 400), ({"path": "f", "name": "a\nb"}, 400)])
def test_what_can_not_be_kept_is_refused(server, spec, made, fields, status):  # noqa: F811
    server.stdout(made, "ln -s /etc/passwd link; mkfifo fifo; echo > f")
    assert_described(spec, "keepArtifact", keep(server, made, **fields), status)
    assert server.get(f"/api/sessions/{made}/artifacts").json["artifacts"] == []


def test_names_of_artifacts_never_become_paths(server, made):
    server.stdout(made, "echo > f")
    kept = keep(server, made, path="f", name="../../../etc/cron.d/x").json
    content = server.get(f"/api/artifacts/{kept['artifact_id']}/content")
    assert 'filename="x"' in content.headers["Content-Disposition"]
    root = pathlib.Path(server.state_dir) / "storage" / "artifacts"
    assert sorted(p.name for p in (root / f"session_{made}").iterdir()) == [
        kept["artifact_id"], kept["artifact_id"] + ".json"]


def test_they_are_bounded(start_server):
    server = start_server(ARTIFACT_SESSION_MB=2, ARTIFACT_TOTAL_MB=3)
    one, other = server.create(), server.create()
    server.stdout(one, "head -c 1500K /dev/zero > big")
    server.stdout(other, "head -c 1500K /dev/zero > big")
    first = keep(server, one, path="big")
    assert first.status == 201
    full = keep(server, one, path="big")
    assert full.status == 507 and "ARTIFACT_SESSION_MB" in full.json["error"]
    assert keep(server, other, path="big").status == 201
    server.stdout(other, "echo > small; head -c 400K /dev/zero > some")
    full = keep(server, other, path="some")
    assert full.status == 507 and "ARTIFACT_TOTAL_MB" in full.json["error"]
    assert server.get("/api/artifacts").json["total"] == 2
    server.request("DELETE", "/api/artifacts/" + first.json["artifact_id"])
    assert keep(server, other, path="some").status == 201
    left = list((pathlib.Path(server.state_dir) / "storage" / "artifacts").rglob("*.json*"))
    assert len(left) == 2


def test_the_tree_of_an_agent(server, made):
    text = server.stdout(made, "cd /sandbox && find . -mindepth 1 -type d | sort && cat meta/*")
    lines = text.splitlines()
    assert {"./agent", "./logs", "./meta", "./tools", "./workspace", "./workspace/src",
            "./workspace/data", "./workspace/outputs", "./workspace/tmp"} <= set(lines)
    assert json.loads(lines[-1])["session_id"] == made
    server.stdout(made, "echo 1 > /workspace/x; cat /sandbox/workspace/x")


def test_the_state_of_an_agent_is_shown_and_kept(server, made):
    def state():
        return server.get(f"/api/sessions/{made}").json["state"]

    assert state() == {}
    agent = "/sandbox/agent"
    server.stdout(made, f"""echo '{{"step": 3}}' > {agent}/state.json; echo p > {agent}/plan.md""")
    assert state() == {"step": 3}
    for bad in ("[1]", "{", "x" * 10):
        server.stdout(made, f"echo '{bad}' > /sandbox/agent/state.json")
        assert state() == {}
    server.stdout(made, "ln -sf /etc/passwd /sandbox/agent/state.json")
    assert state() == {}
    server.stdout(made, f"""rm {agent}/state.json; echo '{{"step": 4}}' > {agent}/state.json""")
    server.cleanup(made)
    place = pathlib.Path(server.state_dir) / "storage" / "sessions" / f"session_{made}"
    wait_until(lambda: "ended" in (place / "session.json").read_text(), "its end was noted")
    assert json.loads((place / "agent" / "state.json").read_text()) == {"step": 4}
    assert (place / "agent" / "plan.md").read_text() == "p\n"
    facts = json.loads((place / "session.json").read_text())
    assert (facts["environment"], facts["user_id"], facts["ended"]) == ("Bash", "u-art", "removed")


def test_its_events_are_kept_and_bounded(server, spec, start_server):  # noqa: F811
    small = start_server(SESSION_LOG_KB=4)
    made = small.post("/api/sessions", {"environment": "Bash"}).json["session_id"]
    for n in range(60):
        small.stdout(made, f"echo {n} {'x' * 80}")
    small.cleanup(made)
    place = pathlib.Path(small.state_dir) / "storage" / "sessions" / f"session_{made}"
    wait_until(lambda: "ended" in (place / "session.json").read_text(), "its end was noted")
    assert sum(p.stat().st_size for p in place.glob("log*")) <= 4096
    reply = assert_described(spec, "readSessionLog", small.get(f"/api/sessions/{made}/log"), 200)
    events = [json.loads(line) for line in reply.body.splitlines()]
    assert events[-1]["event"] == "session_cleaned_up" and events[-2]["exit_code"] == "0"
    assert_described(spec, "readSessionLog", small.get("/api/sessions/nobody/log"), 404)
    assert small.get("/api/sessions/..%2f..%2fstore/log").status == 404


def test_a_storage_of_its_own(start_server, tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    server = start_server(STORAGE_PATH=tmp_path / "elsewhere")
    session = server.create()
    server.stdout(session, "echo > f")
    assert keep(server, session, path="f").status == 201
    assert list((tmp_path / "elsewhere" / "artifacts").rglob("*.json"))


def test_files_that_code_wrote_stay_after_the_end(server, made):
    def execute(code, **fields):
        reply = server.post(f"/api/sessions/{made}/code", {"code": code, **fields})
        assert reply.status == 200, reply
        return sorted(reply.json["files"]), sorted(reply.json["artifacts"])

    server.stdout(made, "mkdir -p d/e; echo before > old")
    assert execute("x = open('old').read()") == ([], [])
    text = ("import os\nopen('a.txt', 'w').write('first')\nopen('d/e/b.csv', 'w').write('1,2')\n"
            "open('.hidden', 'w'); os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')\n"
            "open('/tmp/elsewhere', 'w').write('x'); open('large', 'w').truncate(17 << 20)")
    assert execute(text) == (["a.txt", "large"], ["a.txt"])  # d itself has not changed
    assert execute("os.makedirs('d2/e'); _ = open('d2/e/c', 'w').write('c')") == (["d2/e/c"], ["c"])
    assert execute("1") == ([], [])
    assert execute("_ = open('a.txt', 'w').write('second')") == (["a.txt"], ["a.txt"])
    assert execute("_ = open('z', 'w').write('z')", keep_files=False) == (["z"], [])
    many = "for i in range(100): open(f'many{i}', 'w').close()"
    files, kept = execute(many)
    assert len(files) == 20 and kept == files
    script = "require('fs').writeFileSync('js.txt', 'from js'); 0"
    if shutil.which("node"):
        assert execute(script, language="javascript") == (["js.txt"], ["js.txt"])
    server.cleanup(made)
    kept = {one["path"]: one for one in
            server.get(f"/api/sessions/{made}/artifacts").json["artifacts"]}
    assert (kept["a.txt"]["origin"], kept["a.txt"]["size_bytes"]) == ("code", 6)
    content = server.get(f"/api/artifacts/{kept['a.txt']['artifact_id']}/content")
    assert content.body == b"second"
    for one in kept.values():
        server.request("DELETE", f"/api/artifacts/{one['artifact_id']}")
