# SPDX-License-Identifier: Apache-2.0
"""What a server, its keeper and its sandboxes hold on the machine, counted before and after work:
what is more afterwards has leaked."""
import os

import time

from server import read_text, wait_until


def pss_kib(pid):
    """The memory of a process, its share of what it has in common with others."""
    for line in read_text(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def cgroup_dirs(server):
    return sum(len(list(os.walk(top))) for top in server.cgroups())


def files_in(folder):
    """Without the audit log: it is there to grow, by files of 64 MiB up to its own limit."""
    return sum(len(names) + len(folders) for place, folders, names in os.walk(folder)
               if os.path.basename(place) != "audit")


def held(server):
    """Things, without memory: by kind, how many."""
    keeper = server.keeper_pid()
    return {"server's descriptors": descriptors(server.process.pid),
            "keeper's descriptors": descriptors(keeper),
            "mounts": len(server.mounts()),
            "cgroups": cgroup_dirs(server),
            "files": files_in(server.state_dir),
            "loop devices": len(server.loops()),
            "processes": len(server.sandbox_pids(ahead=True))}


def memory_kib(server):
    return {"server": pss_kib(server.process.pid), "keeper": pss_kib(server.keeper_pid())}


def left(before, after):
    """What there is more of, as `kind: before → after`."""
    return [f"{kind}: {before[kind]} → {after[kind]}" for kind in after
            if after[kind] > before[kind]]


def settled(server, pool, seconds=60):
    """held(), once no session lives, the pool is full again and nothing moves any more."""
    looks = [None]

    def same():
        health = server.health()
        if health["active_sessions"] or health["pool_available"] != pool:
            return False
        time.sleep(1)
        looks.append(held(server))
        return looks[-1] == looks[-2]
    wait_until(same, lambda: f"nothing moves: {server.health()} {looks[-2:]}", seconds)
    return looks[-1]
