# SPDX-License-Identifier: Apache-2.0
"""An audit log whose disk is full: the server goes on, and says what is missing."""
import os
import re
import subprocess

import pytest

from server import wait_until


@pytest.fixture
def small_disk(start_server):
    """A server whose audit log has 256 KiB."""
    place = f"/var/tmp/tb-audit-{os.getpid()}"
    os.makedirs(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=True)
    try:
        yield start_server(AUDIT_LOG=place), place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def counted(server, name):
    text = server.get("/metrics").body.decode()
    return int(re.search(rf"^threadbox_audit_{name}_total (\d+)", text, re.M)[1])


def test_a_full_disk_stops_nobody_and_what_is_lost_is_counted(small_disk):
    server, place = small_disk
    session = server.create("t")
    with open(f"{place}/filler", "wb") as filler:
        filler.write(b"x" * 200_000)
    for i in range(10):
        server.execute(session, f"true {i} " + "y" * 15_000)
    wait_until(lambda: counted(server, "lost") > 0, "some are lost")
    assert "audit_failing" in server.log() and "No space left" in server.log()
    server.execute(session, "true")
    os.unlink(f"{place}/filler")
    server.execute(session, "echo after")
    page = server.get("/admin/audit?limit=1000").json
    lost = counted(server, "lost")
    told = [row["lost"] for row in page["entries"] if row["action"] == "audit.lost"]
    assert sum(told) == lost == page["lost"]
    assert any(row.get("command") == "echo after" for row in page["entries"])
    numbers = [row["number"] for row in page["entries"]]
    assert numbers == list(range(numbers[0], 0, -1)), "no line is torn, none is missing unsaid"
    assert "audit_healed" in server.log()
    assert server.terminate() == 0
