# SPDX-License-Identifier: Apache-2.0
"""``python server.py`` is the server."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import lib

import server


class Started(lib.Server):
    """A server that users start with Python; all else is done with the program itself."""

    words: list[str]

    def spawn(self, *arguments, **options):
        assert arguments == ("serve",)
        environment = {**self.environment(), **self.more}
        return subprocess.Popen([sys.executable, *self.words], env=environment, cwd=self.place,
                                stdin=subprocess.DEVNULL, **options)


@pytest.fixture
def start(binary, tmp_path):
    servers = []

    def begin(*words, **more):
        made = Started()
        made.words, made.place = list(words), str(tmp_path)
        made.more = more or {"THREADBOX_BINARY": binary}
        servers.append(made)
        return made.start(60)

    yield begin
    for one in servers:
        one.close()
        one.remove()


@pytest.mark.parametrize("words", [[server.__file__], ["-m", "server"]], ids=["file", "module"])
def test_it_starts_the_server_and_becomes_it(start, words):
    made = start(*words)
    session = made.create("t")
    assert made.stdout(session, "echo hello") == "hello\n"
    assert made.terminate() == 0


def test_settings_of_a_file(start, tmp_path):
    """Troubleshooting: settings in .env. What the environment says counts more."""
    (tmp_path / ".env").write_text(
        "# limits\nMAX_FILE_SIZE_MB=7  # in .env\n\nexport WORKER_ID='worker 7'\nPORT=1\n")
    made = start(server.__file__)
    assert made.health()["worker_id"] == "worker 7"
    assert made.port != 1
    reply = made.upload(made.create(), "big", bytes(8 << 20))
    assert reply.status == 413 and reply.json["max_size_mb"] == 7


def test_a_program_of_the_path(start, binary, tmp_path):
    if pathlib.Path(sys.prefix, "bin", "threadbox").exists() or carried().exists():
        pytest.skip("the SDK carries a program, which comes first")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "threadbox").symlink_to(binary)
    made = start(server.__file__, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", THREADBOX_BINARY="")
    assert made.health()["status"] == "healthy"


def carried():
    import threadbox

    return pathlib.Path(threadbox.__file__).parent / "_bin" / "threadbox"


def test_no_program_is_said_in_one_sentence(tmp_path, program):
    environment = {**os.environ, "THREADBOX_BINARY": str(tmp_path / "none")}
    done = program(server.__file__, env=environment)
    assert done.returncode == 1 and "which can't be run" in done.stderr
    assert "Traceback" not in done.stderr
    if not carried().exists() and not shutil.which("threadbox", path="/nowhere"):
        done = program(server.__file__, env={"PATH": "/nowhere"})
        assert done.returncode == 1 and "there is no program threadbox" in done.stderr, done


@pytest.mark.parametrize(("line", "found"), [
    ("A=1", {"A": "1"}),
    ("  A = 1  ", {"A": "1"}),
    ("export A=x y", {"A": "x y"}),
    ("A=http://h:1/#part", {"A": "http://h:1/#part"}),
    ("A=1 # one", {"A": "1"}),
    ("A='1 # one'  # two", {"A": "1 # one"}),
    ('A="a b"', {"A": "a b"}),
    ("A=", {}),
    ("# A=1", {}),
    ("nonsense", {}),
])
def test_lines_of_settings(tmp_path, line, found):
    (tmp_path / ".env").write_text(line + "\n")
    assert server.read_settings(tmp_path / ".env") == found
    assert server.read_settings(tmp_path / "none") == {}
