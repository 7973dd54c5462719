# SPDX-License-Identifier: Apache-2.0
"""The workspace of a session, in both modes."""

import io
import os
import tarfile

import pytest

from threadbox import (
    ConflictError,
    EditError,
    InvalidRequestError,
    LimitExceededError,
    SandboxClient,
    SandboxError,
    SessionExpiredError,
)


@pytest.fixture(params=["remote", "local"])
def mode(request):
    return request.param


@pytest.fixture
def files(client):
    return client.files


def test_files_are_written_read_and_described(client, files):
    data = os.urandom(100_000)
    made = files.write("a/b c.bin", data, mode=0o600)
    assert made.path == "a/b c.bin" and made.name == "b c.bin" and made.size_bytes == len(data)
    assert files.read("a/b c.bin") == data == files.read("/workspace/a/b c.bin")
    assert files.stat("a").type == "directory"
    assert files.exists("a") and not files.exists("x")
    files.write("t.txt", "ünï")
    files.write("t.txt", "!", append=True)
    assert files.read_text("t.txt") == "ünï!"
    with pytest.raises(ConflictError):
        files.write("t.txt", "no", exclusive=True)
    with pytest.raises(FileNotFoundError):
        files.read("none")


def test_lines_are_read_in_pages(files):
    files.write("n", "".join(f"line {n}\n" for n in range(1, 101)))
    page = files.read_lines("n", 10, 3)
    assert page.text == "line 10\nline 11\nline 12\n" and page.first == 10 and page.count == 3
    assert page.more
    assert files.read_lines("n", 99).text == "line 99\nline 100\n"


def test_an_edit_must_be_unambiguous(files):
    files.write("e", "one\ntwo\none\n")
    done = files.edit("e", "two", "2")
    assert done.replacements == 1 and list(done.lines) == [2]
    with pytest.raises(EditError) as caught:
        files.edit("e", "one", "1")
    assert caught.value.matches == 2 and list(caught.value.lines) == [1, 3]
    with pytest.raises(EditError):
        files.edit("e", "absent", "x")
    assert files.edit("e", "one", "1", replace_all=True).replacements == 2
    assert files.read_text("e") == "1\n2\n1\n"


def test_trees_are_walked_page_by_page(files):
    names = {f"d/s{n % 3}/f{n:02}" for n in range(20)}
    for name in names:
        files.write(name, name)
    walked = [one.path for one in files.walk("d", page=4) if one.type == "file"]
    assert sorted(walked) == sorted(names) and len(walked) == len(names)
    assert {one.name for one in files.list("d")} == {"s0", "s1", "s2"}
    assert {one.path for one in files.glob("**/f0?")} == {n for n in names if "/f0" in n}


def test_contents_are_searched(files):
    files.write("a.py", "x = 1\nTODO fix\n")
    files.write("b.txt", "todo too\n")
    found = files.search("todo", ignore_case=True)
    assert {(m.path, m.line) for m in found.matches} == {("a.py", 2), ("b.txt", 1)}
    assert found.complete
    only = files.search("T.D", regex=True, glob="*.py").matches
    assert [m.text for m in only] == ["TODO fix"]


def test_the_tree_is_changed(files):
    files.mkdir("x/y")
    files.mkdir("x/y")
    files.write("x/f", "1")
    assert files.move("x/f", "x/y/g").path == "x/y/g"
    files.write("x/h", "2")
    with pytest.raises(ConflictError):
        files.move("x/h", "x/y/g", overwrite=False)
    with pytest.raises(ConflictError):
        files.remove("x")
    files.remove("x", recursive=True)
    assert not files.exists("x")
    with pytest.raises(FileNotFoundError):
        files.remove("x")


def test_archives_go_both_ways(files, tmp_path):
    files.write("tree/a", "A")
    files.write("tree/sub/b", "B")
    data = files.download_archive(to=tmp_path / "out.tgz")
    assert (tmp_path / "out.tgz").read_bytes() == data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = {name.removeprefix("./").rstrip("/") for name in archive.getnames()}
    assert names >= {"tree/a", "tree/sub/b"}
    assert files.upload_archive(tmp_path / "out.tgz", "copy").files >= 2
    assert files.read_text("copy/tree/sub/b") == "B"
    with tarfile.open(fileobj=io.BytesIO(files.download_archive("tree", format="tar")), mode="r:"):
        pass


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../b", "a\0b"])
def test_paths_outside_are_refused_here(client, path):
    with pytest.raises(ValueError, match="Invalid path"):
        client.files.read(path)


def test_files_in_a_loop(in_loop):
    async def test(client):
        await client.files.write("a", b"1")
        with pytest.raises(FileNotFoundError):
            await client.files.read("b")
        return [one.path async for one in client.files.walk()]

    assert in_loop(test) == ["a"]


def test_what_is_told_of_a_file(client, files):
    files.write("d/f", "12345", mode=0o640)
    client.execute("ln -s d/f link")
    told = files.stat("/workspace/d/f/")
    assert (told.path, told.name, told.type, told.size_bytes) == ("d/f", "f", "file", 5)
    assert told.permissions == "-rw-r-----" and told.more["mode"] == "0640"
    assert told.modified.endswith("Z") and told.more["etag"]
    link = files.stat("./link")
    assert (link.type, link.more["target"]) == ("symlink", "d/f")
    assert link.permissions.startswith("l")
    assert files.stat("").type == "directory" and files.stat("").path == ""
    assert files.mkdir("e", mode=0o700).permissions == "drwx------"
    assert [(one.path, one.permissions) for one in files.list("d")] == [("d/f", "-rw-r-----")]


def test_contents_of_every_size_arrive_whole(files):
    for size in (0, 1, (256 << 10) - 1, 256 << 10, (3 << 20) + 17):
        data = os.urandom(size)
        assert files.write("data", data).size_bytes == size
        assert files.read("data") == data


def test_names_that_are_no_text_do_not_stop_a_walk(client, files):
    client.execute(r"mkdir d; cd d; touch a $'b\xff1' $'b\xff2' $'b\xff3' c")
    names = [one.name for one in files.walk("d", page=1)]
    assert names == ["a", "b\ufffd1", "b\ufffd2", "b\ufffd3", "c"]


def test_lines_know_where_they_are(files):
    files.write("n", "1\n2\n3")
    page = files.read_lines("n", 2, 1)
    assert (page.text, page.first, page.count, page.more, page.total, page.cut) == (
        "2\n", 2, 1, True, 3, False)
    last = files.read_lines("n", 3)
    assert (last.text, last.count, last.more) == ("3", 1, False)
    assert files.read_lines("n", 9).text == ""
    files.write("raw", b"\xff\n")
    assert files.read_lines("raw").text == "\ufffd\n"


def test_the_file_after_an_edit_is_told(files):
    files.write("e", "one\n", mode=0o600)
    done = files.edit("e", "one", "three")
    assert (done.file.path, done.file.size_bytes, done.file.permissions) == ("e", 6, "-rw-------")
    with pytest.raises(FileNotFoundError):
        files.edit("none", "a", "b")


def test_what_can_not_be_is_refused(client, files):
    files.write("f", "x")
    refused = [
        lambda: files.write("g", "x", mode=0o7777),
        lambda: files.write("g", "x", append=True, exclusive=True),
        lambda: files.write("", "x"),
        lambda: files.remove("/workspace"),
        lambda: files.move("f", "."),
        lambda: files.read_lines("f", 0),
        lambda: files.read_lines("f", 1, 0),
        lambda: files.read_lines("f", -1),
        lambda: list(files.walk(page=0)),
        lambda: list(files.walk(page=10001)),
        lambda: files.glob(""),
        lambda: files.glob("*", limit=0),
        lambda: files.search(""),
        lambda: files.search("(", regex=True),
        lambda: files.search("x", max_results=10001),
        lambda: files.edit("f", "", "y"),
        lambda: files.edit("f", "x", "x"),
        lambda: files.read("a" * 300),
        lambda: files.mkdir("a/./b"),
        lambda: files.download_archive(format="zip"),
        lambda: files.upload_archive(b"this is no archive" * 100),
    ]
    for number, call in enumerate(refused):
        with pytest.raises(InvalidRequestError):
            call()
            pytest.fail(f"number {number} was not refused")
    assert [one.path for one in files.list()] == ["f"]


def test_what_is_in_the_way_is_named(client, files):
    files.mkdir("d")
    client.execute("mkfifo pipe; touch closed; chmod 000 closed; ln -s /etc/passwd out")
    for path in ("d", "pipe", "out"):
        with pytest.raises(SandboxError):
            files.read(path)
    with pytest.raises(PermissionError):
        files.read("closed")
    with pytest.raises(FileNotFoundError):
        files.list("none")
    with pytest.raises(FileNotFoundError):
        files.move("none", "f")
    with pytest.raises(FileNotFoundError):
        files.download_archive("none")


def test_limits_hold(arguments_for, thread):
    limits = arguments_for(max_file_size_mb=1, max_total_files=3)
    with SandboxClient(**limits, policy="open") as client:
        client.get_or_create_session("tester", thread)
        files = client.files
        with pytest.raises(LimitExceededError, match="File size"):
            files.write("large", bytes((1 << 20) + 1))
        files.write("f", bytes(1 << 20))
        with pytest.raises(LimitExceededError):
            files.write("f", "more", append=True)
        with pytest.raises(LimitExceededError):
            files.edit("f", "\0" * (1 << 19), "1" * (1 << 20), replace_all=True)
        for name in ("g", "h"):
            files.write(name, "x")
        with pytest.raises(LimitExceededError, match="file count"):
            files.write("i", "x")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name in ("a", "b", "c", "d"):
                archive.addfile(tarfile.TarInfo(name))
        with pytest.raises(LimitExceededError):
            files.upload_archive(packed.getvalue(), "sub")
        client.cleanup()


def test_files_of_a_session_that_is_gone(arguments, thread):
    with SandboxClient(**arguments, policy="open") as client:
        client.get_or_create_session("tester", thread)
        files = client.files
        client.execute("true")
        with SandboxClient(**arguments) as other:
            other.get_or_create_session("tester", thread)
            other.cleanup()
        for call in (files.list, lambda: files.read("f"), lambda: files.write("f", "x")):
            with pytest.raises(SessionExpiredError):
                call()
