# SPDX-License-Identifier: Apache-2.0
"""Work on files without a program in the sandbox: /api/sessions/{id}/files."""
import io
import os
import tarfile
import uuid

import pytest

from server import Server, wait_until
from tree import Tree, entry_of, tar_of

MIB = 1 << 20


@pytest.fixture
def tree(server, session):
    return Tree(server, session)


@pytest.fixture(scope="module")
def small(binary):
    """A server with small limits."""
    made = Server(MAX_FILE_SIZE_MB=1, MAX_TOTAL_FILES=20, MAX_WORKSPACE_SIZE_MB=16)
    try:
        yield made.start()
        made.close()
    finally:
        made.remove()


@pytest.fixture
def narrow(small):
    session = small.create()
    yield Tree(small, session)
    small.cleanup(session)


def refused(reply, status, text=""):
    assert reply.status == status and text in reply.json["error"], reply
    assert reply.json["detail"] == reply.json["error"]
    return reply.json


# ---- one file ----

def test_a_file_is_described(tree):
    tree.wrote("a/b.txt", b"hello", mode="0640")
    told = tree.stat("a/b.txt").json
    assert told["path"] == "a/b.txt" and told["name"] == "b.txt" and told["type"] == "file"
    assert told["size_bytes"] == 5 and told["mode"] == "0640" and told["modified"].endswith("Z")
    assert told["etag"] == tree.read("a/b.txt").headers["ETag"]
    assert tree.stat("a").json["type"] == "directory"
    assert tree.stat("").json["type"] == "directory"
    refused(tree.stat("a/c"), 404)
    refused(tree.stat("a/b.txt/c"), 400)


def test_a_link_is_described_and_not_followed(server, tree):
    server.stdout(tree.session, "ln -s /etc/passwd out")
    told = tree.stat("out").json
    assert told["type"] == "symlink" and told["target"] == "/etc/passwd"


@pytest.mark.parametrize("same", ["f", "/workspace/f", "./f", "/workspace//f"])
def test_paths_may_begin_with_the_workspace(tree, same):
    tree.wrote("f", b"x")
    assert tree.stat(same).json["path"] == "f"


@pytest.mark.parametrize("bad", ["/etc/passwd", "../x", "a/../b", "/workspacex", "a\0b",
                                 "x" * 300, "/workspace/../etc/passwd"])
def test_other_paths_are_refused(tree, bad):
    for reply in (tree.stat(bad), tree.read(bad), tree.write(bad, b"x"), tree.remove(bad),
                  tree.mkdir(bad), tree.move(bad, "y"), tree.edit(bad, "a", "b"), tree.list(bad)):
        assert reply.status == 400, reply


def test_an_unknown_session_is_404(server):
    nobody = Tree(server, str(uuid.UUID(int=9)))
    for reply in (nobody.stat("f"), nobody.list(), nobody.write("f", b"x"), nobody.search("x"),
                  nobody.archive(""), nobody.unpack(tar_of(("f", b"x")))):
        refused(reply, 404)


# ---- contents ----

def test_content_comes_back_whole_and_in_ranges(tree):
    data = os.urandom(3 * MIB + 5)
    assert tree.write("f", data).status == 201
    whole = tree.read("f")
    assert whole.body == data and whole.headers["Accept-Ranges"] == "bytes"
    part = tree.read("f", headers={"Range": "bytes=1000-1999"})
    assert part.status == 206 and part.body == data[1000:2000]
    assert tree.read("f", headers={"Range": f"bytes={len(data)}-"}).status == 416


@pytest.mark.parametrize("text, first, count, body, lines, total, more", [
    (b"a\nb\nc\n", 1, 2, b"a\nb\n", 2, 3, "true"),
    (b"a\nb\nc\n", 3, 2, b"c\n", 1, 3, "false"),
    (b"a\nb\nc", 3, 1, b"c", 1, 3, "false"),
    (b"a\nb\nc", 4, 1, b"", 0, 3, "false"),
    (b"", 1, 10, b"", 0, 0, "false"),
    (b"\n\n", 2, 1, b"\n", 1, 2, "false"),
])
def test_content_by_lines(tree, text, first, count, body, lines, total, more):
    tree.wrote("f", text)
    reply = tree.read("f", line=first, lines=count)
    assert reply.status == 200 and reply.body == body
    told = reply.headers
    assert (told["X-Lines"], told["X-Total-Lines"]) == (str(lines), str(total))
    assert told["X-More-Lines"] == more and told["X-First-Line"] == str(first)


def test_a_long_line_is_cut_and_says_so(tree):
    tree.wrote("f", b"x" * (9 * MIB) + b"\nend\n")
    reply = tree.read("f", line=1, lines=1)
    assert len(reply.body) == 8 * MIB and reply.headers["X-Line-Cut"] == "true"
    assert tree.read("f", line=2).body == b"end\n"


def test_writing_creates_replaces_keeps_the_mode_and_appends(server, tree):
    assert tree.write("d/e/f", b"one", mode="755").status == 201
    assert tree.write("d/e/f", b"two").status == 200
    assert server.stdout(tree.session, "stat -c %a d/e/f; cat d/e/f") == "755\ntwo"
    assert tree.wrote("d/e/f", b" three", append=1)["size_bytes"] == 9
    assert tree.read("d/e/f").body == b"two three"
    assert tree.write("new", b"x", append="true").status == 201
    refused(tree.write("d/e/f", b"x", exclusive=1), 409, "has this name already")
    assert tree.write("other", b"x", exclusive=1).status == 201
    assert tree.read("d/e/f").body == b"two three"
    refused(tree.write("d", b"x"), 400, "Not a regular file")
    refused(tree.write("f", b"x", mode="4755"), 400, "mode")
    refused(tree.write("f", b"x", mode="rwx"), 400, "mode")
    refused(tree.write("f", b"x", exclusive=1, append=1), 400)
    refused(tree.write("f", b"x", exclusive="maybe"), 400, "exclusive")


def test_limits_are_those_of_uploads(narrow):
    body = refused(narrow.write("f", b"x" * (MIB + 1)), 413, "File size exceeds")
    assert body["max_size_mb"] == 1
    narrow.wrote("f", b"x" * MIB)
    refused(narrow.write("f", b"y", append=1), 413)
    assert narrow.stat("f").json["size_bytes"] == MIB
    replies = [narrow.write(f"g{number}", b"x" * MIB) for number in range(16)]
    body = refused(replies[-1], 507, "Workspace size")
    assert body["max_workspace_mb"] == 16 and body["file_size_mb"] == 1
    for number in range(16):
        narrow.remove(f"g{number}")
    for number in range(19):
        narrow.wrote(f"h{number}", b"x")
    body = refused(narrow.write("last", b"x"), 507, "file count")
    assert body["max_files"] == 20 and body["current_files"] == 20


# ---- edits ----

def test_an_edit_replaces_one_text_and_keeps_the_mode(server, tree):
    tree.wrote("f", "x = 1\ny = 2\nz = 1\n".encode(), mode="0751")
    told = tree.edit("f", "y = 2", "y = 3").json
    assert told["replacements"] == 1 and told["lines"] == [2] and told["mode"] == "0751"
    assert tree.read("f").body == b"x = 1\ny = 3\nz = 1\n"


def test_an_edit_that_is_not_clear_says_where(tree):
    tree.wrote("f", b"a\nb\na\n")
    body = refused(tree.edit("f", "a\n", "c\n"), 409, "2 times, on lines 1, 3")
    assert body["matches"] == 2 and body["lines"] == [1, 3]
    body = refused(tree.edit("f", "d", "c"), 409, "not in the file")
    assert body["matches"] == 0
    assert tree.read("f").body == b"a\nb\na\n"
    assert tree.edit("f", "a\n", "cc\n", replace_all=True).json["replacements"] == 2
    assert tree.read("f").body == b"cc\nb\ncc\n"


def test_what_can_not_be_edited(server, tree):
    refused(tree.edit("none", "a", "b"), 404)
    tree.mkdir("d")
    refused(tree.edit("d", "a", "b"), 400, "Not a regular file")
    tree.wrote("f", b"a")
    refused(tree.edit("f", "", "b"), 400, "empty")
    refused(tree.edit("f", "a", "a"), 400)
    refused(tree.call("POST", "/edit", {"path": "f", "old": "a"}), 400, "new")
    server.stdout(tree.session, "head -c 11M /dev/zero > big; ln -s f link")
    refused(tree.edit("big", "a", "b"), 413, "10 MiB")
    refused(tree.edit("link", "a", "b"), 400, "symbolic link")


def test_an_edit_may_not_grow_a_file_beyond_the_limit(narrow):
    narrow.wrote("f", b"a" * 1000)
    refused(narrow.edit("f", "a", "b" * 10000, replace_all=True), 413)
    assert narrow.read("f").body == b"a" * 1000


# ---- trees ----

@pytest.fixture
def grown(tree):
    for path in ("a.py", "a/b.py", "a/c/d.py", "a/c/e.txt", "a.txt", ".hidden/x.py", "ä/ö.py"):
        tree.wrote(path, b"x")
    return tree


def test_a_listing_is_sorted_by_parts_of_paths(grown):
    assert grown.paths() == [".hidden", "a", "a.py", "a.txt", "ä"]
    assert grown.paths("a") == ["a/b.py", "a/c"]
    assert grown.paths("", recursive=1) == [
        ".hidden", ".hidden/x.py", "a", "a/b.py", "a/c", "a/c/d.py", "a/c/e.txt", "a.py", "a.txt",
        "ä", "ä/ö.py"]
    refused(grown.list("a.py"), 400, "not a directory")
    refused(grown.list("none"), 404)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 11, 12])
@pytest.mark.parametrize("path", ["", "a"])
def test_pages_of_a_listing_are_the_listing(grown, limit, path):
    whole, seen, cursor = grown.paths(path, recursive=1), [], None
    while True:
        reply = grown.list(path, recursive=1, limit=limit, **({"cursor": cursor} if cursor else {}))
        rows = [row["path"] for row in reply.json["files"]]
        seen += rows
        cursor = reply.json["next_cursor"]
        assert (cursor is None) == reply.json["complete"]
        if cursor is None:
            break
        assert len(rows) == limit
    assert seen == whole


def test_names_that_are_not_utf8_are_paged_too(server, tree):
    server.python(tree.session, "import os\nfor i in range(5):"
                                " open(b'n\\xff%d' % i, 'w').close()")
    first = tree.list(limit=2).json
    second = tree.list(limit=2, cursor=first["next_cursor"]).json
    assert [row["path"] for row in first["files"] + second["files"]] == [
        f"n\ufffd{i}" for i in range(4)]
    assert tree.stat("n\ufffd3").json["type"] == "file"
    assert tree.remove("n\ufffd3").status == 200
    refused(tree.list(cursor="zzz"), 400, "cursor")


@pytest.mark.parametrize("pattern, expected", [
    ("*.py", ["a.py"]),
    ("**/*.py", [".hidden/x.py", "a/b.py", "a/c/d.py", "a.py", "ä/ö.py"]),
    ("a/**", ["a/b.py", "a/c", "a/c/d.py", "a/c/e.txt"]),
    ("a/*", ["a/b.py", "a/c"]),
    ("**/[de].*", ["a/c/d.py", "a/c/e.txt"]),
    ("**/{b,d}.py", ["a/b.py", "a/c/d.py"]),
    ("?.py", ["a.py"]),
    ("?/?.py", ["a/b.py", "ä/ö.py"]),
    ("none*", []),
])
def test_globs(grown, pattern, expected):
    assert grown.globbed(pattern) == expected


def test_globs_below_a_path_and_bounded(grown):
    assert grown.globbed("**/*.py", path="a") == ["a/b.py", "a/c/d.py"]
    reply = grown.glob("**", limit=3)
    assert len(reply.json["files"]) == 3 and reply.json["complete"] is False
    refused(grown.glob("[a"), 400, "without its ]")
    refused(grown.glob("{a"), 400, "without its }")
    refused(grown.glob("../*"), 400)
    refused(grown.call("GET", "/glob"), 400, "pattern")


def test_search_finds_lines(tree):
    tree.wrote("a.py", "import os\n# TODO: Ünïcode\n".encode())
    tree.wrote("d/b.py", b"def todo(x):\r\n    return x\r\n")
    tree.wrote("c.bin", b"\0TODO\n")
    tree.wrote("long", b"y" * 200000 + b"TODO" + b"z" * 10 + b"\nTODO")
    assert tree.found("TODO", glob="*.py") == [("a.py", 2, "# TODO: Ünïcode")]
    assert tree.found("todo", ignore_case=True, glob="*.py") == [
        ("a.py", 2, "# TODO: Ünïcode"), ("d/b.py", 1, "def todo(x):")]
    assert tree.found(r"^def \w+\(.*\):$", regex=True) == [("d/b.py", 1, "def todo(x):")]
    assert tree.found("return", path="d/b.py") == [("d/b.py", 2, "    return x")]
    assert tree.found("return", path="d", glob="b.*") == [("d/b.py", 2, "    return x")]
    assert tree.found("x", path="d", glob="e/**") == []
    assert tree.found("Ün.code", regex=True) == [("a.py", 2, "# TODO: Ünïcode")]
    hits = tree.found("TODO", path="long")
    assert [hit[1] for hit in hits] == [1, 2] and hits[0][2] == "y" * 2000
    reply = tree.search("o", max_results=1).json
    assert len(reply["matches"]) == 1 and reply["complete"] is False
    assert tree.search("TODO").json["files_searched"] == 3


def test_searches_that_are_wrong(tree):
    for bad in ("(", "[a", "a**", "(?=x)", r"(a)\1", "a{1001}", "((a{1000}){1000})"):
        assert "pattern is wrong" in refused(tree.search(bad, regex=True), 400)["error"]
    refused(tree.search(""), 400, "empty")
    refused(tree.search("x", max_results=0), 400, "max_results")
    refused(tree.search("x", path="none"), 404)
    refused(tree.search("x" * 5000), 400, "4096")


def test_directories_are_made_moved_and_removed(server, tree):
    assert tree.mkdir("a/b/c").status == 201
    assert tree.mkdir("a/b/c").status == 200
    assert tree.mkdir("p", mode="0700").json["mode"] == "0700"
    tree.wrote("f", b"x")
    refused(tree.mkdir("f"), 409)
    refused(tree.mkdir("f/g"), 400)
    assert tree.move("f", "new/place/g").json["path"] == "new/place/g"
    refused(tree.stat("f"), 404)
    tree.wrote("h", b"y")
    refused(tree.move("h", "new/place/g", overwrite=False), 409)
    assert tree.move("h", "new/place/g").status == 200
    assert tree.read("new/place/g").body == b"y"
    refused(tree.move("a", "a/b/inside"), 400, "into itself")
    refused(tree.move("new/place/g", "a"), 409)
    refused(tree.move("none", "x"), 404)
    refused(tree.remove("a"), 409, "not empty")
    assert tree.remove("a", recursive=1).json == {"path": "a", "removed": True}
    refused(tree.remove("a"), 404)
    for root in ("", ".", "/workspace", "/workspace/"):
        refused(tree.remove(root, recursive=1), 400)
        refused(tree.move(root, "x"), 400)
    assert tree.paths("", recursive=1) == ["new", "new/place", "new/place/g", "p"]


# ---- archives ----

def unpacked(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}, {
            member.name: archive.extractfile(member).read() for member in archive
            if member.isfile()}


@pytest.mark.parametrize("format", ["tar", "tgz"])
def test_a_tree_goes_down_and_up_again(server, tree, format):
    big = os.urandom(300000)
    long = "n" * 120 + "/" + "m" * 200
    tree.wrote("t/a.txt", b"hello", mode="0755")
    tree.wrote("t/sub/big", big)
    tree.wrote("t/" + long, b"long")
    server.stdout(tree.session, "ln -s sub/big t/link; mkfifo t/pipe; mkdir t/empty")
    data = tree.archive("t", format=format).body
    assert data.startswith(b"\x1f\x8b") == (format == "tgz")
    members, contents = unpacked(data)
    assert contents == {"a.txt": b"hello", "sub/big": big, long: b"long"}
    assert members["link"].linkname == "sub/big" and members["a.txt"].mode == 0o755
    assert members["empty"].isdir() and "pipe" not in members
    reply = tree.unpack(data, "copy/here")
    assert reply.status == 200, reply
    assert reply.json == {"path": "copy/here", "files": 4, "bytes": 5 + len(big) + 4}
    told = server.stdout(tree.session, "rm t/pipe; diff -r t copy/here && readlink copy/here/link;"
                                       " stat -c '%a %U' copy/here/a.txt")
    assert told == "sub/big\n755 sandboxuser\n"


def test_archives_of_several_paths_and_of_one_file(tree):
    tree.wrote("a/x", b"1")
    tree.wrote("b/y", b"2")
    tree.wrote("c/z", b"3")
    members, contents = unpacked(tree.archive("a", "c/z").body)
    assert contents == {"a/x": b"1", "c/z": b"3"} and set(members) == {"a", "a/x", "c/z"}
    assert unpacked(tree.archive("b/y").body)[1] == {"y": b"2"}
    assert set(unpacked(tree.archive("").body)[1]) == {"a/x", "b/y", "c/z"}
    refused(tree.archive("none"), 404)
    refused(tree.archive("a", format="zip"), 400, "format")


def test_what_tar_programs_write_is_understood(server, tree):
    for number, format in enumerate((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT,
                                     tarfile.PAX_FORMAT)):
        name = ("d" * 90 + "/" + "f" * 90) if number == 0 else "ü" * 80 + "/" + "g" * 150
        assert tree.unpack(tar_of((name, b"content"), format=format), f"t{number}").status == 200
        assert tree.read(f"t{number}/{name}").body == b"content"
    server.stdout(tree.session, "mkdir src && echo hi > src/a && ln src/a src/b &&"
                                " tar czf s.tgz src")
    assert tree.unpack(tree.read("s.tgz").body, "out").json["files"] == 2
    assert server.stdout(tree.session, "stat -c %h out/src/a; cat out/src/b") == "2\nhi\n"


def test_a_later_entry_replaces_an_earlier_one(tree):
    assert tree.unpack(tar_of(("f", b"one"), ("f", b"two"))).json["files"] == 2
    assert tree.read("f").body == b"two"


def test_archives_are_held_to_the_limits(narrow):
    refused(narrow.unpack(tar_of(("f", b"x" * (MIB + 1)))), 413)
    refused(narrow.unpack(tar_of(*[(f"f{i}", b"") for i in range(21)])), 507, "count")
    assert narrow.remove("f3").status == 200
    for number in range(20):
        narrow.remove(f"f{number}")
    refused(narrow.unpack(tar_of(*[(f"f{i}", b"x" * MIB) for i in range(17)])), 507, "full")


def test_a_session_that_is_used_through_files_stays(server, session):
    tree = Tree(server, session)
    before = server.get(f"/status/{session}").json["last_activity"]
    tree.wrote("f", b"x")
    wait_until(lambda: tree.edit("f", "x", "xx").status == 200 and tree.edit("f", "xx", "x")
               and server.get(f"/status/{session}").json["last_activity"] != before,
               "an edit is activity")
