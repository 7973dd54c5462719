#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""K01 on a stock kernel with pure cgroup v2: the probe gives the same verdict as on the host."""
import json
import os
import pathlib
import sys

os.environ.setdefault("THREADBOX_PATIENCE", "6")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Server, roomy_place  # noqa: E402

PROBE = pathlib.Path("/opt/threadbox/probes/escape_probe.py")
ACCEPTED = ["NS-11"]


def main():
    server = Server(POOL_SIZE=0).start()
    print("\n".join(server.lines))
    session = server.create("t")
    server.stdout(session, "cat > /tmp/probe.py", stdin=PROBE.read_text())
    answer = server.execute(session, "python3 /tmp/probe.py", timeout=240)
    rows = [json.loads(line) for line in answer["stdout"].splitlines()]
    assert rows and rows[-1]["id"] == "SUMMARY", answer
    failed = [row for row in rows[:-1] if row["ok"] is False]
    print(len(rows), "checks;", [(row["id"], row["sev"]) for row in failed])
    serious = [row for row in failed if row["sev"] in ("crit", "high", "med")]
    assert not serious, serious
    low = sorted(row["id"] for row in failed if row["sev"] == "low")
    assert low == ACCEPTED, [row for row in failed if row["sev"] == "low"]
    assert server.health()["isolation"]["level"] == "full", server.health()["isolation"]
    server.close()


if __name__ == "__main__":
    with roomy_place():
        main()
