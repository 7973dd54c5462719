# SPDX-License-Identifier: Apache-2.0
"""What a hostile review tried: as a tenant, as the server's own uid, as another user of the host.

Self-contained on purpose: each test has a server and a state directory of its own. A test that is
kept is named after its finding (A01 …).
"""
import contextlib
import io
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.path.abspath(os.environ.get("THREADBOX_BINARY") or ROOT / "build" / "threadbox")
SERVER_UID = 0x70000000
NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# ---- a server of one's own ----

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


@pytest.fixture
def make_box():
    boxes = []

    def make(**settings):
        box = Box(**settings)
        boxes.append(box)
        assert box.serve(), "the server did not start"
        return box
    yield make
    for box in boxes:
        box.close()


@pytest.fixture
def box(make_box):
    return make_box()


@pytest.fixture
def small_disk():
    """A state directory on 40 MiB: too small for a pool, soon full."""
    path = tempfile.mkdtemp(prefix="tb-attack-", dir="/tmp")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", path], check=True)
    yield path
    for _ in range(50):
        if subprocess.run(["umount", path], stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(0.1)
    shutil.rmtree(path, ignore_errors=True)


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


# ---- the keeper's protocol, by hand ----

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


# ---- A01: a start that is stopped half-way ----

STORM = """
#include <signal.h>
#include <unistd.h>
int main() {
  if (fork()) return 0;
  setsid(); close(0); close(1); close(2);
  for (;;) kill(-1, SIGSTOP);
}
"""


def test_a_stopped_start_does_not_stop_pid_1(box):
    # A01
    session = box.create("t")
    box.build(session, STORM)
    box.run(session, "./a")
    for _ in range(60):
        box.run(session, "echo x", timeout=1, wait=8)  # its timeout must end it, whatever stops it


def test_a_silent_sandbox_does_not_stop_the_server(box):
    # A01
    bad, good = box.create("bad"), box.create("good")
    guest = box.guest_of(bad)
    os.kill(guest, signal.SIGSTOP)
    try:
        def flood():
            try:
                box.run(bad, "true " + "x" * 45000, wait=3)
            except OSError:
                pass
        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert box.run(good, "echo x", wait=5).get("stdout") == "x\n"
    finally:
        os.kill(guest, signal.SIGCONT)


def test_a_silent_sandbox_does_not_keep_the_next_server_from_starting(box):
    # A01
    session = box.create("bad")
    guest = box.guest_of(session)
    os.kill(guest, signal.SIGSTOP)
    try:
        box.process.kill()
        box.process.wait()
        assert box.serve(seconds=10)
        assert box.run(session, "echo back", wait=8).get("stdout") == "back\n"
    finally:
        with contextlib.suppress(ProcessLookupError):  # ended: its files were worth more
            os.kill(guest, signal.SIGCONT)


def test_a_lease_does_not_block_pid_1(box):
    # A01
    session = box.create("t")
    box.run(session, """mkdir bin; cp /bin/bash bin/; python3 -c "
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open('bin/bash', os.O_RDWR), 1024, 1)
if os.fork(): os._exit(0)
os.setsid()
for fd in 0, 1, 2: os.close(fd)
time.sleep(100)" """)
    slow = threading.Thread(target=lambda: box.run(session, "true", timeout=1,
                                                   env={"PATH": "/workspace/bin"}))
    slow.start()
    time.sleep(0.5)
    try:
        assert box.run(session, "echo x", timeout=2, wait=8).get("stdout") == "x\n"
    finally:
        os.kill(box.guest_of(session), signal.SIGKILL)
        slow.join()


# ---- A02: PID 1 writes stdin into a pipe that is smaller than it thinks ----

def test_small_pipes_do_not_block_pid_1(box):
    # A02
    session = box.create("t")
    grow = """import fcntl, os, time
for fd in 1, 2: fcntl.fcntl(fd, 1031, 1 << 20)
if os.fork(): os._exit(0)
time.sleep(600)"""
    box.run(session, "cat > grow.py", stdin=grow)
    for _ in range(40):
        if box.run(session, "python3 grow.py").get("exit_code") != 0:
            break  # the guest's uid has used up its pages for pipes
    answer = box.run(session, "wc -c", stdin="a" * 50000, timeout=2, wait=8)
    assert answer.get("stdout") == "50000\n"


# ---- A03: stop, then serve ----

def test_stop_and_serve_keep_the_files(box):
    """A03: the next keeper mounted the pool a second time while the last one's mount was there."""
    for thread in ("a", "b", "c"):
        session = box.create(thread)
        box.run(session, "for i in $(seq 200); do mkdir $i; echo x > $i/f; done")
        assert box.stop() == 0
        box.process.wait()
        assert box.serve()
        assert box.run(session, "cat */f | wc -l").get("stdout") == "200\n"


# ---- A04: root works in a directory of the server's uid ----

def test_run_as_root_follows_no_link_of_the_server(box, tmp_path):
    # A04
    box.create("t")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    output = box.state + "/output"
    planter = os.fork()
    if planter == 0:
        os.setresuid(SERVER_UID, SERVER_UID, SERVER_UID)
        known, end = set(os.listdir(output)), time.monotonic() + 10
        while time.monotonic() < end:
            for name in set(os.listdir(output)) - known:
                known.update((name, name + "-moved"))
                try:
                    os.rename(f"{output}/{name}", f"{output}/{name}-moved")
                    os.mkdir(f"{output}/{name}")
                    os.symlink(victim, f"{output}/{name}/1.out")
                except OSError:
                    pass
        os._exit(0)
    try:
        for _ in range(5):
            subprocess.run([BINARY, "run", "sleep 0.3; echo pwned"], env=box.env,
                           capture_output=True, timeout=30)
        assert victim.read_text() == "mine"
    finally:
        os.kill(planter, signal.SIGKILL)
        os.waitpid(planter, 0)


# ---- A05: images ----

def test_the_server_can_not_choose_an_image(box):
    """A05a: what the server's uid writes must not be unpacked or read by root."""
    box.create("t")
    output = box.state + "/output"

    def plant():
        os.makedirs(output + "/evil/etc")
        os.symlink("/etc/shadow", output + "/evil/etc/passwd")
        with tarfile.open(output + "/evil.tar", "w") as tar:
            node = tarfile.TarInfo("disk")
            node.type, node.devmajor, node.devminor, node.mode = tarfile.BLKTYPE, 7, 0, 0o666
            tar.addfile(node)
        link = KeeperLink(box.state)
        return [link.ask(link.CREATE, create_message("e-" + name, f"image:{output}/{path}"))[0]
                for name, path in (("dir", "evil"), ("tar", "evil.tar"))]
    assert as_uid(SERVER_UID, plant) == [KeeperLink.FAILED, KeeperLink.FAILED]
    assert not list(pathlib.Path(box.state, "env").glob("*/image/disk"))


def evil_image(path):
    """A small root with bash and cat, whose passwd is a link to the host's shadow file."""
    with tarfile.open(path, "w") as tar:
        for program in ("/usr/bin/bash", "/usr/bin/cat"):
            tar.add(os.path.realpath(program), program[1:])
            for word in subprocess.run(["ldd", program], capture_output=True,
                                       text=True).stdout.split():
                if word.startswith("/"):
                    tar.add(os.path.realpath(word), word[1:])
        link = tarfile.TarInfo("bin")
        link.type, link.linkname = tarfile.SYMTYPE, "usr/bin"
        tar.addfile(link)
        link = tarfile.TarInfo("etc/passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        tar.addfile(link)
        data = pathlib.Path("/usr/bin/id").read_bytes()
        program = tarfile.TarInfo("opt/rootid")
        program.mode, program.size = 0o4755, len(data)
        tar.addfile(program, io.BytesIO(data))


def test_an_image_reads_no_file_of_the_host(make_box, tmp_path):
    # A05b
    evil_image(tmp_path / "evil.tar")
    box = make_box(ENVIRONMENT=f"image:{tmp_path}/evil.tar")
    answer = box.run(box.create("t"), "cat /etc/passwd")
    shadow = pathlib.Path("/etc/shadow").read_text().splitlines()[0]
    assert shadow not in answer.get("stdout", ""), "the sandbox reads the host's shadow file"


def test_an_unpacked_image_is_closed_to_other_users(make_box, tmp_path):
    # A05c
    evil_image(tmp_path / "evil.tar")
    box = make_box(ENVIRONMENT=f"image:{tmp_path}/evil.tar")
    box.create("t")
    program = next(pathlib.Path(box.state, "env").glob("*/image/opt/rootid"))
    assert program.stat().st_mode & stat.S_ISUID
    assert as_uid(NOBODY, lambda: os.access(program, os.X_OK)) is False


# ---- A06: a record that can't be saved ----

def test_the_keeper_survives_a_full_disk(small_disk, make_box):
    # A06
    box = make_box(state=small_disk)
    lost, other = box.create("lost"), box.create("other")
    keeper = box.keeper()
    os.kill(box.guest_of(lost), signal.SIGKILL)
    time.sleep(0.7)
    box.run(other, "cat /dev/zero > fill", timeout=20)
    box.run(lost, "true", timeout=3)
    time.sleep(1)
    assert box.keeper() == keeper
    assert box.run(other, "rm fill; echo x", timeout=3).get("stdout") == "x\n"


# ---- A07: what the server keeps for a session ----

HOLDER = """
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int count, char** words) {
  struct sockaddr_un at = {AF_UNIX, "/workspace/s"};
  int s = socket(AF_UNIX, SOCK_DGRAM, 0);
  char control[CMSG_SPACE(8)] = {0}, byte = 1;
  struct iovec part = {&byte, 1};
  struct msghdr m = {0};
  m.msg_iov = &part; m.msg_iovlen = 1; m.msg_control = control; m.msg_controllen = sizeof control;
  if (count > 1) {
    bind(s, (void*)&at, sizeof at);
    if (fork()) return 0;
    setsid(); close(0); close(1); close(2);
    for (;;) { m.msg_controllen = sizeof control; recvmsg(s, &m, 0); }
  }
  struct cmsghdr* h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(8);
  int fds[2] = {1, 2};
  memcpy(CMSG_DATA(h), fds, 8);
  write(1, "a", 1); write(2, "b", 1);
  return connect(s, (void*)&at, sizeof at) || sendmsg(s, &m, 0) < 0;
}
"""


def test_held_pipes_do_not_use_up_the_servers_descriptors(box):
    # A07
    session = box.create("t")
    box.build(session, HOLDER)
    box.run(session, "./a keep")
    before = len(os.listdir(f"/proc/{box.process.pid}/fd"))
    for _ in range(400):
        if box.run(session, "exec ./a").get("exit_code") != 0:
            break
    assert len(os.listdir(f"/proc/{box.process.pid}/fd")) - before < 512


def test_output_is_never_lost_without_descriptors(make_box):
    # A07
    for files in (120, 121, 122, 123):  # one of them leaves room for the pipes but not for a file
        box = make_box()
        box.process.kill()
        box.process.wait()
        assert box.serve(files=files)
        bad, good = box.create("bad"), box.create("good")
        box.build(bad, HOLDER)
        box.run(bad, "./a keep")
        try:
            for _ in range(60):
                if box.run(bad, "exec ./a", wait=5).get("exit_code") != 0:
                    break
        except OSError:
            pass  # what the attacker gets does not matter
        for _ in range(3):
            answer = box.run(good, "echo x", wait=5)
            assert answer.get("exit_code") != 0 or answer["stdout"] == "x\n", answer


def test_output_counts_against_a_limit_of_the_session(make_box):
    # A08
    box = make_box(OUTPUT_LIMIT_MB="4", MAX_WORKSPACE_SIZE_MB="16")
    session = box.create("t")
    for _ in range(20):
        box.run(session, "head -c 4M /dev/zero; head -c 4M /dev/zero >&2")
    stored = sum(file.stat().st_size for file in pathlib.Path(box.state, "output").rglob("*.*"))
    assert stored <= 64 << 20, f"{stored >> 20} MiB for a session of 16 MiB"


def test_alternating_output_is_not_amplified(box):
    # A09
    session = box.create("t")
    box.build(session, "int main() { for (;;) { write(1, \"a\", 1); write(2, \"b\", 1); "
                       "usleep(20); } }")

    def written():
        text = pathlib.Path(f"/proc/{box.process.pid}/io").read_text()
        return int(text.split("wchar: ")[1].split()[0])
    before = written()
    answer = box.run(session, "./a", timeout=6)
    printed = answer["stdout_bytes"] + answer["stderr_bytes"]
    assert written() - before < 200 * printed + (16 << 20), f"{printed} bytes were printed"


# ---- A10: memory ----

TINY = r"""
#include <sys/syscall.h>
static long call(long n, long a, long b, long c, long d) {
  long r; register long r10 asm("r10") = d;
  asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
               : "rcx", "r11", "memory");
  return r;
}
static char name[] = "x";
void _start(void) {
  long fd = call(SYS_memfd_create, (long)name, 0, 0, 0);
  if (call(SYS_fork, 0, 0, 0, 0)) call(SYS_exit, 0, 0, 0, 0);
  call(SYS_setsid, 0, 0, 0, 0); call(SYS_close, 1, 0, 0, 0); call(SYS_close, 2, 0, 0, 0);
  for (long at = 0;; at += 65536) call(SYS_fallocate, fd, 0, at, 65536);
}
"""


def test_a_sandbox_whose_pid_1_ran_out_of_memory_comes_back_with_its_files(box):
    """A10: a tiny process that fills a memfd makes PID 1 the largest one; see docs/security.md."""
    session = box.create("t")
    box.build(session, TINY, options="-nostdlib -static")
    box.run(session, "echo data > f")
    box.run(session, "exec ./a", timeout=5)
    deadline = time.monotonic() + 20
    while box.run(session, "cat f", timeout=5).get("stdout") != "data\n":
        assert time.monotonic() < deadline, "the session does not come back"
        time.sleep(0.2)


def test_socket_buffers_are_charged(box):
    # A11
    if not os.path.exists("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"):
        pytest.skip("not a v1 memory hierarchy")
    session = box.create("t")
    answer = box.run(session, """python3 -c "
import socket, time
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(4096); keep = []; total = 0
end = time.time() + 6
while total < 600 << 20 and time.time() < end:
    c = socket.socket(); c.setsockopt(1, 7, 4 << 20); c.connect(l.getsockname())
    keep += [c, l.accept()[0]]; c.setblocking(False)
    try:
        while True: total += c.send(b'x' * 65536)
    except BlockingIOError: pass
print(total >> 20)" """, timeout=20)
    assert answer.get("cause") == "oom" or int(answer.get("stdout") or 0) < 300, answer


# ---- A12: who else reads the state directory ----

def test_the_state_directory_is_closed_to_other_users(small_disk, make_box):
    """A12: every user of the host could list session ids and, on a plain disk, read files."""
    box = make_box(state=small_disk)
    session = box.create("t")
    box.run(session, "echo secret > f")

    def look():
        found = []
        for path in (f"{small_disk}/sandboxes", f"{small_disk}/disk/trees/{session}/workspace"):
            try:
                found += os.listdir(path)
            except OSError:
                pass
        return found
    assert as_uid(NOBODY, look) == []


# ---- A13: what a compromised PID 1 or server could do to the keeper ----

def test_the_keeper_follows_no_link_of_the_guest(box, tmp_path):
    # A13
    session = box.create("t")
    guest = box.guest_of(session)
    uid = pathlib.Path(f"/proc/{guest}/uid_map").read_text().split()[1]
    victim = tmp_path / "victim"
    victim.write_text("")
    victim.chmod(0o600)
    tree = next(path for path in (f"{box.state}/disk/pool/{session}",
                                  f"{box.state}/disk/trees/{session}")
                if os.path.exists(f"/proc/{box.keeper()}/root{path}"))
    # As PID 1 can: the directory is its own, and it holds a descriptor of it.
    subprocess.run(["nsenter", "-t", str(box.keeper()), "-m", "sh", "-c",
                    f"cd {tree} && exec setpriv --reuid {uid} --regid {uid} --clear-groups "
                    f"sh -c 'mv home old && ln -s {victim} home'"], check=True)
    os.kill(guest, signal.SIGKILL)
    time.sleep(0.7)
    box.run(session, "true", timeout=3)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_an_unread_queue_of_the_keeper_is_bounded(box):
    # A14
    def ask():
        link = KeeperLink(box.state)
        for i in range(20):
            link.ask(link.CREATE, create_message(f"l-{i}", label="x" * 60000))
        greedy = KeeperLink(box.state)
        greedy.socket.settimeout(5)
        try:
            for _ in range(500):
                greedy.send(greedy.LIST)
        except OSError:
            pass  # dropped: just as well
        time.sleep(1)
        text = pathlib.Path(f"/proc/{box.keeper()}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])
    assert as_uid(SERVER_UID, ask) < 128 << 10


def test_malformed_messages_do_not_end_the_keeper(box):
    keeper = box.keeper()
    bodies = [b"", b"\x02", b"\x02\x01\0\0\0", b"\x02\x01\0\0\0" + b"\xff" * 8, b"\xff" * 65000,
              b"\x03\x01\0\0\0\xff\xff\xff\xff", b"\x05\1\0\0\0" + packed("../../etc")]
    names = ("../x", "a/b", "A", "", "x" * 65)
    bodies += [b"\x02\1\0\0\0" + create_message(name) for name in names]
    for body in bodies[1:]:
        link = KeeperLink(box.state)
        link.socket.settimeout(1)
        link.socket.send(body)
        try:
            assert link.socket.recv(300)[:1] in (b"B", b"C")  # done or failed, never created
        except TimeoutError:
            pass
        link.socket.close()
    assert box.keeper() == keeper
    assert box.run(box.create("t"), "echo x")["stdout"] == "x\n"


def test_compression_can_not_be_switched_on(make_box):
    # A15
    box = make_box(MAX_WORKSPACE_SIZE_MB="16")
    session = box.create("t")
    if "Disk quota" not in box.run(session, "for i in 1 2 3; do head -c 10M /dev/zero > $i; done; "
                                            "rm -f 1 2 3")["stderr"]:
        pytest.skip("no quotas here")
    box.run(session, "mkdir z; python3 -c \"import os; "
                     "os.setxattr('z', 'btrfs.compression', b'zstd')\"")
    # More than fits, unless somebody compresses it.
    answer = box.run(session, "for i in 1 2 3 4; do head -c 10M /dev/zero > z/$i; sync z/$i; done")
    assert "Disk quota" in answer["stderr"]


def test_rootless_a_command_can_not_stop_its_minder(make_box):
    # A16
    box = make_box(as_user=NOBODY)
    session = box.create("t")
    started = time.monotonic()
    answer = box.run(session, "kill -STOP $PPID; sleep 100", timeout=1, wait=8)
    assert answer.get("cause") == "timeout" and time.monotonic() - started < 5


# ---- what held ----

def test_no_way_round_the_disk_quota(make_box):
    box = make_box(MAX_WORKSPACE_SIZE_MB="64")
    session = box.create("t")

    def python(code):
        answer = box.run(session, "cat > /dev/shm/p.py; python3 /dev/shm/p.py", stdin=code,
                         timeout=60)
        return int((answer["stdout"].split() or ["0"])[-1])
    if "Disk quota" not in box.run(session, "head -c 70M /dev/zero > f")["stderr"]:
        pytest.skip("no quotas here")
    box.run(session, "rm f")
    # Files without a name.
    assert python("""
import os
keep = []; n = 0
try:
    for i in range(100):
        keep.append(os.open('/tmp', os.O_TMPFILE | os.O_RDWR))
        n += os.write(keep[-1], b'x' * (1 << 20))
except OSError: pass
print(n >> 20)""") <= 64
    # Extended attributes.
    assert python("""
import os
n = 0
try:
    for i in range(10000):
        f = 'x%d' % i; open(f, 'w').close()
        for j in range(4): os.setxattr(f, 'user.%d' % j, b'v' * 3900); n += 3900
except OSError: pass
os.system('rm -f x*')
print(n >> 20)""") <= 64
    # Extents of which one block is still used.
    assert python("""
import os
n = 0
try:
    for i in range(200):
        fd = os.open('p%d' % i, os.O_CREAT | os.O_RDWR)
        os.write(fd, b'y' * (1 << 20)); os.fsync(fd)
        os.ftruncate(fd, 4096); os.close(fd); n += 1
except OSError: pass
os.system('rm -f p*')
print(n)""") <= 200
    # Full, then room again.
    box.run(session, "cat /dev/zero > f")
    assert box.run(session, "rm f && echo x > g && cat g")["stdout"] == "x\n"


def test_subvolumes_and_clones_are_refused_whatever_the_upper_half(box):
    answer = box.run(box.create("t"), """python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('.', 0); buffer = ctypes.create_string_buffer(4096)
for number in 0x5000940e, 0x50009418, 0x40049409, 0xc0189436, 0x15000940e:
    ctypes.set_errno(0)
    result = libc.syscall(16, fd, ctypes.c_long(number), buffer)
    print(result, ctypes.get_errno())" """)
    assert set(answer["stdout"].splitlines()) == {"-1 25"}, answer


def test_everything_that_a_runaway_started_dies_at_its_timeout(box):
    session = box.create("t")
    box.build(session, """
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
  for (int i = 0; i < 50; i++)
    if (fork() == 0) {
      setsid(); if (fork()) _exit(0);
      setsid(); signal(15, SIG_IGN);
      for (;;) if (fork()) _exit(0);  // a pid of its own every moment
    }
  if (syscall(SYS_clone, CLONE_PARENT | 17, 0, 0, 0, 0) == 0) { setsid(); for (;;) pause(); }
  kill(getpid(), SIGSTOP);
  for (;;) pause();
}
""")
    answer = box.run(session, "exec ./a", timeout=2, wait=15)
    assert answer["cause"] == "timeout"
    answer = box.run(session, "cat /proc/[0-9]*/comm 2>/dev/null")
    assert "a" not in answer["stdout"].split()


def test_pid_1_is_out_of_reach(box):
    answer = box.run(box.create("t"), """python3 -c "
import os
for name in os.listdir('/proc/1'):
    for mode in os.O_WRONLY, os.O_RDWR:
        try: os.write(os.open('/proc/1/' + name, mode), b'1'); print('write', name)
        except OSError: pass
names = 'mem maps smaps environ fd fdinfo ns map_files auxv io stack syscall timers pagemap'
for name in names.split():
    path = '/proc/1/' + name
    try:
        os.listdir(path) if os.path.isdir(path) else os.read(os.open(path, 0), 10)
        print('read', name)
    except OSError: pass
for number in 9, 19, 11, 0:
    try: os.kill(1, number); print('kill', number)
    except OSError: pass
try: os.sched_setaffinity(1, [0]); print('affinity')
except OSError: pass" """)
    assert answer["stdout"] == "", answer


def test_nothing_crosses_from_one_sandbox_to_another(box):
    a, b = box.create("a"), box.create("b")
    paths = "'/usr/bin/env', '/etc/passwd', '/dev/null', '/var/empty'"
    box.run(a, f"""python3 -c "
import fcntl, os, socket, time
x = socket.socket(socket.AF_UNIX); x.bind('\\0tb'); x.listen()
l = socket.socket(); l.bind(('127.0.0.1', 5555)); l.listen()
open('/dev/shm/canary', 'w'); open('/tmp/canary', 'w')
for path in ({paths}):
    if os.path.exists(path): fcntl.flock(os.open(path, 0), fcntl.LOCK_EX)
if os.fork(): os._exit(0)
os.setsid()
for fd in 0, 1, 2: os.close(fd)
time.sleep(60)" """)
    answer = box.run(b, f"""python3 -c "
import fcntl, os, socket
for address, family in (('\\0tb', socket.AF_UNIX), (('127.0.0.1', 5555), socket.AF_INET)):
    try: socket.socket(family).connect(address); print('connected', address)
    except OSError: pass
for path in ({paths}):
    if not os.path.exists(path): continue
    try: fcntl.flock(os.open(path, 0), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: print('locked', path)
print(*os.listdir('/tmp'), *os.listdir('/dev/shm'))" """)
    assert answer["stdout"] == "\n", answer
