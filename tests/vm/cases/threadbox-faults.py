#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
"""kill -9 of the server loses no byte, kill -9 of the keeper leaves nothing but the files."""
import http.client
import os
import pathlib
import sys
import threading

os.environ.setdefault("THREADBOX_PATIENCE", "6")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Server, roomy_place, wait_until  # noqa: E402

LINES = 3000
TALK = f"for ((i = 0; i < {LINES}; i++)); do echo $i $((i * 7919 % 65521)); done; exit 7"
SAID = "".join(f"{i} {i * 7919 % 65521}\n" for i in range(LINES)).encode()


def forget(server, session):
    try:
        server.try_execute(session, TALK, timeout=60)
    except (OSError, http.client.HTTPException):
        pass


def server_dies(server, session):
    threads = [threading.Thread(target=forget, args=(server, session)) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(row["stdout_bytes"] > 0 for row in server.processes(session)) == 4,
               "all four talk")
    server.restart()
    for thread in threads:
        thread.join()
    assert server.create("t") == session
    for row in server.processes(session)[-4:]:
        row = server.wait_exited(session, row["process_id"])
        assert (row["exit_code"], row["cause"]) == (7, "exited"), row
        assert server.output(session, row["process_id"]) == SAID


def keeper_dies(server, session):
    server.stdout(session, "echo data > f; setsid sleep 999 & true")
    wait_until(lambda: os.path.exists(f"{server.state_dir}/sandboxes/{session}"), "it is recorded")
    server.kill9_keeper()
    assert server.wait() != 0
    wait_until(lambda: server.sandbox_pids() == [], "no process is left")
    wait_until(lambda: not server.mounts() and not server.loops(), "nothing is mounted")
    server.start()
    assert "cleaned_up" in server.log()
    assert server.create("t") == session
    assert server.stdout(session, "cat f") == "data\n"


def main():
    server = Server(POOL_SIZE=1).start()
    session = server.create("t")
    server_dies(server, session)
    print("the server died")
    keeper_dies(server, session)
    print("the keeper died")
    os.kill(server.guest_pid(session), 9)
    wait_until(lambda: server.try_execute(session, "cat f").json.get("stdout") == "data\n",
               "the session is there again")
    server.close()


if __name__ == "__main__":
    with roomy_place():
        main()
