# SPDX-License-Identifier: Apache-2.0
"""Rows F of the catalogue about paths, links and what is no file: whatever a tenant builds and a
client asks for, the file API stays inside the workspace and answers at once."""
import json

import pytest

from conftest import PRELUDE, quick, refused, start_tenant
from files import (FORM, Raw, download, everything, form, listing, part, query, send_form,
                   upload, upload_form, uploaded)

MIB = 1 << 20


# ---- paths ----

@pytest.mark.parametrize("name", [
    "../../etc/passwd", "/etc/passwd", "..", "../x", "a/../../x", "/workspace/../etc/passwd",
    "..\\..\\etc\\passwd", "a\\..\\..\\x", "/workspace/x", "//etc/passwd", "a/./../../x"])
def test_F01_paths_that_climb_are_400(server, session, name):
    uploaded(server, session, "a/keep", b"x")
    refused(upload(server, session, name, b"x"))
    refused(upload(server, session, "fine", b"x", filename=name))
    refused(download(server, session, name))
    path = "/download_file?" + query(session_id=session, filename=name)
    assert refused(server.get(path)).status == 400
    refused(server.get("/list_files?" + query(session_id=session, path=name)))
    assert everything(server, session) == ["./a", "./a/keep"]


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%2e%2e/x", "%252e%252e%252fx",
                                  "....//x", ";/..x", "..;/x"])
def test_F01_escapes_are_decoded_once_at_most(server, session, name):
    """In JSON and forms they are just odd names; in a query they are decoded once."""
    for reply in (download(server, session, name), upload(server, session, "f", b"mine",
                                                          filename=name)):
        assert reply.status in (200, 400, 404), reply
    reply = server.get(f"/download_file?session_id={session}&filename={name.replace(';', '%3B')}")
    assert reply.status in (200, 400, 404) and b"root:" not in reply.body
    inside = server.stdout(session, "find / -xdev -newer /proc/1 -name '*passwd*' 2>/dev/null; "
                                    "ls -A / | tr '\\n' ' '")
    assert "passwd" not in inside.replace("etc%2fpasswd", "")


@pytest.mark.parametrize("name", [
    b"\xc0\xae\xc0\xae/x", b"\xe0\x80\xae/x", b"\xff\xfe", "．．/x".encode(), "‥/x".encode(),
    "..／x".encode(), "..∕..∕x".encode(), b"a\0b", b"a/.", b"a/..", b"a/"])
def test_F02_overlong_fullwidth_and_NUL_are_400(server, session, name):
    body = form(part("session_id", session), part("filename", name), part("file", b"x", "f"))
    assert refused(send_form(server, body)).status == 400
    quoted = "".join(f"%{byte:02x}" for byte in name)
    reply = server.get(f"/download_file?session_id={session}&filename={quoted}")
    assert refused(reply).status == 400
    assert everything(server, session) == []


@pytest.mark.parametrize("name", ["", ".", "/", "x" * 5000, "a/" + "y" * 256, "a/" * 2500 + "f",
                                  "é" * 128])
def test_F22_paths_that_are_none(server, session, name):
    assert refused(download(server, session, name)).status == 400
    body = form(part("session_id", session), part("file", b"x", name or "."))
    assert refused(send_form(server, body)).status == 400
    assert everything(server, session) == []


def test_the_longest_path_works_and_one_more_does_not(server, session):
    deep = "d/" * 1000 + "f"
    uploaded(server, session, deep, b"deep")
    assert download(server, session, deep).body == b"deep"
    refused(upload(server, session, "d/" * 2000 + "f", b"x"))


# ---- links ----

@pytest.mark.parametrize("target", [
    "/etc/passwd", "/proc/self/environ", "/proc/1/environ", "/proc/self/fd/0", "/proc/self/root",
    "/root", "../etc/passwd", "/dev/zero", "/dev/tty", "/proc/self/cwd/secret"])
def test_F03_F09_links_that_lead_out(server, session, target):
    server.stdout(session, f"ln -s {target} link; ln -s . here; ln -s / top")
    refused(quick(download, server, session, "link"))
    refused(quick(download, server, session, "here/link"))
    refused(quick(upload, server, session, "link", b"x"))
    refused(download(server, session, "top/etc/passwd"))
    refused(server.get("/list_files?" + query(session_id=session, path="top")))
    assert server.stdout(session, "readlink link; wc -l < /etc/passwd").split()[0] == target
    by_name = {file["name"]: file for file in listing(server, session)["files"]}
    assert by_name["link"]["type"] == "symlink" and by_name["link"]["permissions"][0] == "l"
    server.stdout(session, "rm link here top")


def test_F03_links_that_stay_inside_are_followed_for_reading_only(server, session):
    server.stdout(session, "mkdir d; echo inside > d/f; ln -s d/f link; ln -s d way; "
                           "ln -s ../d/f d/up")
    for name in ("link", "way/f", "d/up", "way/up"):
        assert download(server, session, name).body == b"inside\n", name
    refused(upload(server, session, "link", b"x"))
    refused(upload(server, session, "way/new", b"x"))
    assert server.stdout(session, "cat d/f; ls d | wc -l") == "inside\n2\n"


def test_F04_loops_and_chains(server, session):
    server.stdout(session, "ln -s b a; ln -s a b; ln -s self/self self; echo x > c0; "
                           "for i in $(seq 45); do ln -s c$((i-1)) c$i; done")
    for name in ("a", "self", "self/x", "c45"):
        refused(quick(download, server, session, name))
    assert download(server, session, "c30").body == b"x\n"


FLIP = PRELUDE + """
place = sys.argv[1]
os.makedirs('real', exist_ok=True)
open('real/f', 'w').write('inside')
os.symlink(place, 'fake')
os.rename('real', 'd')
os.rename('fake', 'e')
print('ready', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists('/dev/shm/stop'):
    call(316, -100, b'd', -100, b'e', 2)  # renameat2, RENAME_EXCHANGE
"""


@pytest.mark.parametrize("target", ["host", "image"])
def test_F05_F16_a_directory_that_turns_into_a_link_and_back(server, session, canary, target):
    """Reads and writes of d/f, while d and a link out change places as fast as they can."""
    place = canary if target == "host" else "/etc"
    start_tenant(server, session, FLIP, str(place))
    name = "f" if target == "host" else "hostname"
    statuses = {"read": {}, "written": {}}
    connection = server.connect()

    def ask(kind, path, body, headers):
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        statuses[kind][answer.status] = statuses[kind].get(answer.status, 0) + 1
        assert answer.status in (200, 400, 404, 503), (answer.status, data)
        if kind == "read" and answer.status == 200:
            assert data in (b"inside", b"ours"), data

    wanted = json.dumps({"session_id": session, "filename": f"d/{name}"})
    for _ in range(400):
        ask("read", "/download_file", wanted, {"Content-Type": "application/json"})
        ask("written", "/upload_file", upload_form(session, f"d/{name}", b"ours"), FORM)
    connection.close()
    server.stdout(session, "touch /dev/shm/stop")
    assert len(statuses["written"]) > 1, f"no race was run: {statuses}"
    assert server.stdout(session, "grep -c ours /etc/hostname || true") == "0\n"
    assert not [name for name in everything(server, session) if "upload" in name]


def test_parents_that_are_renamed_and_removed_while_uploads_make_them(server, session):
    start_tenant(server, session, PRELUDE + """
print('ready', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists('/dev/shm/stop'):
    for step in (lambda: os.rename('a', 'z'), lambda: os.symlink('/tmp', 'a'),
                 lambda: os.unlink('a'), lambda: os.system('rm -rf z a'),
                 lambda: os.mkdir('a', 0), lambda: os.chmod('a', 0o755)):
        attempt(step)
""")
    seen = {}
    for _ in range(150):
        status = upload(server, session, "a/b/f", b"ours").status
        seen[status] = seen.get(status, 0) + 1
    assert set(seen) <= {200, 400, 403, 503}, seen
    server.stdout(session, "touch /dev/shm/stop")
    assert server.stdout(session, "find /tmp /home -name f -o -name b") == ""


# ---- what is no regular file ----

def test_F08_F09_fifos_sockets_and_directories(server, session):
    server.python(session, "import os, socket\nos.mkfifo('p')\nos.mkdir('dir')\n"
                           "socket.socket(socket.AF_UNIX).bind('s')")
    for name in ("p", "s", "dir"):
        refused(quick(download, server, session, name))
        refused(quick(upload, server, session, name, b"x"))
        refused(server.get("/list_files?" + query(session_id=session, path="p")))
    kinds = {file["name"]: file["permissions"][0] for file in listing(server, session)["files"]}
    assert kinds == {"p": "p", "s": "s", "dir": "d"}
    # With somebody at the other end, too.
    server.execute(session, "sleep 60 > p & sleep 60 < p & true")
    refused(quick(download, server, session, "p"))


def test_F21_a_list_of_everything_that_can_have_a_name(server, session):
    server.python(session, "import os, socket\nos.symlink('/nowhere', 'dangling')\n"
                           "os.makedirs('locked/inner')\nos.chmod('locked', 0)\n"
                           "os.mkfifo('p', 0)\nsocket.socket(socket.AF_UNIX).bind('s')\n"
                           "open('f', 'w')\nos.chmod('f', 0)")
    types = {file["name"]: file["type"] for file in listing(server, session)["files"]}
    assert types == {"dangling": "symlink", "locked": "directory", "p": "other", "s": "other",
                     "f": "file"}
    assert refused(server.get("/list_files?" + query(session_id=session,
                                                     path="locked"))).status == 403
    assert refused(download(server, session, "f")).status == 403
    assert refused(download(server, session, "locked/f")).status == 403
    assert refused(upload(server, session, "locked/f", b"x")).status == 403
    uploaded(server, session, "f", b"replaced")  # as an editor would: the directory is writable


def test_a_locked_workspace_is_403_and_stays_usable(server, session):
    uploaded(server, session, "f", b"x")
    server.stdout(session, "chmod 0 /workspace")
    assert refused(upload(server, session, "g", b"x")).status == 403
    late = form(part("file", b"x", "g"), part("session_id", session))
    assert refused(send_form(server, late)).status == 403
    assert refused(download(server, session, "f")).status == 403
    assert refused(server.get("/list_files?" + query(session_id=session))).status == 403
    assert server.get(f"/status/{session}").status == 200
    moved = "rmdir /workspace; mv /workspace /tmp/x; rm -rf /workspace; chmod 755 /workspace"
    server.execute(session, moved, cwd="/tmp")
    assert uploaded(server, session, "g", b"x")["path"] == "/workspace/g"


# ---- contents that change ----

def test_F11_a_file_that_grows_ends_where_it_ended(server, session):
    server.stdout(session, "head -c 20M /dev/zero > f")
    raw = Raw(server, window=4096).begin_download(session, "f")
    head = raw.read_head()
    server.stdout(session, "head -c 1M /dev/zero >> f")
    assert f"Content-Length: {20 * MIB}\r\n" in head
    assert len(raw.begun) + len(raw.read()) == 20 * MIB
    raw.close()


@pytest.mark.parametrize("change", ["rm f", "head -c 20M /dev/zero > g; mv g f"])
def test_F13_a_file_that_is_replaced_or_removed_is_sent_to_its_end(server, session, change):
    server.stdout(session, "head -c 20M /dev/zero | tr '\\0' x > f")
    raw = Raw(server, window=4096).begin_download(session, "f")
    raw.read_head()
    server.stdout(session, change)
    content = raw.begun + raw.read()
    assert len(content) == 20 * MIB and content.strip(b"x") == b""
    raw.close()


def test_a_file_that_is_cut_does_not_look_complete(server, session):
    server.stdout(session, "head -c 20M /dev/zero > f")
    raw = Raw(server, window=4096).begin_download(session, "f")
    raw.read_head()
    server.stdout(session, ": > f")
    assert len(raw.begun) + len(raw.read()) < 20 * MIB
    raw.close()
    assert download(server, session, "f").body == b""


def test_a_lease_on_a_file_delays_nobody(server, session):
    start_tenant(server, session, PRELUDE + """
import fcntl
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = os.open('f', os.O_CREAT | os.O_RDWR)
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('ready', flush=True)
time.sleep(60)""")
    assert quick(download, server, session, "f").status in (200, 503)
    assert quick(upload, server, session, "f", b"new").status == 200
