#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
"""Limits on pure cgroup v2: memory, processes, disk and CPU are the kernel's, and have a cause."""
import os
import pathlib
import sys

os.environ.setdefault("THREADBOX_PATIENCE", "6")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Server, read_text, roomy_place, wait_until  # noqa: E402


HOG = "exec python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'"


def memory(server, session):
    answer = server.execute(session, HOG, timeout=60)
    assert (answer["exit_code"], answer["cause"], answer["signal"]) == (137, "oom", 9), answer
    assert "memory" in answer["limits_hit"]
    answer = server.execute(session, "head -c 1G /dev/zero > /dev/shm/f; rm /dev/shm/f", timeout=60)
    assert "No space" in answer["stderr"] or answer["cause"] == "oom", answer


def processes(server, session):
    answer = server.execute(session, "for i in $(seq 80); do sleep 25 & done; wait", timeout=40)
    assert "pids" in answer["limits_hit"], answer
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "only PID 1 is left", 90)


def disk(server, session):
    answer = server.execute(session, "head -c 64M /dev/zero > f; code=$?; sync; stat -c %s f; "
                                     "exit $code", timeout=100)
    assert answer["exit_code"] != 0 and int(answer["stdout"]) <= 48 << 20, answer
    answer = server.execute(session, "rm f; for i in $(seq 20); do head -c 4M /dev/urandom > $i || "
                                     "exit 9; done", timeout=100)
    assert answer["exit_code"] == 9, answer
    assert "quota" in answer["stderr"].lower() or "No space" in answer["stderr"], answer
    assert "disk" in answer["limits_hit"], answer
    assert server.stdout(session, "rm *; echo x > f; cat f") == "x\n"


def cpu(server, session):
    top = server.cgroups()
    assert len(top) == 1, "one hierarchy"
    assert read_text(f"{top[0]}/{session}/cpu.max").split() == ["50000", "100000"]
    assert read_text(f"{top[0]}/{session}/memory.max").strip() == str(64 << 20)
    assert read_text(f"{top[0]}/{session}/memory.swap.max").strip() == "0"
    assert read_text(f"{top[0]}/{session}/pids.max").strip() == "33"  # 32, and a shell to copy
    answer = server.execute(session, "for i in 1 2 3; do timeout 4 bash -c 'while :; do :; done' & "
                                     "done; wait", timeout=60)
    assert "cpu" in answer["limits_hit"], answer
    assert answer["cpu_time_ms"] < 0.65 * answer["execution_time_ms"], answer


def main():
    server = Server(MEMORY_LIMIT="64m", PIDS_LIMIT=32, MAX_WORKSPACE_SIZE_MB=48, CPU_QUOTA=50000,
                    POOL_SIZE=0).start()
    session = server.create("t")
    for check in (cpu, memory, processes, disk):
        check(server, session)
        assert server.stdout(session, "echo usable") == "usable\n"
        print(check.__name__, "holds")
    server.close()


if __name__ == "__main__":
    with roomy_place():
        main()
