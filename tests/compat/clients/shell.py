# SPDX-License-Identifier: Apache-2.0
"""The newer interactive shell: shell.py --mode remote --url URL, over the dual-mode client."""
import argparse
import sys
import uuid

from enhanced_client import SandboxClient


def step(client, directory, line):
    """Runs one line and answers the directory after it."""
    if line == "cd" or line.startswith("cd "):
        target = line[2:].strip() or "/workspace"
        result = client.execute(f"cd {directory} && cd {target} && pwd")
        if result["exit_code"] == 0:
            return result["stdout"].strip()
    else:
        result = client.execute(f"cd {directory} && {line}")
    print(result["stdout"], end="")
    print(result["stderr"], end="", file=sys.stderr)
    if result["exit_code"] != 0:
        print(f"[exit code: {result['exit_code']}]")
    return directory


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("local", "remote"), default="local")
    parser.add_argument("--url", default="http://localhost:5000")
    options = parser.parse_args()
    url = options.url if options.mode == "remote" else None
    with SandboxClient(options.mode, url) as client:
        client.get_or_create_session("shell_user", f"shell_{uuid.uuid4().hex[:8]}")
        directory = client.execute("pwd")["stdout"].strip()
        while True:
            print(f"sandbox:{directory}$ ", end="", flush=True)
            line = sys.stdin.readline()
            if not line or line.strip() in ("exit", "quit"):
                break
            if line.strip():
                try:
                    directory = step(client, directory, line.strip())
                except Exception as error:
                    print(f"Error: {error}")


if __name__ == "__main__":
    main()
