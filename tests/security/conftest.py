# SPDX-License-Identifier: Apache-2.0
"""Ways to look at a sandbox from within: Python code, system calls, and the probe's rows."""
import json
import pathlib

import pytest

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
