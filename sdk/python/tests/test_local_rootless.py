# SPDX-License-Identifier: Apache-2.0
"""Local mode without root: as a plain user, and where the kernel forbids what that needs."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from local_support import (
    BUILD,
    SOURCE,
    keeper_runs,
    output_of,
    program,
    run_program,
    wait_until,
)

USER = 61234

TEXT = """
import sys, threadbox
client = threadbox.SandboxClient(mode="local", state_dir=sys.argv[1], default_policy="open")
client.get_or_create_session(user_id="u", thread_id="t")
done = client.execute("id -un; echo kept > file; cat file")
print(done["stdout"], done["exit_code"])
client.upload_file_from_bytes("up", b"bytes")
print(client.execute("cat up")["stdout"], client.download_file_to_bytes("file"))
print(client.execute("sleep 100", timeout=0.2)["timed_out"])
client.files.write("d/f", "one two", mode=0o640)
print(client.files.edit("d/f", "two", "2").file.permissions, client.files.read_text("d/f"))
with client.shells.open() as shell:
    shell.run("cd d; x=5")
    print(shell.run("pwd; echo $x").executed.stdout.split())
client.close()
"""


# As a container does: a filter lets unshare(2) fail with EPERM.
FORBID = """
import ctypes, platform, struct
number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
rule = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, rule, 0, 0) == 0
"""


@pytest.fixture
def place():
    """A directory of the user's, with everything that he needs to read in it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    where = tempfile.mkdtemp(prefix="tbr", dir="/tmp")
    shutil.copytree(SOURCE, f"{where}/src")
    shutil.copy(program(), f"{where}/threadbox")
    for library in (BUILD / "python").glob("_native*.so"):
        shutil.copy(library, f"{where}/src/threadbox/")
    os.mkdir(f"{where}/home")
    os.chmod(where, 0o755)
    os.chown(f"{where}/home", USER, USER)
    yield where
    wait_until(lambda: not keeper_runs(f"{where}/home/state"), what="the end of the keeper")
    shutil.rmtree(where)


def as_user(place: str, text: str, before: str = "") -> object:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": f"{place}/home",
        "PYTHONPATH": f"{place}/src",
        "THREADBOX_PROGRAM": f"{place}/threadbox",
    }
    become = f"import os\n{before}\nos.setgroups([]); os.setresgid(*[{USER}] * 3); "
    become += f"os.setresuid(*[{USER}] * 3); os.chdir('/')\n"
    return run_program(
        text, f"{place}/home/state", before=become, cwd="/", env=environment, timeout=60
    )


def test_a_plain_user_has_sandboxes(place):
    done = as_user(place, TEXT)
    if "user namespaces" in done.stderr:
        pytest.skip("this machine forbids user namespaces to users")
    assert output_of(done) == "sandboxuser\nkept\n 0\nbytes b'kept\\n'\nTrue\n" + (
        "-rw-r----- one 2\n['/workspace/d', '5']\n")


def test_what_is_missing_is_said_in_a_sentence(place):
    done = as_user(place, TEXT, FORBID)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "UnsupportedError" in last
    assert "user namespace" in last
    assert "run as root" in last


def test_a_state_directory_that_can_not_be_made_is_named(place):
    text = """
    import threadbox
    client = threadbox.SandboxClient(mode="local", state_dir="/proc/no/where")
    client.get_or_create_session(user_id="u", thread_id="t")
    """
    done = as_user(place, text)
    assert "UnsupportedError" in done.stderr
    assert "/proc/no/where" in done.stderr.strip().splitlines()[-1]
