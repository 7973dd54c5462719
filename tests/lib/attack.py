# SPDX-License-Identifier: Apache-2.0
"""A hostile reader's tools: a server of one's own, other uids, the keeper's protocol by hand."""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.path.abspath(os.environ.get("THREADBOX_BINARY") or ROOT / "build" / "threadbox")


class Box:
    def __init__(self, **settings):
        self.as_user = settings.pop("as_user", None)
        # Short: a socket's path has 108 bytes.
        self.state = settings.pop("state", None)
        self.state = self.state or tempfile.mkdtemp(prefix="tb-attack-", dir="/tmp")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        defaults = dict(POOL_SIZE="0", CPU_QUOTA="100000", LOG_LEVEL="error", DEFAULT_POLICY="open")
        self.env = {**os.environ, **defaults, **settings,
                    "STATE_DIR": self.state, "PORT": str(self.port)}
        self.process = None
        if self.as_user:
            os.chown(self.state, self.as_user, self.as_user)

    def command(self, *words):
        if not self.as_user:
            return [BINARY, *words]
        user = str(self.as_user)
        return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", BINARY, *words]

    def serve(self, seconds=30, files=None):
        """`files`: how many descriptors the server may have; a keeper that runs keeps its own."""
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        self.process = subprocess.Popen(self.command("serve"), env=self.env, preexec_fn=limit,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.answers(seconds)

    def answers(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1).read()
                return True
            except urllib.error.HTTPError:
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def post(self, path, body, wait=60):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=wait) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return {"http": error.code, **json.loads(error.read() or b"{}")}

    def create(self, thread):
        answer = self.post("/create_session", {"user_id": "attacker", "thread_id": thread})
        assert "session_id" in answer, answer
        return answer["session_id"]

    def run(self, session, command, wait=60, **fields):
        return self.post("/execute", {"session_id": session, "command": command, **fields}, wait)

    def build(self, session, source, name="a", options=""):
        answer = self.run(session, f"cat > {name}.c; gcc -O2 -w {options} -o {name} {name}.c",
                          stdin=source)
        if answer.get("exit_code") != 0:
            pytest.skip("no compiler in the sandbox")

    def stop(self):
        return subprocess.run(self.command("stop"), env=self.env, timeout=60,
                              stdout=subprocess.DEVNULL).returncode

    def keeper(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if "keeper" in words and self.state in words:
                return int(pid)
        return None

    def guests(self):
        """PID 1 of every sandbox, as the host numbers it."""
        keeper, found = self.keeper(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                text = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if int(text.rsplit(")", 1)[1].split()[1]) == keeper:
                found.append(int(pid))
        return found

    def guest_of(self, session):
        for pid in self.guests():
            if session in pathlib.Path(f"/proc/{pid}/mountinfo").read_text():
                return pid
        raise AssertionError("no PID 1 for this session")

    def close(self):
        keeper = self.keeper()
        try:
            self.stop()
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if keeper and self.keeper() == keeper:
            os.kill(keeper, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while self.keeper() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not os.path.ismount(self.state):
            shutil.rmtree(self.state, ignore_errors=True)


def as_uid(uid, work):
    """What `work` returns (JSON) when this uid calls it; an exception is told as its text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            answer = work()
        except BaseException as error:  # pylint: disable=broad-except
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def packed(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def create_message(name, environment="host", label="", **limits):
    wanted = {"memory": 256 << 20, "disk": 500 << 20, "cpu": 25000, "pids": 256, "files": 4096}
    wanted.update(limits)
    return (packed(name) + packed(environment) +
            struct.pack("<QQIII", *wanted.values()) + struct.pack("<Q", 0) + packed(label) +
            struct.pack("<II", 0, 0))


class KeeperLink:
    CREATE, DESTROY, LIST = 2, 5, 6
    CREATED, DONE, FAILED = 65, 66, 67

    def __init__(self, state):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(state + "/keeper.sock")
        self.number = 0

    def send(self, kind, body=b""):
        self.number += 1
        self.socket.send(struct.pack("<BI", kind, self.number) + body)

    def ask(self, kind, body=b""):
        self.send(kind, body)
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 65536, 4)
            for fd in fds:
                os.close(fd)
            if not data:
                return 0, b""
            answer, number = struct.unpack("<BI", data[:5])
            if number == self.number:
                return answer, data[5:]
