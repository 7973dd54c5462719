#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""A timeout ends the whole tree (cgroup.kill), a normal end leaves the background alive."""
import os
import pathlib
import sys

os.environ.setdefault("THREADBOX_PATIENCE", "6")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Server, roomy_place, wait_until  # noqa: E402

TREES = ("setsid sleep 600 & sleep 600",
         'setsid nohup sh -c "sleep 600; touch alive" >/dev/null 2>&1 & sleep 600',
         "( ( setsid sleep 600 & ) & ); trap '' TERM; while :; do sleep 1; done",
         "sleep 600 & kill -STOP $!; kill -STOP $$")


def main():
    server = Server(POOL_SIZE=0).start()
    session = server.create("t")
    for command in TREES:
        answer = server.execute(session, command, timeout=2)
        assert (answer["cause"], answer["exit_code"]) == ("timeout", 124), answer
        wait_until(lambda: len(server.sandbox_pids(session)) == 1, f"all of {command} are dead", 10)
    answer = server.execute(session, "sleep 999 & echo $!")
    pid = answer["stdout"].strip()
    assert server.execute(session, "sleep 99", timeout=1)["cause"] == "timeout"
    assert server.execute(session, f"kill -0 {pid}")["exit_code"] == 0
    server.cleanup(session)
    assert server.sandbox_pids() == []
    server.close()


if __name__ == "__main__":
    with roomy_place():
        main()
