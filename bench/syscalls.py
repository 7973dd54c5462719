#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which system calls one /execute takes, and of whom: bench/syscalls.py [COMMAND] [--fresh]

strace counts them over many commands; where time goes is another question, for it slows all down.
--fresh starts no shells ahead, and counts those of the command itself as well: a shell that waits
under strace looks as if it were stopped, and is given nothing. Needs root, strace and a build.
"""
import argparse
import collections
import contextlib
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import host  # noqa: E402
import place  # noqa: E402

LINE = re.compile(r"(?:(\d+) +)?(?:<\.\.\. )?(\w+)(?:\(| resumed)")
WAITS = {"epoll_wait", "futex", "poll"}


@contextlib.contextmanager
def traced(pids, alone, folder):
    """strace of each, until the block ends; of `alone` without its children."""
    running = [subprocess.Popen(["strace", "-q", *([] if pid == alone else ["-f"]), "-o",
                                 folder / str(pid), "-p", str(pid)], stderr=subprocess.DEVNULL)
               for pid in pids]
    for pid in pids:
        place.lib.wait_until(lambda p=pid: host.status_kib(p, "TracerPid"), "strace is there")
    try:
        yield
    finally:
        for one in running:
            one.send_signal(signal.SIGINT)
            one.wait(20)


def calls_in(path):
    """(pid, name) of every call; one that was interrupted by another's line counts once. Where
    there is one process only, it is not named."""
    for line in path.read_text(errors="replace").splitlines():
        found = LINE.match(line)
        if found and "<unfinished" not in line:
            yield int(found[1] or path.name), found[2]


def who(pid, traced_pid, names):
    return names[traced_pid] if pid == traced_pid else {
        "server": "server's other threads", "PID 1": "the command's processes"}.get(
            names[traced_pid], names[traced_pid])


def counted(options):
    settings = {"PRESTART_SECONDS": "0" if options.fresh else "30"}
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder, place.connected(**settings) as (server, client):
        session = client.create()
        guest = server.guest_pid(session)
        names = {server.process.pid: "server", server.keeper_pid(): "keeper", guest: "PID 1"}

        def ready():
            return options.fresh or host.children(guest)
        for _ in range(5):
            client.execute(session, options.command)
            place.lib.wait_until(ready, "a shell waits")
        with traced(names, None if options.fresh else guest, pathlib.Path(folder)):
            for _ in range(options.rounds):
                client.execute(session, options.command)
                place.lib.wait_until(ready, "a shell waits")
        for pid in names:
            for caller, name in calls_in(pathlib.Path(folder, str(pid))):
                counts[who(caller, pid, names)][name] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", default="true")
    parser.add_argument("--fresh", action="store_true", help="start no shells ahead")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    if not shutil.which("strace"):
        sys.exit("strace is not installed: apt-get install strace")
    for name, calls in counted(options).items():
        each = {call: count / options.rounds for call, count in calls.items()}
        total = sum(each.values())
        print(f"{name}: {total:.1f} calls, {sum(map(each.get, WAITS & set(each))):.1f} of them "
              "waits")
        for call, count in sorted(each.items(), key=lambda item: -item[1]):
            if count >= 0.1:
                print(f"  {count:6.1f} {call}")


if __name__ == "__main__":
    main()
