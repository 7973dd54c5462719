# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of the E2B server of the tests: namespaces of this machine, in which commands run for
real, and their processes as envd tells of them."""
import base64
import contextlib
import fcntl
import os
import pathlib
import pty
import queue
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
import uuid

KEPT = 30  # seconds for which an end is told to who comes late
NAMES = {signal.SIGHUP: "hangup", signal.SIGINT: "interrupt", signal.SIGQUIT: "quit",
         signal.SIGABRT: "aborted", signal.SIGKILL: "killed", signal.SIGSEGV: "segmentation fault",
         signal.SIGPIPE: "broken pipe", signal.SIGTERM: "terminated"}
# A root of its own over the programs of this machine, with a /proc that shows only its processes.
HOLD = r"""
root=$1
mkdir -p "$root"/{proc,dev,tmp,home/user,etc,sys,var/tmp}
chmod 1777 "$root/tmp" "$root/var/tmp"; chown 1000:1000 "$root/home/user"
for name in usr bin sbin lib lib32 lib64; do
  if [ -L "/$name" ]; then ln -s "$(readlink "/$name")" "$root/$name"
  elif [ -d "/$name" ]; then mkdir "$root/$name"; mount --rbind "/$name" "$root/$name"; fi
done
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
cp -r /etc/alternatives /etc/ld.so.cache /etc/nsswitch.conf "$root/etc/" 2>/dev/null
printf 'root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n' > "$root/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' > "$root/etc/group"
hostname e2b
echo ready
exec chroot "$root" sleep infinity
"""


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class Process:
    def __init__(self, box, config, user, terminal, stdin, tag):
        self.box, self.config, self.tag = box, config, tag
        self.lock, self.listeners = threading.Lock(), []
        self.end, self.ended_at, self.killed = None, None, False
        self.terminal = terminal
        self.held = queue.Queue()  # nothing is printed before somebody listens
        self.popen = self.spawn(user, stdin)
        self.pid = box.inner_pid(self.popen)
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in self.outputs]

    def spawn(self, user, stdin):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       "HOME": "/home/user", "USER": user, "LOGNAME": user,
                       **self.config.get("envs", {})}
        words = ["setsid", *(["-c"] if self.terminal else []), self.config["cmd"],
                 *self.config.get("args", [])]
        fifo = f"/tmp/.in-{uuid.uuid4().hex}"
        if stdin and not self.terminal:
            # By a name: nsenter would hold another end of a pipe for as long as the command runs.
            words = ["sh", "-c", 'exec < "$0"; exec "$@"', fifo, *words]
            os.mkfifo(self.box.path(fifo))
            os.chown(self.box.path(fifo), 1000, 1000)
        command = self.box.enter(user, self.config.get("cwd") or "/home/user", words)
        if self.terminal:
            self.master, slave = pty.openpty()
            self.resize(self.terminal)
            popen = subprocess.Popen(command, env=environment, stdin=slave, stdout=slave,
                                     stderr=slave, start_new_session=True)
            os.close(slave)
            self.outputs = [("pty", self.master)]
            self.input = self.master
            return popen
        popen = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, start_new_session=True,
                                 stdin=subprocess.DEVNULL)
        self.outputs = [("stdout", popen.stdout.fileno()), ("stderr", popen.stderr.fileno())]
        self.input = self.open_fifo(popen, self.box.path(fifo)) if stdin else None
        return popen

    @staticmethod
    def open_fifo(popen, path):
        while popen.poll() is None:
            try:
                file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.set_blocking(file, True)
                path.unlink()
                return file
            except OSError:  # nobody reads it yet
                time.sleep(0.001)
        return None

    def begin(self):
        for reader in self.readers:
            reader.start()
        threading.Thread(target=self.reap, daemon=True).start()

    def read(self, name, file):
        with contextlib.suppress(OSError):
            while data := os.read(file, 32768):
                self.tell({"data": {name: base64.b64encode(data).decode()}})

    def reap(self):
        status = self.popen.wait()
        if self.box.gone:
            return  # with all that could have told of it
        while not self.killed and any(reader.is_alive() for reader in self.readers):
            for reader in self.readers:
                reader.join(0.02)
        if self.killed:
            for reader in self.readers:
                reader.join(0.3)
        end = {"exited": True, "status": f"exit status {status}"}
        if status < 0:
            text = f"signal: {NAMES.get(-status, f'signal {-status}')}"
            end = {"exitCode": -1, "status": text, "error": text}
        elif status > 0:
            end.update(exitCode=status, error=end["status"])
        self.ended_at = time.monotonic()
        self.tell({"end": end})
        if self.terminal:
            with contextlib.suppress(OSError):
                os.close(self.master)

    def tell(self, event):
        with self.lock:
            if "end" in event:
                self.end = event
            listeners = list(self.listeners)
        for listener in listeners:  # nobody listens: it is lost
            listener.put(event)

    def listen(self):
        listener = queue.Queue(maxsize=64)
        with self.lock:
            listener.put({"start": {"pid": self.pid}})
            if self.end:
                listener.put(self.end)
            else:
                self.listeners.append(listener)
        return listener

    def leave(self, listener):
        with self.lock:
            if listener in self.listeners:
                self.listeners.remove(listener)
        with contextlib.suppress(queue.Empty):  # who waits for room goes on
            while True:
                listener.get_nowait()

    def write(self, data):
        if self.input is None:
            raise Refused("internal", "stdin not enabled or closed")
        try:
            while data:
                data = data[os.write(self.input, data):]
        except OSError as error:
            raise Refused("internal", f"error writing to stdin: {error}") from error

    def close_input(self):
        if self.input is not None and not self.terminal:
            os.close(self.input)
            self.input = None

    def resize(self, size):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ,
                    struct.pack("HHHH", size["rows"], size["cols"], 0, 0))

    def signal(self, number):
        self.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.box.outer_pid(self.popen), number)


class Box:
    """One sandbox."""

    def __init__(self, name, place):
        self.name, self.root = name, pathlib.Path(place) / name
        self.root.mkdir()
        self.root.chmod(0o755)
        self.processes, self.lock, self.gone = [], threading.Lock(), False
        self.holder = subprocess.Popen(
            ["unshare", "-m", "-p", "-u", "-i", "-f", "--kill-child", "--propagation", "private",
             "bash", "-c", HOLD, "hold", str(self.root)], stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.first = int(children.read_text().split()[0])

    def enter(self, user, cwd, command):
        if user not in ("user", "root"):
            raise Refused("unauthenticated", f"invalid username: '{user}'")
        if not (self.root / cwd.lstrip("/")).is_dir():
            raise Refused("invalid_argument", f"cwd '{cwd}' does not exist")
        number = "1000" if user == "user" else "0"
        return ["nsenter", "-t", str(self.first), "-m", "-p", "-u", "-i",
                f"--root=/proc/{self.first}/root", f"--wd=/proc/{self.first}/root{cwd}", "--",
                "setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--",
                *command]

    @staticmethod
    def outer_pid(popen):
        """Of the command: nsenter is its parent."""
        path = pathlib.Path(f"/proc/{popen.pid}/task/{popen.pid}/children")
        deadline = time.monotonic() + 10
        while popen.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError, IndexError):
                return int(path.read_text().split()[0])
            time.sleep(0.001)
        raise ProcessLookupError

    def inner_pid(self, popen):
        with contextlib.suppress(ProcessLookupError, OSError):
            status = pathlib.Path(f"/proc/{self.outer_pid(popen)}/status").read_text()
            return int(status.partition("NSpid:")[2].split("\n")[0].split()[-1])
        return 1 << 20  # it was faster than we are

    def start(self, request, user):
        process = Process(self, request["process"], user, request.get("pty", {}).get("size"),
                          request.get("stdin", True), request.get("tag"))
        with self.lock:
            now = time.monotonic()
            self.processes = [one for one in self.processes
                              if one.ended_at is None or now - one.ended_at < KEPT]
            self.processes.append(process)
        return process

    def find(self, selector):
        with self.lock:
            for process in self.processes:
                if process.tag == selector.get("tag", False) or process.pid == selector.get("pid"):
                    return process
        raise Refused("not_found", "process not found")

    def path(self, path):
        """The real one of a file; links lead as they do inside."""
        return pathlib.Path(f"/proc/{self.first}/root{path}")

    def remove(self):
        self.gone = True
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        with self.lock:
            processes = list(self.processes)
        for process in processes:
            process.popen.wait()
            process.tell({"gone": True})
        shutil.rmtree(self.root, ignore_errors=True)
