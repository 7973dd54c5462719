# SPDX-License-Identifier: Apache-2.0
"""Rows that `threadbox bench` measures itself: their times are too short for a client in Python."""
import json
import os
import subprocess

import place

def environment():
    """Without settings that this shell happens to have, and with the locale that sandboxes have:
    what bash reads at its start depends on it."""
    kept = {name: value for name, value in os.environ.items()
            if not place.lib.SETTINGS.match(name) and not name.startswith("LC_")}
    return {**kept, "LANG": "C.UTF-8", "STATE_DIR": f"{place.lib.PLACE}/tb"}


def run(measured, options, group):
    words = [place.lib.BINARY, "bench", "--samples", "--only", group, "--rounds",
             str(options.rounds)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise place.Missing(done.stderr)
    for row in json.loads(done.stdout):
        measured.extend(row["name"], row["samples"] or [row["value"]], row["unit"])
