# SPDX-License-Identifier: Apache-2.0
"""The dual-mode client: a session for each thread, found again or made anew."""
import logging
import os
import sys
import uuid

import requests

logger = logging.getLogger(__name__)


class SessionExpiredError(Exception):
    pass


class SandboxClient:
    def __init__(self, mode="local", server_url=None):
        self.mode = mode
        self.session_id = self.user_id = self.thread_id = None
        if mode == "local":
            self._import_server()
        elif mode == "remote":
            if not server_url:
                raise ValueError("server_url required for remote mode")
            self.server_url = server_url.rstrip("/")
        else:
            raise ValueError(f"Invalid mode: {mode}. Must be 'local' or 'remote'")

    def _import_server(self):
        global SessionExpiredError
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        try:
            import server
            SessionExpiredError = server.SessionExpiredError
            self.server = server.get_server_instance()
        except (ImportError, AttributeError) as error:
            raise ImportError(f"Failed to import server for local mode: {error}") from error

    def get_or_create_session(self, user_id, thread_id, timeout_minutes=30):
        self.user_id, self.thread_id = user_id, thread_id
        session = self._find_session() or self._create_session(timeout_minutes)
        self.session_id = session["session_id"]
        logger.info("session %s for thread %s", self.session_id[:12], thread_id[:12])
        return session

    def _find_session(self):
        if self.mode == "local":
            return self.server.get_session_by_thread(self.thread_id)
        try:
            response = requests.get(f"{self.server_url}/get_session",
                                    params={"thread_id": self.thread_id}, timeout=5)
            if response.status_code == 200:
                return response.json()
        except (requests.RequestException, ValueError) as error:
            logger.debug("no session found: %s", error)
        return None

    def _create_session(self, minutes):
        if self.mode == "local":
            return self.server.create_session(self.user_id, self.thread_id, minutes)
        body = {"user_id": self.user_id, "thread_id": self.thread_id, "timeout_minutes": minutes}
        response = requests.post(f"{self.server_url}/create_session", json=body, timeout=10)
        response.raise_for_status()
        return response.json()

    def execute(self, command, timeout=30, auto_retry=True):
        self._need_session()
        if self.mode == "local":
            return self._execute_local(command, timeout, auto_retry)
        body = {"session_id": self.session_id, "command": command, "timeout": timeout}
        response = requests.post(f"{self.server_url}/execute", json=body, timeout=timeout + 5)
        if response.status_code == 404 and auto_retry:
            self._renew()
            return self.execute(command, timeout, auto_retry=False)
        response.raise_for_status()
        return response.json()

    def _execute_local(self, command, timeout, auto_retry):
        try:
            return self.server.execute_command(self.session_id, command, timeout)
        except SessionExpiredError:
            if not auto_retry:
                raise
        self._renew()
        return self.server.execute_command(self.session_id, command, timeout)

    def _renew(self):
        self.get_or_create_session(self.user_id, self.thread_id)  # a longer idle time is forgotten

    def upload_file(self, file_path, remote_name=None):
        self._need_session()
        if not os.path.exists(file_path):
            raise FileNotFoundError(f"File not found: {file_path}")
        name = remote_name or os.path.basename(file_path)
        with open(file_path, "rb") as file:
            return self._upload(name, file)

    def _upload(self, name, content):
        if self.mode == "local":
            content = content if isinstance(content, bytes) else content.read()
            return self.server.upload_file(self.session_id, name, content)
        response = requests.post(f"{self.server_url}/upload_file", files={"file": (name, content)},
                                 data={"session_id": self.session_id}, timeout=60)
        response.raise_for_status()
        return response.json()

    def download_file(self, remote_name, local_path=None):
        self._need_session()
        path = local_path or os.path.join(os.getcwd(), remote_name)
        if self.mode == "local":
            content = self.server.download_file(self.session_id, remote_name)
        else:
            body = {"session_id": self.session_id, "filename": remote_name}
            response = requests.post(f"{self.server_url}/download_file", json=body, timeout=60)
            response.raise_for_status()
            content = response.content
        with open(path, "wb") as file:
            file.write(content)
        return path

    def list_files(self):
        self._need_session()
        if self.mode == "local":
            return self.server.list_files(self.session_id)
        response = requests.get(f"{self.server_url}/list_files",
                                params={"session_id": self.session_id}, timeout=5)
        response.raise_for_status()
        return response.json()

    def close_session(self):
        if not self.session_id:
            return
        try:
            if self.mode == "local":
                self.server.cleanup_session(self.session_id)
            else:
                requests.post(f"{self.server_url}/cleanup", json={"session_id": self.session_id},
                              timeout=10)
        except Exception as error:
            logger.warning("cleanup of %s failed: %s", self.session_id[:12], error)
        self.session_id = self.thread_id = self.user_id = None

    def _need_session(self):
        if not self.session_id:
            raise ValueError("No active session. Call get_or_create_session() first.")

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.close_session()


class BatchSandboxClient:
    Client = SandboxClient

    def __init__(self, mode="local", server_url=None):
        self.client = self.Client(mode, server_url)

    def execute_batch(self, commands, timeout=30, user_id="batch_user", thread_id=None):
        thread_id = thread_id or f"batch_{uuid.uuid4().hex[:12]}"
        results = []
        try:
            self.client.get_or_create_session(user_id, thread_id)
            for command in commands:
                try:
                    result = self.client.execute(command, timeout=timeout)
                except Exception as error:  # the rest still runs
                    result = {"exit_code": -1, "stdout": "", "stderr": f"Error: {error}",
                              "execution_time_ms": 0}
                results.append({"command": command, **result})
        finally:
            self.client.close_session()
        return results


def show(command, result):
    print(f"$ {command}\n{result['stdout']}{result['stderr']}"
          f"(exit {result['exit_code']}, {result['execution_time_ms']} ms)")


def self_test(client):
    with client:
        session = client.get_or_create_session("test_user", f"test_{uuid.uuid4().hex[:12]}")
        print(f"Session: {session['session_id'][:12]} ({session['status']})")
        for command in ("whoami", "pwd", "echo 'Hello from sandbox!' > test.txt",
                        "cat test.txt && ls -lh test.txt", "python3 --version"):
            show(command, client.execute(command))
        files = client.list_files()
        print(f"Files: {files['total_files']}, {files['total_size_bytes']} bytes")
        for file in files["files"]:
            print(f"  {file['permissions']} {file['size_bytes']} {file['modified']} {file['name']}")


def single(client, command):
    with client:
        client.get_or_create_session("cli_user", f"single_{uuid.uuid4().hex[:12]}")
        result = client.execute(command)
    print(result["stdout"], end="")
    print(result["stderr"], end="", file=sys.stderr)
    return result["exit_code"]


def take_option(arguments, name, default):
    if name not in arguments[:-1]:
        return default
    at = arguments.index(name)
    value = arguments[at + 1]
    del arguments[at:at + 2]
    return value


def main(arguments, client=SandboxClient, batch=BatchSandboxClient,
         default_url="http://localhost:5000"):
    if not arguments:
        print("Usage: client.py [--mode local|remote] [--url URL] --test | --batch CMD... | CMD")
        return 1
    mode = take_option(arguments, "--mode", "local")
    url = take_option(arguments, "--url", default_url if mode == "remote" else None)
    if mode not in ("local", "remote"):
        print(f"Invalid mode: {mode}")
        return 1
    if not arguments:
        print("No command")
        return 1
    if arguments[0] == "--test":
        return self_test(client(mode, url))
    if arguments[0] == "--batch":
        for result in batch(mode, url).execute_batch(arguments[1:]):
            show(result["command"], result)
        return 0
    return single(client(mode, url), arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
