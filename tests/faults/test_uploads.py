# SPDX-License-Identifier: Apache-2.0
"""Uploads that something goes wrong with: the file is the old one or the new one, never half of
either, and nothing else is left behind."""
import contextlib
import os
import random
import resource
import subprocess
import threading

import pytest

from files import (END, Raw, descriptors, download, everything, form, names, part, send_form,
                   upload, upload_form, uploaded)
from server import wait_until

MIB = 1 << 20
OLD, NEW = b"old" * 1000, b"new" * 200_000


def send_slowly(server, session, name, stop_at):
    """The first bytes of an upload of NEW, or all of it; never waits for the answer."""
    raw = Raw(server)
    with contextlib.suppress(OSError):
        raw.begin_upload(session, name, length=len(NEW))
        body = NEW + END
        raw.send(body[:stop_at])
    return raw


@pytest.mark.parametrize("kills", [30, pytest.param(100, marks=pytest.mark.long)])
def test_FT03_a_server_that_is_killed_leaves_old_or_new(start_server, kills):
    """Three uploads are under way at each kill: one far from its end, two just before it."""
    server = start_server()
    session = server.create("thread")
    chance = random.Random(kills)
    for turn in range(kills):
        uploaded(server, session, "a", OLD)
        offsets = {"a": len(NEW) + len(END), "new/b": len(NEW) + chance.randint(0, len(END)),
                   "c": chance.randint(0, len(NEW))}
        threads = []
        for name, offset in offsets.items():
            threads.append(threading.Thread(target=send_slowly,
                                            args=(server, session, name, offset)))
            threads[-1].start()
        threading.Event().wait(chance.random() * 0.02)
        server.kill9()
        for thread in threads:
            thread.join()
        server.start()
        assert server.create("thread") == session
        wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")
        assert download(server, session, "a").body in (OLD, NEW), turn
        for name in ("new/b", "c"):
            reply = download(server, session, name)
            assert reply.status == 404 or reply.body == NEW, (turn, name, reply.status)
        left = set(everything(server, session)) - {"./a", "./new", "./new/b"}
        assert not left, (turn, left)
        server.stdout(session, "rm -rf a new")
    used = server.stdout(session, "du -sk . | cut -f1")
    assert int(used) < 64, "what was half received takes no room"


def test_the_disk_fills_up_in_the_middle_of_an_upload(start_server):
    server = start_server(MAX_WORKSPACE_SIZE_MB=32)
    session = server.create()
    uploaded(server, session, "f", OLD)
    raw = Raw(server).begin_upload(session, "f", length=8 * MIB).send(bytes(MIB))
    wait_until(lambda: len(server.sandbox_pids(session)) == 2, "the upload is under way")
    filled = server.execute(session, "head -c 100M /dev/zero > rest")
    assert filled["exit_code"] != 0
    raw.send(bytes(7 * MIB)).end_upload()
    assert raw.status() == 507
    raw.close()
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")
    assert download(server, session, "f").body == OLD
    assert everything(server, session) == ["./f", "./rest"]
    assert upload(server, session, "g", bytes(8 * MIB)).status == 507
    server.stdout(session, "rm rest")
    wait_until(lambda: upload(server, session, "f", NEW).status == 200, "there is room again")
    assert download(server, session, "f").body == NEW


def test_a_full_disk_of_directories_is_507_too(start_server):
    """Where not even a name has room."""
    server = start_server(MAX_WORKSPACE_SIZE_MB=16)
    session = server.create()
    server.execute(session, "head -c 100M /dev/zero > f; n=0; "
                            "while mkdir $n 2> /dev/null && [ $n -lt 3000 ]; do n=$((n+1)); done; "
                            "true", timeout=60)
    reply = upload(server, session, "a/b/c/d", b"x" * 100_000)
    assert reply.status in (200, 507), reply
    if reply.status == 507:
        assert reply.json["error"] == "Workspace size limit exceeded"
    assert ".upload" not in server.stdout(session, "find . -name '.upload*'")


def test_the_server_s_own_disk_is_full(start_server, tmp_path):
    """Only uploads that name their session last wait there."""
    server = start_server()
    session = server.create()
    server.stdout(session, "true")
    place = os.path.join(server.state_dir, "output")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "none", place], check=True)
    try:
        late = form(part("file", bytes(2 * MIB), "f"), part("session_id", session))
        reply = send_form(server, late)
        assert reply.status == 503 and "room" in reply.json["error"], reply
        assert upload(server, session, "g", bytes(2 * MIB)).status == 200
        small = form(part("file", b"x", "h"), part("session_id", session))
        assert send_form(server, small).status == 200
    finally:
        wait_until(lambda: not [name for name in descriptors(server.process.pid)
                                if name.startswith(place)], "nothing is open there")
        subprocess.run(["umount", place], check=True)
    assert names(server, session) == ["g", "h"]


def test_FT29_downloads_beyond_the_descriptors_are_503(start_server):
    """Nobody is told that a file is not there because the server has no descriptor for it."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))

    server = start_server(preexec=few, POOL_SIZE=0)
    session = server.create()
    server.stdout(session, "head -c 20M /dev/zero > f")
    with contextlib.ExitStack() as stack:
        statuses = []
        for _ in range(96):
            raw = Raw(server, window=4096)
            stack.callback(raw.close)
            raw.socket.settimeout(0.5)
            raw.begin_download(session, "f")
            try:
                statuses.append(raw.status())
            except (AssertionError, OSError):
                break
    assert statuses.count(200) > 5 and set(statuses) <= {200, 503}, statuses
    wait_until(lambda: len(descriptors(server.process.pid)) < 60, "all is closed again")
    assert download(server, session, "f", Range="bytes=0-3").body == bytes(4)


def test_a_sandbox_that_dies_during_an_upload(start_server):
    server = start_server()
    session = server.create("thread")
    uploaded(server, session, "f", OLD)
    raw = Raw(server).begin_upload(session, "f", length=len(NEW)).send(NEW[:1000])
    wait_until(lambda: len(server.sandbox_pids(session)) == 2, "the upload is under way")
    os.kill(server.guest_pid(session), 9)
    with contextlib.suppress(ConnectionError):
        raw.send(NEW[1000:]).end_upload()
        assert raw.status() == 503
    raw.close()
    # Its helper may have been ended after the last step, before it could tell.
    wait_until(lambda: download(server, session, "f").body in (OLD, NEW), "the session is back")
    assert everything(server, session) == ["./f"]
    assert send_form(server, upload_form(session, "f", NEW)).status == 200
