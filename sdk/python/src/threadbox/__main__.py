# SPDX-License-Identifier: Apache-2.0
"""python -m threadbox: try a sandbox from a terminal.

    python -m threadbox --test                     a tour
    python -m threadbox --batch 'cmd1' 'cmd2'      commands in one session
    python -m threadbox 'echo hello'               one command; its exit code is ours
    python -m threadbox --shell                    an interactive shell

With --mode local|remote and --url; see SANDBOX_MODE and SANDBOX_URL.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import NoReturn

from ._errors import SandboxError
from ._interactive import run_shell
from ._sync import BatchSandboxClient, SandboxClient

DEFAULT_URL = "http://localhost:5000"
TOUR = [
    "whoami",
    "pwd",
    "echo 'Hello from sandbox!' > test.txt",
    "cat test.txt && ls -lh test.txt",
    "python3 --version",
]


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: {message}\n")  # 2 would look like a command's exit code


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="python -m threadbox", description="Runs commands in a sandbox.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--test", action="store_true", help="a tour of what a sandbox does")
    what.add_argument("--batch", action="store_true", help="several commands in one session")
    what.add_argument("--shell", action="store_true", help="an interactive shell")
    parser.add_argument("--mode", choices=["local", "remote"], help="in-process, or a server")
    parser.add_argument("--url", help=f"of the server (remote mode: {DEFAULT_URL})")
    parser.add_argument("--api-key", help="for a server that wants one")
    parser.add_argument("--policy", help="which commands may run: strict, wide, open")
    parser.add_argument("--thread", help="the thread whose session --shell uses and keeps")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds (30)")
    parser.add_argument("command", nargs="*", help="bash text")
    options = parser.parse_args(arguments)
    if options.mode == "remote" and options.url is None:
        options.url = DEFAULT_URL
    if not (options.test or options.shell or options.command):
        parser.error("give a command, or --test or --shell")
    return options


def open_client(options: argparse.Namespace) -> SandboxClient:
    return SandboxClient(options.mode, options.url, options.api_key, policy=options.policy)


def show(result: object) -> None:
    assert isinstance(result, dict)  # noqa: S101
    sys.stdout.write(result["stdout"])
    sys.stdout.flush()
    sys.stderr.write(result["stderr"])
    sys.stderr.flush()


def tour(options: argparse.Namespace) -> int:
    failed = 0
    with open_client(options) as client:
        info = client.get_or_create_session("test_user", f"test_{uuid.uuid4().hex[:12]}")
        print(f"session {info['session_id']} ({client.mode} mode)")
        for command in TOUR:
            print(f"$ {command}")
            result = client.execute(command, options.timeout)
            show(result)
            failed += result["exit_code"] != 0
        files = client.list_files()
        names = ", ".join(entry["name"] for entry in files["files"])
        print(f"{files['total_files']} file(s): {names}")
    print("all commands succeeded" if not failed else f"{failed} command(s) failed")
    return int(failed > 0)


def batch(options: argparse.Namespace) -> int:
    client = BatchSandboxClient(options.mode, options.url, options.api_key, policy=options.policy)
    results = client.execute_batch(options.command, options.timeout)
    client.close()
    for command, result in zip(options.command, results, strict=True):
        print(f"$ {command}")
        show(result)
        print(f"[exit code {result['exit_code']}, {result['execution_time_ms']} ms]")
    return int(any(result["exit_code"] != 0 for result in results))


def single(options: argparse.Namespace) -> int:
    with open_client(options) as client:
        client.get_or_create_session("cli_user", f"single_{uuid.uuid4().hex[:12]}")
        result = client.execute(" ".join(options.command), options.timeout)
        show(result)
        return result["exit_code"]


def shell(options: argparse.Namespace) -> int:
    client = open_client(options)
    thread = options.thread or f"shell_{uuid.uuid4().hex[:8]}"
    client.get_or_create_session("shell_user", thread)
    try:
        return run_shell(client)
    finally:
        if options.thread is None:
            client.close_session()
        client.close()


def main(arguments: list[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    work = tour if options.test else batch if options.batch else shell if options.shell else single
    try:
        return work(options)
    except KeyboardInterrupt:
        return 130
    except (SandboxError, OSError, ValueError) as problem:
        print(f"threadbox: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
