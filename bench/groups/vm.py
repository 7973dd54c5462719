# SPDX-License-Identifier: Apache-2.0
"""The memory of sessions, asleep and awake, on a stock Debian kernel with cgroup v2 only, in the VM
of the tests: for machines that have the older kind."""
import json
import re
import shutil
import subprocess
import sys

import host
import place


def run(measured, options):
    if host.cgroup_version() == 2:
        return measured.skip("vm", "this machine has cgroup v2 itself")
    if not shutil.which("qemu-system-x86_64"):
        raise place.Missing("QEMU: apt-get install qemu-system-x86 mmdebstrap cpio")
    words = [sys.executable, "tests/vm/run.py", "bench/in_vm.py", "--verbose", "--binary",
             place.lib.BINARY, "--timeout", "1200", "--file", "bench:bench", "--file",
             "tests/lib:tests/lib"]
    done = subprocess.run(words, cwd=place.ROOT, capture_output=True, text=True, check=False)
    found = re.search(r"^ *measured (.*)$", done.stdout, re.M)
    if not found:
        raise place.Missing(f"the VM: {(done.stdout + done.stderr)[-300:]}")
    told = json.loads(found[1])
    for name, samples in told["series"].items():
        measured.extend(f"{name} (VM)", samples, "KiB")
    for what, details in told["details"].items():
        measured.details[f"{what}, cgroup v2"] = details
