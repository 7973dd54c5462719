#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 60
"""A threadbox server of a test's own, and what it must leave behind: nothing.

Standard library only, because tests/vm runs it as well (tests/vm/cases/server.py is this file):
started as a program it is the shortest test there is: start, one command, stop, nothing is left.
"""
import contextlib
import glob
import http.client
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CHOICES = [HERE.parent.parent / "build" / "threadbox", HERE.parent / "threadbox"]
BINARY = os.environ.get("THREADBOX_BINARY") or str(next(filter(pathlib.Path.exists, CHOICES), ""))
BINARY = os.path.abspath(BINARY) if BINARY else ""
PLACE = os.environ.get("THREADBOX_TEST_DIR", "/var/tmp")
PATIENCE = 10 * float(os.environ.get("THREADBOX_PATIENCE", "1"))  # seconds; emulation is slower
# Enough sandboxes for a test, few enough that a start costs nothing; commands at full speed.
DEFAULTS = {"PORT": "0", "POOL_SIZE": "1", "MAX_POOL_SIZE": "200", "CPU_QUOTA": "100000",
            "LOG_LEVEL": "debug", "DEFAULT_POLICY": "open"}
SETTINGS = re.compile(r"^(HOST|PORT|ALLOW_NO_AUTH|STATE_DIR|WORKER_ID|ENVIRONMENT|POOL_SIZE|"
                      r"MAX_\w+|MEMORY_LIMIT|\w+_TIMEOUT\w*|CPU_QUOTA|PIDS_LIMIT|OUTPUT_\w+|"
                      r"MIN_\w+|\w+_POLICY|\w+_POLICIES|REGISTRY_DIR|PROVIDER_\w+|CORS_\w+|"
                      r"SHUTDOWN_\w+|KEEPER_GRACE|LOG_\w+|DEBUG|REDIS_\w+|\w+_CLEANUP|POOL_\w+|"
                      r"CONTAINER_\w+|WORKSPACE_DIR|HOST_WORKSPACE_PATH|SANDBOX_\w+|DOCKER_\w+|"
                      r"(ARTIFACT|CLEANUP|CLUSTER|E2B|VOLUME|SESSION|WEBHOOK|PRESTART)_\w+|"
                      r"THREADBOX_\w+|STORAGE_PATH|ADVERTISE_URL|WORKERS)$")
AHEAD = re.compile(r"bash: started ahead|bash\0-c\0 +\0")


def wait_until(condition, what, seconds=None):
    """Returns what `condition` answers once that is true; fails after `seconds`, saying `what`: a
    text, or a function that tells how things stand by then."""
    deadline = time.monotonic() + (PATIENCE if seconds is None else seconds)
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"in vain: waited until {what() if callable(what) else what}")
        time.sleep(0.01)


def read_text(path):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def alive(pid):
    """A zombie is not."""
    stat = read_text(f"/proc/{pid}/stat")
    return bool(stat) and stat.rpartition(")")[2].split()[0] not in "ZX"


def argv_of(pid):
    return read_text(f"/proc/{pid}/cmdline").split("\0")[:-1]


def tag_of(state_dir):
    """The name of a state directory's cgroups: FNV-1a, the first 12 digits."""
    value = 14695981039346656037
    for byte in os.fsencode(state_dir):
        value = ((value ^ byte) * 1099511628211) % 2**64
    return f"{value:016x}"[:12]


class Reply:
    def __init__(self, status, reason, headers, body):
        self.status, self.reason, self.headers, self.body = status, reason, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.reason}: {self.body[:300]!r}>"


class Server:
    """`threadbox serve` with a state directory of its own. Settings are environment variables."""

    def __init__(self, state_dir=None, binary=BINARY, preexec=None, **settings):
        self.state_dir = state_dir or tempfile.mkdtemp(prefix="tb-", dir=PLACE)
        self.binary = binary
        self.preexec = preexec
        self.settings = {**DEFAULTS, **{name: str(value) for name, value in settings.items()}}
        self.process = None
        self.lines = []
        self.port = self.key = None  # an API key goes with every request
        self.log_path = pathlib.Path(self.state_dir + ".log")

    # ---- its life ----

    def environment(self):
        clean = {name: value for name, value in os.environ.items() if not SETTINGS.match(name)}
        return {**clean, **self.settings, "STATE_DIR": self.state_dir}

    def spawn(self, *arguments, **options):
        return subprocess.Popen([self.binary, *arguments], env=self.environment(),
                                stdin=subprocess.DEVNULL, preexec_fn=self.preexec, **options)

    def command(self, *arguments, seconds=None):
        """Runs another subcommand with the same settings."""
        return subprocess.run([self.binary, *arguments], env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=seconds or 6 * PATIENCE)

    def start(self, seconds=None):
        with open(self.log_path, "ab") as log:
            self.process = self.spawn("serve", stdout=subprocess.PIPE, stderr=log)
        self.lines = self.read_lines(4, PATIENCE * 2 if seconds is None else seconds)
        assert len(self.lines) == 4, f"did not start: {self.lines} {self.log()[-2000:]}"
        self.port = int(re.search(r"http://[^ ]*:(\d+)", self.lines[0])[1])
        return self

    def read_lines(self, count, seconds):
        """From the server's stdout; fewer when it ends before."""
        deadline = time.monotonic() + seconds
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while text.count(b"\n") < count and selector.select(deadline - time.monotonic()):
                part = os.read(self.process.stdout.fileno(), 65536)
                if not part:
                    break
                text += part
        return text.decode().splitlines()

    def log(self):
        return read_text(self.log_path)

    def kill9(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def terminate(self):
        """SIGTERM: the server ends, its sandboxes live on. Returns the exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self, seconds=None):
        code = self.process.wait(timeout=seconds or 2 * PATIENCE)
        self.process.stdout.close()
        return code

    def restart(self, **settings):
        self.settings.update({name: str(value) for name, value in settings.items()})
        if self.process and self.process.poll() is None:
            self.kill9()
        return self.start()

    def stop(self):
        """`threadbox stop`, then the server's own end."""
        done = self.command("stop")
        assert done.returncode == 0, done
        if self.process and self.process.poll() is None:
            self.wait()

    def close(self):
        """Stops, checks that nothing is left, and removes the state directory."""
        try:
            self.stop()
            wait_until(lambda: not self.leftovers(), lambda: f"all but {self.leftovers()} is gone")
        finally:
            self.remove()

    def remove(self):
        """Takes away whatever there still is, after a failed test too."""
        if self.process and self.process.poll() is None:
            self.kill9()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.keeper_pid():
                self.command("stop", seconds=PATIENCE)
        keeper = self.keeper_pid()
        if keeper:
            os.kill(keeper, signal.SIGKILL)
        for top in self.cgroups():
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        shutil.rmtree(self.state_dir, ignore_errors=True)
        self.log_path.unlink(missing_ok=True)

    # ---- what it is made of on the host ----

    def keeper_pid(self):
        for pid in all_pids():
            words = argv_of(pid)
            if words[1:4] == ["keeper", "--state-dir", self.state_dir]:
                return pid
        return None

    def kill9_keeper(self):
        pid = self.keeper_pid()
        assert pid, "there is no keeper"
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "the keeper is dead")

    def cgroups(self):
        """Directories of its sandboxes, in every hierarchy."""
        tag = tag_of(self.state_dir)
        return glob.glob(f"/sys/fs/cgroup/threadbox/{tag}") + glob.glob(
            f"/sys/fs/cgroup/*/threadbox/{tag}")

    def sandbox_pids(self, session_id="", ahead=False):
        """Found by their cgroup, so none can hide; shells that wait for a command on demand."""
        place = f"/threadbox/{tag_of(self.state_dir)}/{session_id}"
        return [pid for pid in all_pids() if place in read_text(f"/proc/{pid}/cgroup")
                and (ahead or not AHEAD.match(read_text(f"/proc/{pid}/cmdline")))]

    def guest_pid(self, session_id):
        for pid in self.sandbox_pids(session_id):
            if argv_of(pid) == ["threadbox-guest"]:
                return pid
        return None

    def mounts(self):
        """Lines of any process's mount table that name the state directory."""
        seen, found = set(), []
        for pid in all_pids():
            try:
                namespace = os.readlink(f"/proc/{pid}/ns/mnt")
            except OSError:
                continue
            if namespace in seen:
                continue
            seen.add(namespace)
            lines = read_text(f"/proc/{pid}/mountinfo").splitlines()
            found += [line for line in lines if self.state_dir + "/" in line]
        return found

    def loops(self):
        found = []
        for backing in glob.glob("/sys/block/loop*/loop/backing_file"):
            if read_text(backing).startswith(self.state_dir + "/"):
                found.append(backing.split("/")[3])
        return found

    def leftovers(self):
        """Everything on the host that belongs to this state directory, but its files."""
        left = [f"process {p} {argv_of(p)}" for p in self.sandbox_pids(ahead=True) if alive(p)]
        left += [f"keeper {pid}" for pid in [self.keeper_pid()] if pid]
        left += [f"cgroup {path}" for path in self.cgroups()]
        left += [f"mount {line}" for line in self.mounts()]
        left += [f"loop device {name}" for name in self.loops()]
        if os.path.exists(self.state_dir + "/keeper.sock"):
            left.append("keeper.sock")
        return left

    # ---- HTTP ----

    def connect(self, seconds=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def request(self, method, path, body=None, headers=None, seconds=60):
        connection = self.connect(seconds)
        with contextlib.closing(connection):
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
                headers = {"Content-Type": "application/json", **(headers or {})}
            body = body.encode() if isinstance(body, str) else body
            shown = {"Authorization": f"Bearer {self.key}"} if self.key else {}
            connection.request(method, path, body, {**shown, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, answer.reason, answer.headers, answer.read())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def health(self):
        return self.get("/health").json

    def create(self, thread=None, **fields):
        """A session's id; of the thread's one when there is one."""
        if thread:
            fields = {"user_id": "tester", "thread_id": thread, **fields}
        reply = self.post("/create_session", fields)
        assert reply.status in (200, 409), reply
        return reply.json["session_id"]

    def try_execute(self, session, command, seconds=None, **fields):
        body = {"session_id": session, "command": command, **fields}
        return self.post("/execute", body, seconds=seconds or fields.get("timeout", 30) + 30)

    def execute(self, session, command, **fields):
        reply = self.try_execute(session, command, **fields)
        assert reply.status == 200, reply
        return reply.json

    def execute_and_forget(self, session, command):  # the server may die under it
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.try_execute(session, command, timeout=60)

    def stdout(self, session, command, **fields):
        result = self.execute(session, command, **fields)
        assert result["exit_code"] == 0, result
        return result["stdout"]

    def python(self, session, code, **fields):
        return self.stdout(session, "exec python3 -", stdin=code, **fields)

    def cleanup(self, session):
        reply = self.post("/cleanup", {"session_id": session})
        assert reply.status == 200, reply

    def upload(self, session, name, data):
        form = (b"--b\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n%s\r\n--b\r\n"
                b"Content-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n\r\n%s\r\n"
                b"--b--\r\n" % (session.encode(), name.encode(), data))
        return self.post("/upload_file", form,
                         headers={"Content-Type": "multipart/form-data; boundary=b"})

    def download(self, session, name):
        return self.post("/download_file", {"session_id": session, "filename": name})

    def exists(self, session):
        """Asked without a look into the sandbox, which would be work there."""
        return self.get(f"/api/sessions/{session}/processes").status == 200

    def wait_gone(self, session, seconds=None):
        wait_until(lambda: not self.exists(session), f"session {session} is gone", seconds)

    def processes(self, session):
        reply = self.get(f"/api/sessions/{session}/processes")
        assert reply.status == 200, reply
        return reply.json["processes"]

    def process_of(self, session, number):
        reply = self.get(f"/api/sessions/{session}/processes/{number}")
        assert reply.status == 200, reply
        return reply.json

    def output(self, session, number, stream="stdout", offset=0, limit=None):
        """The bytes from an offset on, page by page to their end, or to where some were dropped."""
        parts = []
        while True:
            path = f"/api/sessions/{session}/processes/{number}/output"
            query = f"?stream={stream}&offset={offset}" + (f"&limit={limit}" if limit else "")
            reply = self.get(path + query)
            assert reply.status == 200, reply
            if not reply.body or int(reply.headers["X-Output-Offset"]) != offset:
                return b"".join(parts)
            parts.append(reply.body)
            offset += len(reply.body)

    def wait_exited(self, session, number, seconds=None):
        def exited():
            process = self.process_of(session, number)
            return process if process["state"] == "exited" else None
        return wait_until(exited, f"process {number} has ended", seconds)


@contextlib.contextmanager
def roomy_place():
    """For the VM, whose disk is smaller than a pool wants it: a sparse file system of 8 GiB."""
    global PLACE
    image, PLACE = os.path.abspath("disk"), os.path.abspath("place")
    os.mkdir(PLACE)
    subprocess.run(["truncate", "-s", "8G", image], check=True)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, PLACE], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", PLACE], check=True)
        os.unlink(image)


def main():
    server = Server().start()
    session = server.create()
    assert server.stdout(session, "id -un") == "sandboxuser\n"
    server.close()
    print("\n".join(server.lines))


if __name__ == "__main__":
    sys.exit(main())
