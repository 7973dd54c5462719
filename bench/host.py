# SPDX-License-Identifier: Apache-2.0
"""What this machine is, and what programs on it take of its memory."""
import os
import pathlib
import platform
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNEL = ("Slab", "KernelStack", "PageTables", "Percpu", "Shmem")


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def cgroup_version():
    return 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1


def processor():
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def description():
    distribution = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines()
                        if "=" in line).get("PRETTY_NAME", "").strip('"')
    revision = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True,
                              capture_output=True, check=False).stdout.strip()
    return {"processor": processor(), "cores": os.cpu_count(),
            "memory_gib": round(meminfo()["MemTotal"] / 2**20, 1), "kernel": platform.release(),
            "distribution": distribution, "cgroup": cgroup_version(), "revision": revision,
            "load_before": round(os.getloadavg()[0], 2),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def in_words(machine):
    return (f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB, "
            f"{machine['distribution']}, Linux {machine['kernel']}, cgroup v{machine['cgroup']}")


def meminfo():
    """In KiB."""
    rows = (line.split() for line in read("/proc/meminfo").splitlines())
    return {row[0].rstrip(":"): int(row[1]) for row in rows}


def kernel_kib():
    """What the kernel holds for everybody, pages of memory file systems too. The memory of other
    programs is not in it, so that they disturb little."""
    told = meminfo()
    return sum(told.get(name, 0) for name in KERNEL)


def rollup(pid, key):
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def pss_kib(pids):
    """The share that processes have of what they map."""
    return sum(rollup(pid, "Pss") for pid in pids)


def children(pid):
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def descendants(pid):
    found = children(pid)
    for child in list(found):
        found += descendants(child)
    return found


def status_kib(pid, key):
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def reset_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


class Batches:
    """Memory of things that are made by and by: of each batch, its share for each thing."""

    def __init__(self, used):
        self.used, self.before = used, used()

    def done(self, count):
        after = self.used()
        each = (after - self.before) / count
        self.before = after
        return each
