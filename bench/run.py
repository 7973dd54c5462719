#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this machine, every row beside its counterpart in the same run (docs/performance.md).

bench/run.py [--only GROUP] [--full | --quick]    prints the table, writes JSON and an HTML page
bench/run.py compare OLD.json NEW.json            row by row; exit code 1 when one got worse
bench/run.py show RUN.json                        the table and the page of a run of earlier
"""
import argparse
import importlib
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import compare  # noqa: E402
import host  # noqa: E402
import page  # noqa: E402
import report  # noqa: E402
from groups import native  # noqa: E402
from rows import FULL  # noqa: E402
from series import Measured  # noqa: E402

NATIVE = ("request", "http", "rush", "throughput", "code")
GROUPS = (*NATIVE, "transfer", "density", "vm", "leak", "docker", "peers")
# What a try takes minutes for; what the table asks for; what tests only want to see run.
SIZES = {
    "usual": {"rounds": 500, "peer_rounds": 30, "transfers": 8, "megabytes": 100, "turns": 3,
              "sessions": 500, "commands": 20_000, "churn": 1_000},
    "full": {"rounds": 3000, "peer_rounds": 100, "transfers": 20, "megabytes": 100, "turns": 5,
             **FULL},
    "quick": {"rounds": 6, "peer_rounds": 3, "transfers": 1, "megabytes": 5, "turns": 1,
              "sessions": 15, "commands": 40, "churn": 4},
}


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.
                                     RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=GROUPS, help="these groups of rows")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="as large as the table asks; an hour")
    size.add_argument("--quick", action="store_true", help="a few rounds, to see that it runs")
    for name in SIZES["usual"]:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "build" / "bench",
                        help="folder of run.json and run.html (build/bench)")
    parser.add_argument("--write-docs", action="store_true",
                        help="also put the table into docs/performance.md")
    options = parser.parse_args(arguments)
    sizes = SIZES["full" if options.full else "quick" if options.quick else "usual"]
    for name, value in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def measure(options):
    described = host.description()
    began = time.monotonic()
    measured = Measured(say)
    for name in options.only or GROUPS:
        say(name)
        try:
            if name in NATIVE:
                native.run(measured, options, name)
            else:
                importlib.import_module(f"groups.{name}").run(measured, options)
        except Exception as error:  # the other groups are worth having
            measured.skip(name, f"{type(error).__name__}: {error}")
    sizes = argparse.Namespace(**{name: getattr(options, name) for name in SIZES["usual"]})
    return report.to_json(measured, sizes, described, time.monotonic() - began)


def write(result, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(result) + "\n")
    (folder / "run.html").write_text(page.to_html(result))
    say(f"written: {folder}/run.json, {folder}/run.html")


def main(arguments):
    if arguments[:1] == ["compare"] and len(arguments) == 3:
        text, worse = compare.told(*(json.loads(pathlib.Path(name).read_text())
                                     for name in arguments[1:]))
        print(text, end="")
        return int(worse)
    if arguments[:1] == ["show"] and len(arguments) == 2:
        path = pathlib.Path(arguments[1])
        result = json.loads(path.read_text())
        path.with_suffix(".html").write_text(page.to_html(result))
        print(report.to_text(result), end="")
        return 0
    options = parsed(arguments)
    if os.geteuid() != 0:
        say("not root: sandboxes lack barriers, and some rows fail")
    result = measure(options)
    write(result, options.out)
    if options.write_docs:
        report.write_docs(result, HERE.parent / "docs" / "performance.md")
    print(report.to_text(result), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
