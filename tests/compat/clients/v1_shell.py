# SPDX-License-Identifier: Apache-2.0
"""The older interactive shell: v1_shell.py URL. It remembers the directory by itself."""
import sys

import requests


def run(url, session_id, command):
    response = requests.post(f"{url}/execute", json={"session_id": session_id, "command": command})
    response.raise_for_status()
    return response.json()


def step(url, session_id, directory, line):
    """Runs one line and answers the directory after it."""
    if line == "cd" or line.startswith("cd "):
        target = line[2:].strip() or "/workspace"
        result = run(url, session_id, f"cd {directory} && cd {target} && pwd")
        if result["exit_code"] == 0:
            return result["output"].strip()
    else:
        result = run(url, session_id, f"cd {directory} && {line}")
    print(result["output"], end="")
    if result["exit_code"] != 0:
        print(f"[exit code: {result['exit_code']}]")
    return directory


def main(url):
    response = requests.post(f"{url}/create_session")
    response.raise_for_status()
    session_id = response.json()["session_id"]
    directory = run(url, session_id, "pwd")["output"].strip()
    try:
        while True:
            print(f"sandbox:{directory}$ ", end="", flush=True)
            line = sys.stdin.readline()
            if not line or line.strip() in ("exit", "quit"):
                break
            if line.strip():
                try:
                    directory = step(url, session_id, directory, line.strip())
                except requests.RequestException as error:
                    print(f"Error: {error}")
    finally:
        requests.post(f"{url}/cleanup", json={"session_id": session_id})


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://localhost:5000")
