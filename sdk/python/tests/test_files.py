# SPDX-License-Identifier: Apache-2.0
"""The workspace of a session."""

import io
import os
import tarfile

import pytest

from threadbox import ConflictError, EditError, UnsupportedError


@pytest.fixture
def files(client):
    try:
        client.files.list()
    except UnsupportedError:
        pytest.skip("this server knows only uploads and downloads")
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
        try:
            await client.files.write("a", b"1")
        except UnsupportedError:
            pytest.skip("this server knows only uploads and downloads")
        return [one.path async for one in client.files.walk()]

    assert in_loop(test) == ["a"]
