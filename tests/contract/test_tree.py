# SPDX-License-Identifier: Apache-2.0
"""Work on files without a program in the sandbox, and archives in both directions."""
import io
import os
import tarfile

import pytest

from tree import Tree, entry_of, tar_of

MIB = 1 << 20


@pytest.fixture
def tree(server, session):
    return Tree(server, session)


def members(reply):
    assert reply.status == 200, reply
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        return {one.name.removeprefix("./"): archive.extractfile(one).read()
                for one in archive if one.isfile()}


def test_a_file_is_described_and_changes_its_version(tree):
    tree.wrote("a/b.txt", b"hello", mode="0640")
    told = tree.stat("a/b.txt").json
    assert (told["path"], told["type"], told["size_bytes"]) == ("a/b.txt", "file", 5)
    assert tree.server.stdout(tree.session, "stat -c '%a %u' a/b.txt") == "640 1000\n"
    tree.wrote("a/b.txt", b"other")
    assert tree.stat("a/b.txt").json["etag"] != told["etag"]
    assert tree.read("a/b.txt").body == b"other"


def test_names_are_moved_and_removed(tree):
    for name in ("d/one.py", "d/deep/two.py", "three.txt"):
        tree.wrote(name, b"x")
    assert tree.mkdir("empty").status in (200, 201)
    assert tree.globbed("**/*.py") == ["d/deep/two.py", "d/one.py"]
    assert tree.move("d/one.py", "moved.py").status == 200
    assert tree.move("moved.py", "three.txt", overwrite=False).status == 409
    assert tree.remove("d").status == 409
    assert tree.remove("d", recursive="true").status in (200, 204)
    assert tree.paths() == ["empty", "moved.py", "three.txt"]


def test_lines_are_found_and_edited(tree):
    tree.wrote("f.txt", b"first\nsecond line\n")
    tree.wrote("g.txt", b"another line\n")
    assert tree.found("line") == [("f.txt", 2, "second line"), ("g.txt", 1, "another line")]
    assert tree.edit("f.txt", "second", "2nd").status == 200
    assert tree.found("2n[d]", regex=True) == [("f.txt", 2, "2nd line")]


def test_an_archive_larger_than_any_buffer_comes_whole(tree):
    content = {str(n): os.urandom(2 * MIB + n) for n in range(3)}
    for name, data in content.items():
        tree.wrote(f"d/{name}", data)
    came = members(tree.archive("d"))
    assert came.keys() == content.keys()
    assert [name for name in content if came[name] != content[name]] == []


@pytest.mark.parametrize("compress", [False, True])
def test_an_archive_is_unpacked(tree, compress):
    data = os.urandom(3 * MIB + 1)
    reply = tree.unpack(tar_of(("a/b", data), ("c", b"x"), compress=compress), "in")
    assert reply.status in (200, 201) and reply.json["files"] == 2, reply
    assert tree.read("in/a/b").body == data and tree.read("in/c").body == b"x"
    assert tree.server.stdout(tree.session, "stat -c %u in in/a/b") == "1000\n1000\n"


@pytest.mark.parametrize("entries", [
    [("../up", b"x")], [("/etc/x", b"x")],
    [entry_of("l", tarfile.SYMTYPE, "/etc"), ("l/x", b"x")]])
def test_an_archive_that_leads_out_is_refused(tree, entries):
    reply = tree.unpack(tar_of(*entries))
    assert 400 <= reply.status < 500, reply


@pytest.mark.parametrize("damage", [lambda tar: tar[:len(tar) // 2], lambda tar: b"\xff" * 5000])
def test_a_damaged_archive_is_refused_and_files_can_be_worked_on_after(tree, damage):
    reply = tree.unpack(damage(tar_of(("a", os.urandom(3 * MIB)))))
    assert reply.status == 400, reply
    tree.wrote("after", b"fine")
    assert tree.read("after").body == b"fine"
