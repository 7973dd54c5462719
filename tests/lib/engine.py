# SPDX-License-Identifier: Apache-2.0
"""A Docker Engine of the tests' own, images for it, and servers whose sandboxes are containers."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.parse

import pytest

from server import PATIENCE, Server, alive, argv_of, all_pids, read_text, wait_until

CACHE = pathlib.Path(__file__).resolve().parents[2] / "build" / "docker-image"
IMAGE, BARE = "threadbox-test:latest", "threadbox-bare:latest"
PROGRAMS = ("bash cat ls touch mkdir echo env stat sleep grep wc rm id hostname head tail seq tr "
            "dd sha256sum chmod ln mv cp kill ps sort printf stty tty true false timeout nohup "
            "setsid mkfifo whoami date base64 cut sed find uname").split()


def libraries_of(program):
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", text)


def make_root(root):
    """The programs of this machine that the tests run, with their libraries."""
    found = [path for path in map(shutil.which, PROGRAMS) if path]
    for path in found + [library for one in found for library in libraries_of(one)]:
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(path, target)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n"
                                     "sandboxuser:x:1000:1000::/home/sandboxuser:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\nsandboxuser:x:1000:\n")
    if not (root / "bin").exists():
        (root / "bin").symlink_to("usr/bin")


def image_tar(name):
    """One with a workspace that is the tenant's, and one that knows nothing of us."""
    tar = CACHE / f"{name}.tar"
    if not tar.exists():
        root = CACHE / f"{name}.root"
        shutil.rmtree(root, ignore_errors=True)
        make_root(root)
        if name == "prepared":
            (root / "workspace").mkdir()
            os.chown(root / "workspace", 1000, 1000)
        part = tar.with_suffix(".part")
        subprocess.run(["tar", "-C", root, "-cf", part, "."], check=True)
        shutil.rmtree(root)
        part.rename(tar)
    return tar


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tb-docker-")
        os.chmod(self.dir, 0o711)  # the server is not root
        self.socket = f"{self.dir}/s"
        self.process = None

    def start(self):
        words = ["dockerd", "--data-root", f"{self.dir}/data", "--exec-root", f"{self.dir}/exec",
                 "-H", f"unix://{self.socket}", "--pidfile", f"{self.dir}/pid", "--bridge=none",
                 "--iptables=false"]
        log = open(f"{self.dir}/log", "ab")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        wait_until(lambda: self.answers() or self.process.poll() is not None,
                   lambda: f"the engine answers: {self.log()}", 60)
        if self.process.poll() is not None:
            raise OSError(self.log())
        return self

    def log(self):
        return read_text(f"{self.dir}/log")[-1500:]

    def answers(self):
        try:
            return self.call("GET", "/_ping", raw=True) == b"OK"
        except OSError:
            return False

    def call(self, method, path, body=None, raw=False, content="application/json"):
        connection = UnixConnection(self.socket)
        try:
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, {"Content-Type": content} if data else {})
            answer = connection.getresponse()
            text = answer.read()
            if raw:
                return text
            assert answer.status < 400, (method, path, answer.status, text)
            return json.loads(text) if text.strip() else None
        finally:
            connection.close()

    def load(self):
        for name, kind in ((IMAGE, "prepared"), (BARE, "bare")):
            with open(image_tar(kind), "rb") as tar:
                repo, tag = name.split(":")
                self.call("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}", tar, raw=True,
                          content="application/x-tar")
        return self

    def containers(self, tag=None):
        query = "all=1" + (f"&{self.filters(tag)}" if tag else "")
        return self.call("GET", f"/containers/json?{query}")

    def volumes(self, tag):
        return [one["Name"] for one in self.call("GET", f"/volumes?{self.filters(tag)}")["Volumes"]
                or []]

    @staticmethod
    def filters(tag):
        text = json.dumps({"label": [f"threadbox.server={tag}"]})
        return f"filters={urllib.parse.quote(text)}"

    def inspect(self, session):
        return self.call("GET", f"/containers/threadbox-{session}/json")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def remove(self):
        self.stop()
        for line in reversed(read_text("/proc/mounts").splitlines()):
            place = line.split()[1]
            if place.startswith(self.dir):
                subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)


def start_engine():
    """Skips, with the reason, where none can run."""
    if not shutil.which("dockerd"):
        pytest.skip("there is no dockerd: install docker.io (setup.sh: need docker)")
    engine = Engine()
    try:
        return engine.start().load()
    except (OSError, AssertionError) as error:
        engine.remove()
        pytest.skip(f"dockerd can't run here: {error}")


class DockerServer(Server):
    """A server whose sandboxes are containers of `engine`."""

    def __init__(self, engine, **settings):
        super().__init__(**{"SANDBOX_PROVIDER": "docker", "CONTAINER_IMAGE": IMAGE,
                            "DOCKER_HOST": f"unix://{engine.socket}", **settings})
        self.engine = engine

    def tag(self):
        return read_text(f"{self.state_dir}/docker/tag")

    def boxes(self):
        """Sessions that have a container, whatever the server believes."""
        return {one["Labels"]["threadbox.session"]: one
                for one in self.engine.containers(self.tag())}

    def box_pids(self, session):
        """Processes of a container, as the host sees them."""
        name = self.engine.inspect(session)["Id"]
        return [pid for pid in all_pids() if name in read_text(f"/proc/{pid}/cgroup")]

    def carrier_pid(self, session):
        for pid in all_pids():
            if argv_of(pid)[:3] == ["/.threadbox/guest", "carry", session]:
                return pid
        return None

    def leftovers(self):
        left = super().leftovers()
        if self.tag() and self.engine.answers():
            left += [f"container {name}" for name in self.boxes()]
        return left

    def remove(self):
        tag = self.tag()
        if self.process and self.process.poll() is None:
            self.kill9()
        if tag and self.engine.answers():
            for box in self.engine.containers(tag):
                self.engine.call("DELETE", f"/containers/{box['Id']}?force=1&v=1", raw=True)
            for name in self.engine.volumes(tag):
                self.engine.call("DELETE", f"/volumes/{name}?force=1", raw=True)
        super().remove()


__all__ = ["BARE", "IMAGE", "PATIENCE", "DockerServer", "Engine", "alive", "image_tar",
           "start_engine"]
