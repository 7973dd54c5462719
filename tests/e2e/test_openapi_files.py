# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says of /api/sessions/{id}/files is true."""
import pytest

from test_openapi import assert_described, validator
from tree import Tree, tar_of


@pytest.fixture(scope="module")
def spec(server):
    return server.get("/openapi.json").json


@pytest.fixture
def tree(server, session):
    made = Tree(server, session)
    made.wrote("d/f.txt", b"one\ntwo\none\n")
    return made


def described(spec, schema, body):
    validator(spec, spec["components"]["schemas"][schema]).validate(body)
    return body


def test_answers_are_as_described(spec, tree):
    assert_described(spec, "statFile", tree.stat("d/f.txt"), 200)
    assert_described(spec, "statFile", tree.stat(""), 200)
    assert_described(spec, "listTree", tree.list("", recursive=1, limit=1), 200)
    assert_described(spec, "readFile", tree.read("d/f.txt"), 200)
    assert_described(spec, "readFile", tree.read("d/f.txt", line=2, lines=1), 200)
    assert_described(spec, "readFile", tree.read("d/f.txt", {"Range": "bytes=0-1"}), 206)
    assert_described(spec, "writeFile", tree.write("new", b"x", mode="0600"), 201)
    assert_described(spec, "writeFile", tree.write("new", b"x"), 200)
    body = described(spec, "EditFile", {"path": "d/f.txt", "old": "two", "new": "2"})
    assert_described(spec, "editFile", tree.call("POST", "/edit", body), 200)
    assert_described(spec, "globFiles", tree.glob("**/*.txt"), 200)
    body = described(spec, "SearchFiles", {"pattern": "^o", "regex": True, "glob": "*.txt",
                                           "path": "d", "ignore_case": True, "max_results": 1})
    assert_described(spec, "searchFiles", tree.call("POST", "/search", body), 200)
    body = described(spec, "MakeDirectory", {"path": "m", "mode": "0700"})
    assert_described(spec, "makeDirectory", tree.call("POST", "/mkdir", body), 201)
    assert_described(spec, "makeDirectory", tree.mkdir("m"), 200)
    body = described(spec, "MoveFile", {"from": "new", "to": "m/n", "overwrite": False})
    assert_described(spec, "moveFile", tree.call("POST", "/move", body), 200)
    assert_described(spec, "downloadArchive", tree.archive("d"), 200)
    packed = assert_described(spec, "downloadArchive", tree.archive("d", format="tgz"), 200)
    assert_described(spec, "uploadArchive", tree.unpack(packed.body, "copy"), 200)
    assert_described(spec, "removeFile", tree.remove("copy", recursive=1), 200)


def test_refusals_are_as_described(spec, tree):
    for operation, reply, status in [
            ("statFile", tree.stat("none"), 404), ("statFile", tree.stat("../x"), 400),
            ("removeFile", tree.remove("d"), 409), ("removeFile", tree.remove(""), 400),
            ("removeFile", tree.remove("none"), 404),
            ("listTree", tree.list("none"), 404), ("listTree", tree.list(limit=0), 400),
            ("readFile", tree.read("none"), 404), ("readFile", tree.read("d"), 400),
            ("readFile", tree.read("d/f.txt", {"Range": "bytes=100-"}), 416),
            ("writeFile", tree.write("d/f.txt", b"", exclusive=1), 409),
            ("writeFile", tree.write("d", b"x"), 400),
            ("editFile", tree.edit("d/f.txt", "one", "1"), 409),
            ("editFile", tree.edit("d/f.txt", "none", "1"), 409),
            ("editFile", tree.edit("none", "a", "b"), 404),
            ("editFile", tree.edit("d/f.txt", "a", 5), 400),
            ("globFiles", tree.glob("["), 400), ("globFiles", tree.glob("*", path="no"), 404),
            ("searchFiles", tree.search("(", regex=True), 400),
            ("searchFiles", tree.search("x", path="no"), 404),
            ("makeDirectory", tree.mkdir("d/f.txt"), 409),
            ("makeDirectory", tree.mkdir(".."), 400),
            ("moveFile", tree.move("d", "d/e"), 400), ("moveFile", tree.move("no", "x"), 404),
            ("moveFile", tree.move("d/f.txt", "d"), 409),
            ("downloadArchive", tree.archive("no"), 404),
            ("uploadArchive", tree.unpack(b"x" * 600), 400),
            ("uploadArchive", tree.unpack(tar_of(("d/f.txt/x", b""))), 400),
            ("uploadArchive", tree.unpack(tar_of(("d", b"x"))), 409)]:
        assert_described(spec, operation, reply, status)


def test_limits_are_as_described(start_server, spec):
    small = start_server(MAX_FILE_SIZE_MB=1, MAX_TOTAL_FILES=1)
    tree = Tree(small, small.create())
    assert_described(spec, "writeFile", tree.write("big", b"x" * (2 << 20)), 413)
    assert_described(spec, "uploadArchive", tree.unpack(tar_of(("f", b"x" * (2 << 20)))), 413)
    assert_described(spec, "writeFile", tree.write("one", b"x"), 201)
    assert_described(spec, "writeFile", tree.write("two", b"x"), 507)
    assert_described(spec, "uploadArchive", tree.unpack(tar_of(("two", b"x"))), 507)
    grown = tree.edit("one", "x", "y" * (2 << 20))
    assert_described(spec, "editFile", grown, 413)
