# SPDX-License-Identifier: Apache-2.0
"""The first generation's client: a session is a container, a command is a POST."""
import requests


class SandboxClient:
    def __init__(self, server_url="http://localhost:5000"):
        self.server_url = server_url  # a trailing slash stays
        self.session_id = None

    def create_session(self):
        response = requests.post(f"{self.server_url}/create_session")
        response.raise_for_status()
        self.session_id = response.json()["session_id"]
        return self.session_id

    def execute(self, command):
        if not self.session_id:
            raise ValueError("No active session. Call create_session() first.")
        response = requests.post(f"{self.server_url}/execute",
                                 json={"session_id": self.session_id, "command": command})
        response.raise_for_status()
        return response.json()

    def cleanup(self):
        if self.session_id:
            requests.post(f"{self.server_url}/cleanup", json={"session_id": self.session_id})
            self.session_id = None

    def __enter__(self):
        self.create_session()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.cleanup()


def main():
    with SandboxClient() as client:
        print(f"Session: {client.session_id}")
        for command in ("ls -la", "echo 'Hello from sandbox!' > test.txt", "cat test.txt"):
            result = client.execute(command)
            print(f"$ {command}\n{result['output']}(exit {result['exit_code']})")


if __name__ == "__main__":
    main()
