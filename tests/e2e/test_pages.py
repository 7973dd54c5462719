# SPDX-License-Identifier: Apache-2.0
"""/docs and /redoc show all of the description, work without a network, and run nobody's script."""
import base64
import hashlib
import json
import pathlib
import re
import shutil
import subprocess

import pytest

PAGE_JS = pathlib.Path(__file__).resolve().parent.parent / "lib" / "page.js"
PAGES = ["/docs", "/redoc"]


@pytest.fixture(scope="module")
def spec(server):
    return server.get("/openapi.json").json


def operations(spec):
    return [operation for methods in spec["paths"].values() for operation in methods.values()]


def names(spec):
    return {operation["operationId"] for operation in operations(spec)}


def websockets(spec):
    return {o["operationId"] for o in operations(spec) if "101" in o["responses"]}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_nothing_from_elsewhere(server, path):
    page = server.get(path).body.decode()
    assert not re.search(r"https?:|//[\w-]+\.\w|@import|\burl\(|\bsrc=", page), "another address"
    assert re.findall(r'\bhref="([^"]*)"', page) == ["data:,", "#main", "openapi.json"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", page)
    assert not re.search(r"\beval\b|Function\(", page)
    assert not re.search(r"<[^>]*\son\w+=", page), "an inline handler"


def test_pages_are_small(server):
    assert sum(len(server.get(path).body) for path in PAGES) < 40000


@pytest.mark.parametrize("path", PAGES)
def test_only_the_script_of_the_page_may_run(server, path):
    reply = server.get(path)
    page = reply.body.decode()
    policy = dict(part.split(" ", 1) for part in
                  reply.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for tag in ("script", "style"):
        parts = re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", page, re.S)
        assert len(parts) == 1
        digest = base64.b64encode(hashlib.sha256(parts[0].encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
        assert " style=" not in page


@pytest.fixture(scope="module")
def run_page(server):
    if not shutil.which("node"):
        pytest.skip("no node to run the pages' scripts")

    def run(page, *more):
        done = subprocess.run(["node", str(PAGE_JS), page, f"http://127.0.0.1:{server.port}",
                               *map(str, more)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return run


def test_the_page_to_try_sends_every_request(server, spec, run_page):
    shown = run_page("docs")
    tried = shown["tried"]
    assert set(tried) == names(spec) - websockets(spec) != names(spec)
    assert shown["title"].startswith(f"Threadbox {spec['info']['version']}")
    assert "200 OK" in tried["createSession"]["answer"]
    # The session that was created is used from then on, by the examples of all others.
    assert '"stdout": "hello\\n"' in tried["execute"]["answer"]
    assert "200 OK" in tried["readOutput"]["answer"] and "hello" in tried["readOutput"]["answer"]
    assert '"state": "running"' in tried["startProcess"]["answer"]
    assert '"written": 6' in tried["writeInput"]["answer"]
    assert "-X DELETE" in tried["endProcess"]["curl"]
    assert '"state": "exited"' in tried["endProcess"]["answer"]
    assert '"deleted"' in tried["deleteSession"]["answer"]
    assert '"cleaned_up"' in tried["cleanup"]["answer"]
    assert "-F 'file=@it'\\''s.csv'" in tried["uploadFile"]["curl"]
    missing = [o for o, row in tried.items() if '"error": "Not Found"' in row["answer"]]
    if "uploadFile" not in missing:
        assert "200 OK" in tried["uploadFile"]["answer"]


def test_a_curl_line_of_the_page_does_what_the_page_does(server, run_page):
    line = run_page("docs")["tried"]["createSession"]["curl"]
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)
    assert answer["thread_id"] == "thread-42"
    server.cleanup(answer["session_id"])


def test_the_page_to_read_shows_and_finds_all(spec, run_page):
    shown = run_page("redoc")
    assert names(spec) <= set(shown["ids"])
    assert shown["found"] == ["execute", "startProcess", "startAndAttach",
                              "runInShell"]
    assert shown["foundNothing"]
    for operation in operations(spec):
        assert operation["summary"] in shown["text"]
    for schema in ("Executed", "Health", "FileList", "CommandRefused"):
        for name in spec["components"]["schemas"][schema]["properties"]:
            assert name in shown["text"], name


@pytest.mark.parametrize("page", ["docs", "redoc"])
def test_html_in_the_description_stays_text(spec, run_page, tmp_path, page):
    evil = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'
    text = json.dumps(spec).replace("Run a command", json.dumps(evil)[1:-1])
    changed = json.loads(text)
    changed["info"]["description"] = changed["info"]["title"] = evil
    changed["paths"]["/execute"]["post"]["description"] = f"`{evil}`"
    (tmp_path / "evil.json").write_text(json.dumps(changed))
    shown = run_page(page, tmp_path / "evil.json")
    assert evil in shown["text"]
    assert not {"img", "script"} & set(shown["elements"])


def test_a_broken_description_is_told(run_page, tmp_path):
    (tmp_path / "broken.json").write_text('{"openapi": "3.1.0"')
    shown = run_page("docs", tmp_path / "broken.json")
    assert "The description can't be shown" in shown["text"]
