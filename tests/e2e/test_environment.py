# SPDX-License-Identifier: Apache-2.0
"""What sandboxes see: the host's programs, or an image from a directory or a tar file."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from server import PATIENCE, Server

CACHE = pathlib.Path(__file__).resolve().parents[2] / "build" / "test-image"
PROGRAMS = ["/bin/bash", "/usr/bin/id"]
APPLETS = ["cat", "ls", "touch", "mkdir", "echo", "env", "stat", "sleep", "grep", "wc", "rm"]


def libraries_of(program):
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", text)


def make_image(image):
    """bash with its libraries, a static busybox, a set-uid program, and a mark to know it by."""
    for path in PROGRAMS + [library for one in PROGRAMS for library in libraries_of(one)]:
        target = image / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for folder in ("usr/bin", "etc", "opt", "var"):
        (image / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox"), image / "bin/busybox")
    for applet in APPLETS:
        (image / "bin" / applet).symlink_to("busybox")
    (image / "etc/mark").write_text("from the image\n")
    (image / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:500:500::/:/bin/sh\n")
    (image / "etc/group").write_text("root:x:0:\n")
    shutil.copy("/usr/bin/id", image / "opt/set-uid")
    (image / "opt/set-uid").chmod(0o4755)


@pytest.fixture(scope="module")
def image():
    ready = CACHE / "ready"
    if not ready.exists():
        shutil.rmtree(CACHE, ignore_errors=True)
        make_image(CACHE / "root")
        subprocess.run(["tar", "-C", CACHE / "root", "-cf", CACHE / "root.tar", "."], check=True)
        ready.touch()
    return CACHE / "root"


def test_an_environment_of_the_registry_may_have_a_root_of_its_own(start_server, image):
    place = pathlib.Path(tempfile.mkdtemp(prefix="tb-registry-", dir="/var/tmp"))
    place.chmod(0o755)
    (place / "environments").mkdir()
    (place / "environments/i.yaml").write_text(f"name: imaged\nroot: {image}\nwarm_pool: 1\n")
    try:
        server = start_server(REGISTRY_DIR=place, POOL_SIZE=0)
        for fields, expected in (({"environment": "imaged"}, "from the image\n"), ({}, "")):
            session = server.post("/api/sessions", fields).json["session_id"]
            assert server.execute(session, "cat /etc/mark")["stdout"] == expected
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module", params=["directory", "tar"])
def in_image(binary, image, request):
    source = image if request.param == "directory" else image.with_suffix(".tar")
    server = Server(ENVIRONMENT=f"image:{source}")
    try:
        yield server.start()
        server.close()
    finally:
        server.remove()


@pytest.fixture
def box(in_image):
    return in_image.create()


def test_a_command_sees_the_image_and_nothing_of_the_host(in_image, box):
    assert in_image.stdout(box, "cat /etc/mark") == "from the image\n"
    assert in_image.execute(box, "ls /usr/bin/python3")["exit_code"] != 0
    assert in_image.stdout(box, "pwd; id -u; id -un") == "/workspace\n1000\nsandboxuser\n"


def test_an_interpreter_that_the_image_has_not_is_named(in_image):
    box = in_image.create(policy="open")
    for language, program in (("python", "python3"), ("javascript", "node")):
        reply = in_image.post(f"/api/sessions/{box}/code", {"code": "1", "language": language})
        assert reply.status == 400, reply
        assert f"no {program} in this sandbox" in reply.json["error"]
        assert "an image that has it, or another language" in reply.json["error"]
    reply = in_image.post(f"/api/sessions/{box}/code", {"code": "echo x", "language": "bash"})
    assert reply.json["stdout"] == "x\n"


def test_the_image_keeps_its_users_and_gets_ours(in_image, box):
    users = in_image.stdout(box, "cat /etc/passwd")
    assert "alice:x:500" in users and "sandboxuser:x:1000" in users


def test_the_image_is_read_only_and_the_usual_places_are_writable(in_image, box):
    for place in ("/etc/x", "/opt/x", "/bin/x", "/x", "/etc/mark"):
        answer = in_image.execute(box, f"echo x > {place}")
        assert answer["exit_code"] != 0 and "Read-only" in answer["stderr"], place
    everywhere = "for d in /workspace /tmp ~ /dev/shm; do touch $d/x || exit 1; done;"
    assert in_image.stdout(box, everywhere + "ls /workspace ~").split() == [
        "/home/sandboxuser:", "x", "/workspace:", "x"]


def test_K04_a_set_uid_program_of_the_image_gains_nothing(in_image, box):
    told = in_image.stdout(box, "cat /proc/self/status | grep Uid; /opt/set-uid -u; /opt/set-uid")
    assert told.splitlines()[0].split() == ["Uid:", "1000", "1000", "1000", "1000"]
    assert told.splitlines()[1] == "1000"
    assert "euid=0" not in told


def test_sessions_on_one_image_do_not_share_it(in_image, box):
    other = in_image.create()
    in_image.stdout(box, "echo mine > /tmp/f; echo mine > ~/f")
    assert in_image.stdout(other, "ls /tmp ~") == "/home/sandboxuser:\n\n/tmp:\n"


def test_the_source_of_the_image_is_not_written_to(in_image, image, box):
    assert not (image / "workspace/x").exists()
    assert (image / "etc/passwd").read_text().count("\n") == 2


def test_a_file_that_is_no_tar_is_a_clear_error(binary):
    server = Server(ENVIRONMENT="image:/etc/hostname")
    try:
        done = server.command("run", "true", seconds=PATIENCE)
        assert done.returncode == 1
        assert "/etc/hostname" in done.stderr
    finally:
        server.remove()


def test_the_host_environment_has_its_programs_and_no_secret_of_its_etc(server, session):
    for program in ("jq", "gawk", "bc", "file", "python3", "python", "grep", "sed"):
        assert server.stdout(session, f"command -v {program}"), program
    assert server.execute(session, "cat /etc/shadow")["exit_code"] != 0
    users = server.stdout(session, "cut -d: -f1 /etc/passwd").split()
    assert users == ["root", "sandboxuser", "nobody"]
    assert server.stdout(session, "ls /root /home /mnt /opt /srv /run /var/log").split() == [
        "/home:", "sandboxuser", "/mnt:", "/opt:", "/root:", "/run:", "/srv:", "/var/log:"]


def test_the_host_environment_is_read_only(server, session):
    for place in ("/etc/x", "/usr/x", "/usr/bin/x", "/x", "/var/x", "/run/x", "/dev/x"):
        assert server.execute(session, f"touch {place}")["exit_code"] != 0, place
    assert not os.path.exists("/usr/bin/x")


def test_python_works_as_on_a_host(server, session):
    code = """
import threading, multiprocessing, subprocess, socket, tempfile, ssl, sqlite3, json, ctypes, zlib
results = []
thread = threading.Thread(target=lambda: results.append(1)); thread.start(); thread.join()
with multiprocessing.Pool(2) as pool: results += pool.map(abs, [-1, -2])
results.append(subprocess.run(['echo', 'hi'], capture_output=True).stdout)
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname()); results.append('tcp')
tempfile.NamedTemporaryFile().write(b'x')
sqlite3.connect('/workspace/db').execute('create table t(x)')
print(results)
"""
    assert server.python(session, code) == "[1, 1, 2, b'hi\\n', 'tcp']\n"
