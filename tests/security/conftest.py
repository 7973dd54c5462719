# SPDX-License-Identifier: Apache-2.0
"""Ways to look at a sandbox from within: Python code, system calls, and the probe's rows."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from attack import Box

CANARY = "the host's own"
PROBE = pathlib.Path(__file__).parent / "probes" / "escape_probe.py"

PRELUDE = """
import ctypes, errno, json, os, signal, socket, struct, sys, time
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
def call(number, *args):
    '''The errno's name, or "OK".'''
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if _libc.syscall(ctypes.c_long(number), *words) == -1:
        return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
    return "OK"
def attempt(function, *args):
    '''The errno's name, or "OK".'''
    try:
        function(*args)
        return "OK"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def tell(value):
    print(json.dumps(value))
"""


def run_probe(server, session, *options, timeout=60):
    """The probe's rows by id, as the session's user sees them."""
    server.stdout(session, "cat > /tmp/probe.py", stdin=PROBE.read_text())
    command = " ".join(["python3", "/tmp/probe.py", *options])
    answer = server.execute(session, command, timeout=timeout)
    rows = [json.loads(line) for line in answer["stdout"].splitlines()]
    assert rows and rows[-1]["id"] == "SUMMARY", answer
    return {row["id"]: row for row in rows}


def start_tenant(server, session, code, *words):
    """A program of the tenant's in the background, once it has said that it is ready."""
    server.stdout(session, "cat > /dev/shm/p.py", stdin=code)
    server.execute(session, "python3 /dev/shm/p.py " + " ".join(words) + " > /dev/shm/said 2>&1 & "
                            "until grep -q . /dev/shm/said; do sleep 0.01; done")
    assert server.stdout(session, "cat /dev/shm/said") == "ready\n"


def quick(function, *args, seconds=3, **fields):
    began = time.monotonic()
    reply = function(*args, **fields)
    assert time.monotonic() - began < seconds, "an answer that has to wait for nobody"
    return reply


def refused(reply):
    """A clear refusal: 4xx, with a text, and nothing of any file in it."""
    assert 400 <= reply.status < 500, reply
    assert reply.json["error"] and reply.json["detail"] == reply.json["error"]
    assert b"root:" not in reply.body and CANARY.encode() not in reply.body
    return reply


@pytest.fixture
def inside(server, session):
    """Runs Python code in a fresh session; what it tells is the answer."""
    def run(code, **fields):
        return json.loads(server.python(session, PRELUDE + code, **fields))
    return run


@pytest.fixture(scope="session")
def probe(server):
    session = server.create()
    yield run_probe(server, session)
    server.cleanup(session)


@pytest.fixture(scope="session")
def canary(tmp_path_factory):
    """A file and a directory of the host that nothing here may read or change."""
    place = tmp_path_factory.mktemp("canary")
    (place / "f").write_text(CANARY)
    yield place
    assert (place / "f").read_text() == CANARY
    assert os.listdir(place) == ["f"]


@pytest.fixture
def make_box():
    boxes = []

    def make(**settings):
        box = Box(**settings)
        boxes.append(box)
        assert box.serve(), "the server did not start"
        return box
    yield make
    for box in boxes:
        box.close()


@pytest.fixture
def box(make_box):
    return make_box()


@pytest.fixture
def small_disk():
    """A state directory on 40 MiB: too small for a pool, soon full."""
    path = tempfile.mkdtemp(prefix="tb-attack-", dir="/tmp")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", path], check=True)
    yield path
    for _ in range(50):
        if subprocess.run(["umount", path], stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(0.1)
    shutil.rmtree(path, ignore_errors=True)
