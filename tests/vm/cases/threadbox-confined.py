#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""A confined sandbox on a kernel without vm.memfd_noexec: only listed programs can be executed."""
import os
import pathlib
import sys

os.environ.setdefault("THREADBOX_PATIENCE", "6")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from keeper import Box, Keeper  # noqa: E402
from server import Server, roomy_place  # noqa: E402

PROGRAMS = ["ls", "cat", "cp", "python3"]
LOADER = "/lib64/ld-linux-x86-64.so.2"
REFUSED = ("Permission denied", "failed to map segment")
ATTACKS = [
    "rm victim",
    "bash -c 'rm victim'",
    f"{LOADER} /bin/rm victim",
    "cat /bin/rm",
    "cp /bin/ls own; ./own",
    f"cp /bin/ls own; {LOADER} ./own",
    "python3 -c 'import os; os.memfd_create(\"x\")'",
    "python3 -c 'import os; os.execv(\"/bin/rm\", [\"rm\", \"victim\"])'",
]


def main():
    print(os.uname().release, os.path.exists("/proc/sys/vm/memfd_noexec"))
    server = Server(POOL_SIZE=0).start()
    keeper = Keeper(server.state_dir)
    box = Box(keeper, "confined", programs=PROGRAMS, cpu_quota=100000)
    for attack in ATTACKS:
        answer = code, out, err = box.run(attack, timeout=60)
        print(attack, answer)
        assert code != 0 and any(text in err for text in REFUSED), answer
    answer = box.run("ls -d / && python3 -c 'import ctypes, hashlib; print(1)'", timeout=60)
    assert answer[:2] == (0, "/\n1\n"), answer
    program = pathlib.Path("/bin/ls").read_bytes()
    for way in ("/proc/self/fd/0", f"{LOADER} /proc/self/fd/0"):
        answer = box.run(way, stdin=program, timeout=60)
        assert answer[0] != 0 and any(text in answer[2] for text in REFUSED), answer
    box.close()
    keeper.close()
    server.close()


if __name__ == "__main__":
    with roomy_place():
        main()
