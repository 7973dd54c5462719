# SPDX-License-Identifier: Apache-2.0
"""What the host gives a server before others, sandboxes don't get."""
import contextlib
import os

import pytest

from conftest import PRELUDE
from server import Server


def be_preferred():
    os.nice(-5)
    # Root in a container may not.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("-500")


def oom_score_adj(pid):
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
        return int(file.read())


@pytest.fixture
def preferred(binary):
    server = Server()
    server.preexec = be_preferred
    try:
        server.start()
        yield server
        server.close()
    finally:
        server.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts something before others")
def test_K40_a_keepers_priority_is_not_passed_on(preferred):
    keeper, session = preferred.keeper_pid(), preferred.create()
    assert os.getpriority(os.PRIO_PROCESS, keeper) == -5
    guest = preferred.guest_pid(session)
    assert (os.getpriority(os.PRIO_PROCESS, guest), oom_score_adj(guest)) == (0, 0)
    told = preferred.python(session, PRELUDE + """
def protect():
    with open('/proc/self/oom_score_adj', 'w') as file: file.write('-500')
tell([os.getpriority(os.PRIO_PROCESS, 0), open('/proc/self/oom_score_adj').read().strip(),
      attempt(os.setpriority, os.PRIO_PROCESS, 0, -5), attempt(protect)])
""")
    assert told.strip() == '[0, "0", "EACCES", "EACCES"]', told
