# SPDX-License-Identifier: Apache-2.0
"""The client of both Flask generations: a pool behind a coordinator, uploads, time limits."""
import os
import sys

import requests


class SandboxClient:
    def __init__(self, server_url="http://localhost:8000"):
        self.server_url = server_url.rstrip("/")
        self.session_id = None
        self.worker = None

    def create_session(self):
        response = requests.post(f"{self.server_url}/create_session", timeout=10)
        response.raise_for_status()
        data = response.json()
        self.session_id = data["session_id"]
        self.worker = data.get("worker")
        return self.session_id

    def execute(self, command, timeout=30):
        self._need_session()
        body = {"session_id": self.session_id, "command": command, "timeout": timeout}
        response = requests.post(f"{self.server_url}/execute", json=body, timeout=timeout + 5)
        response.raise_for_status()
        return response.json()

    def upload_file(self, file_path, remote_name=None):
        self._need_session()
        name = remote_name or os.path.basename(file_path)
        with open(file_path, "rb") as file:
            response = requests.post(f"{self.server_url}/upload_file", files={"file": (name, file)},
                                     data={"session_id": self.session_id}, timeout=60)
        response.raise_for_status()
        return response.json()

    def get_status(self):
        self._need_session()
        response = requests.get(f"{self.server_url}/status/{self.session_id}", timeout=5)
        response.raise_for_status()
        return response.json()

    def cleanup(self):
        if not self.session_id:
            return
        try:
            requests.post(f"{self.server_url}/cleanup", json={"session_id": self.session_id},
                          timeout=10)
        except requests.RequestException as error:
            print(f"Cleanup failed: {error}")
        self.session_id = None
        self.worker = None

    def _need_session(self):
        if not self.session_id:
            raise ValueError("No active session. Call create_session() first.")

    def __enter__(self):
        self.create_session()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.cleanup()


class BatchSandboxClient:
    def __init__(self, server_url="http://localhost:8000"):
        self.server_url = server_url

    def execute_batch(self, commands, timeout=30):
        results = []
        with SandboxClient(self.server_url) as client:
            for command in commands:
                try:
                    result = client.execute(command, timeout=timeout)
                except Exception as error:  # the rest still runs
                    result = {"exit_code": -1, "output": f"Error: {error}"}
                results.append({"command": command, **result})
        return results


def self_test(url):
    with SandboxClient(url) as client:
        print(f"Session: {client.session_id} (worker: {client.worker})")
        for command in ("whoami", "pwd", "echo 'Hello from sandbox!' > test.txt",
                        "cat test.txt && ls -lh test.txt", "python3 --version"):
            result = client.execute(command)
            print(f"$ {command}\n{result['output']}(exit {result['exit_code']})")
        print(f"Status: {client.get_status()['status']}")


def batch(url, commands):
    for result in BatchSandboxClient(url).execute_batch(commands):
        print(f"$ {result['command']}\n{result['output']}(exit {result['exit_code']})")


def single(url, command):
    with SandboxClient(url) as client:
        result = client.execute(command)
    print(result["output"], end="")
    return result["exit_code"]


def main(arguments):
    url = "http://localhost:5000"
    if "--url" in arguments:
        at = arguments.index("--url")
        url = arguments[at + 1]
        del arguments[at:at + 2]
    if not arguments:
        print("Usage: sandbox_client_v2.py [--url URL] --test | --batch CMD... | CMD")
        return 1
    if arguments[0] == "--test":
        return self_test(url)
    if arguments[0] == "--batch":
        return batch(url, arguments[1:])
    return single(url, arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
