#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Runs in the VM of tests/vm (bench/groups/vm.py puts it there): the memory of sessions, asleep
and awake, on a kernel with cgroup v2 only, as one line of JSON. How fast an emulated machine is
tells nothing."""
import argparse
import json
import os
import sys

HERE = "/opt/threadbox"
os.environ["THREADBOX_BINARY"] = f"{HERE}/threadbox"
os.environ["THREADBOX_PATIENCE"] = "6"
sys.dont_write_bytecode = True
sys.path.insert(0, f"{HERE}/bench")

import place  # noqa: E402
from groups import density  # noqa: E402
from series import Measured  # noqa: E402

SESSIONS = 60


def main():
    measured = Measured()
    with place.lib.roomy_place():
        density.memory(measured, argparse.Namespace(sessions=SESSIONS))
    print("measured " + json.dumps({
        "series": {name: one.samples for name, one in measured.series.items()},
        "details": measured.details}))


if __name__ == "__main__":
    main()
