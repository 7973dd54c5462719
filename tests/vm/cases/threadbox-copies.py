#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""On a distribution's kernel with cgroup v2 only: one shell is copied for each command, into the
command's own cgroup, and its end is told."""
import os
import pathlib
import sys

os.environ.setdefault("THREADBOX_PATIENCE", "20")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Server, argv_of, roomy_place, wait_until  # noqa: E402

COPIED = ["bash: started ahead, copied for commands"]
WAITS = ["bash: started ahead, waits for a command"]


def titled(server, session, title):
    return next((p for p in server.sandbox_pids(session, True) if argv_of(p) == title), None)


def main():
    server = Server(POOL_SIZE=0, PRESTART_SECONDS=60).start()
    session = server.create("t")
    server.execute(session, "true")
    original = wait_until(lambda: titled(server, session, COPIED), "there is one to be copied")
    for number in range(5):
        wait_until(lambda: titled(server, session, WAITS), "a copy waits")
        told = server.stdout(session, f"echo {number} $$ $PPID; cat /proc/self/cgroup; "
                                      "grep Seccomp_filters /proc/self/status").split()
        assert told[0] == str(number) and told[2] == "1", told
        assert told[3].startswith("0::/c") and told[5] == "3", told
    assert titled(server, session, COPIED) == original
    answer = server.execute(session, "sleep 60", timeout=1)
    assert answer["timed_out"], answer
    assert server.execute(session, "exit 7")["exit_code"] == 7
    server.close()


if __name__ == "__main__":
    with roomy_place():
        main()
