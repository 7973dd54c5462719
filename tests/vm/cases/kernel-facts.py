#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what this kernel has; fails only without Landlock, which every kernel we test on has."""
import ctypes
import os
import pathlib

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_CREATE_RULESET_VERSION = 1
FILES = ("cgroup.kill", "memory.swap.max", "memory.peak", "memory.oom.group", "memory.high",
         "cpu.max", "cpu.max.burst", "cpu.pressure", "pids.max", "pids.peak", "pids.events",
         "io.max", "cpuset.cpus")
KNOBS = ("kernel/unprivileged_userns_clone", "user/max_user_namespaces", "kernel/yama/ptrace_scope",
         "kernel/apparmor_restrict_unprivileged_userns", "vm/memfd_noexec", "kernel/pid_max",
         "fs/pipe-user-pages-soft", "vm/overcommit_memory")


def read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError as error:
        return error.strerror


libc = ctypes.CDLL(None, use_errno=True)
abi = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0),
                   ctypes.c_uint32(LANDLOCK_CREATE_RULESET_VERSION))
group = pathlib.Path("/sys/fs/cgroup/facts")
group.mkdir()
present = [name for name in FILES if (group / name).exists()]
group.rmdir()

print("uname -r:", os.uname().release)
print("version:", os.uname().version)
print("landlock abi:", abi if abi >= 0 else os.strerror(ctypes.get_errno()))
print("lsm:", read("/sys/kernel/security/lsm"))
print("controllers:", read("/sys/fs/cgroup/cgroup.controllers"))
print("cgroup files:", *present)
print("missing:", *(name for name in FILES if name not in present))
for knob in KNOBS:
    print(f"{knob}:", read(f"/proc/sys/{knob}"))
print("modules:", *sorted(line.split()[0] for line in read("/proc/modules").splitlines()))
assert abi >= 1
