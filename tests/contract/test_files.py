# SPDX-License-Identifier: Apache-2.0
"""Files of a session, seen from outside: always below the workspace, always as the tenant."""
import os

import pytest

MIB = 1 << 20


def names(server, session, path=""):
    reply = server.get(f"/list_files?session_id={session}" + (f"&path={path}" if path else ""))
    assert reply.status == 200, reply
    return sorted(one["name"] if isinstance(one, dict) else one for one in reply.json["files"])


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3 * MIB + 7])
def test_bytes_come_back_as_they_went(server, session, size):
    content = os.urandom(size)
    assert server.upload(session, "f", content).status == 200
    assert server.stdout(session, "stat -c %s f") == f"{size}\n"
    assert server.download(session, "f").body == content


def test_an_upload_belongs_to_the_tenant(server, session):
    assert server.upload(session, "a/b/c.txt", b"hello").status == 200
    told = server.stdout(session, "stat -c '%u %g %a' a/b/c.txt a/b; cat a/b/c.txt")
    assert told == "1000 1000 644\n1000 1000 755\nhello"
    assert server.execute(session, "echo more >> a/b/c.txt && rm -r a")["exit_code"] == 0


def test_what_a_command_wrote_is_downloaded(server, session):
    server.stdout(session, "seq 1 100000 > out.txt")
    text = "".join(f"{n}\n" for n in range(1, 100001)).encode()
    assert server.download(session, "out.txt").body == text


def test_an_upload_takes_the_place_of_a_file_and_keeps_its_mode(server, session):
    server.stdout(session, "echo old > run.sh; chmod 755 run.sh")
    assert server.upload(session, "run.sh", b"echo new").status == 200
    assert server.stdout(session, "./run.sh") == "new\n"


def test_listings_name_what_is_there(server, session):
    server.stdout(session, "mkdir d; touch a b d/c")
    assert {"a", "b"} <= set(names(server, session))


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "d/../../up"])
def test_nothing_leads_out_by_name(server, session, name):
    assert server.upload(session, name, b"x").status in (400, 403)
    assert server.download(session, name).status in (400, 403, 404)


def test_nothing_leads_out_by_a_link(server, session):
    server.stdout(session, "ln -s /etc/passwd p; ln -s / root; ln -s loop loop; mkfifo pipe")
    for name in ("p", "root/etc/passwd", "loop", "pipe"):
        assert server.download(session, name).status in (400, 403, 404), name
    assert server.upload(session, "root/tmp/x", b"x").status in (400, 403, 404)
    assert server.upload(session, "p", b"x").status in (400, 403)


def test_a_missing_file_is_404(server, session):
    assert server.download(session, "nothing").status == 404


def test_many_files_at_once(server, session):
    server.stdout(session, "for i in $(seq 300); do echo $i > f$i; done")
    assert len([name for name in names(server, session) if name.startswith("f")]) == 300
