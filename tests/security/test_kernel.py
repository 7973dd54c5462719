# SPDX-License-Identifier: Apache-2.0
"""Rows K of the catalogue: what the kernel must refuse, asked directly from within a sandbox."""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import secrets
import socket
import struct
import subprocess

import pytest

from conftest import PRELUDE
from server import Server, alive, wait_until

REFUSED = {"EPERM", "ENOSYS"}
SNAPSHOT = pathlib.Path(__file__).parent / "syscalls.json"


def test_K03_no_capability_in_any_set(server, session):
    status = server.stdout(session, "grep ^Cap /proc/self/status")
    assert re.findall(r"Cap(\w+):\s+(\w+)", status) == [
        (name, "0" * 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
    assert "NoNewPrivs:\t1" in server.stdout(session, "cat /proc/self/status")
    assert "Seccomp:\t2" in server.stdout(session, "cat /proc/self/status")


def test_K04_a_set_uid_file_of_one_s_own_gains_nothing(server, session):
    told = server.stdout(session, "cp /usr/bin/python3 p; chmod 6755 p; ls -l p;"
                                  "./p -c 'import os; print(os.getresuid(), os.getresgid())'")
    assert told.endswith("(1000, 1000, 1000) (1000, 1000, 1000)\n")
    for place in ("/workspace", "/tmp", "~", "/dev/shm"):
        options = server.stdout(session, f"findmnt -no OPTIONS -T {place}")
        assert "nosuid" in options and "nodev" in options, place


def test_K04_no_set_uid_program_of_the_host_is_there(server, session):
    found = server.stdout(session, "find /usr/*bin /usr/local/*bin /usr/lib/openssh /usr/libexec "
                                   "/usr/lib/dbus-1.0 -perm /6000 -type f 2>/dev/null; true")
    assert found == ""


def elf32(code):
    """A static 32-bit program that is one segment of machine code."""
    base, head = 0x08048000, 52 + 32
    size = head + len(code)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    return (ident
            + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + head, 52, 0, 0, 52, 32, 1, 0, 0, 0)
            + struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 4096) + code)


def test_K06_a_static_32_bit_program_fails_cleanly(server, session):
    exit_42 = elf32(b"\xb8\x01\x00\x00\x00\xbb\x2a\x00\x00\x00\xcd\x80")  # exit(42) by int 0x80
    pathlib.Path("/var/tmp/tb-elf32").write_bytes(exit_42)
    os.chmod("/var/tmp/tb-elf32", 0o755)
    on_host = subprocess.run(["/var/tmp/tb-elf32"]).returncode
    os.unlink("/var/tmp/tb-elf32")
    answer = server.execute(session, "base64 -d > p; chmod +x p; exec ./p", timeout=5,
                            stdin=base64.b64encode(exit_42).decode())
    assert on_host in (42, 126) or on_host < 0, "the program itself is sound"
    assert answer["exit_code"] not in (0, 42), "no 32-bit system call is let through"
    assert answer["cause"] in ("signal", "exited") and answer["execution_time_ms"] < 3000
    assert server.stdout(session, "echo usable") == "usable\n"


def test_K05_the_old_system_call_gate_is_shut(inside):
    """int 0x80 from a 64-bit program, and a number of the x32 table."""
    assert inside("""
import mmap
def in_child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def gate():
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex('b814000000cd80c3'))  # getpid by int 0x80
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_long)(at)() > 0 else 7)
def x32():
    os._exit(0 if call(0x40000000 + 39) == 'OK' else 7)
tell([in_child(gate), in_child(x32)])
""") in ([-31, -31], [-31, 7], [7, 7])


NAMESPACES = {"NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000,
              "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000, "NEWTIME": 0x80}


def test_K07_no_new_namespace_by_unshare_or_clone(inside):
    told = inside(f"""
answers = {{}}
for name, flag in {NAMESPACES}.items():
    answers[name] = [call(272, flag), call(272, flag | 0x10000000)]
    if name != 'NEWTIME':  # for clone that bit is part of the signal's number
        pid = os.fork()
        if pid == 0:
            # A clone that worked gives two processes that end here; the first one's code is told.
            os._exit(3 if call(56, flag | 17, 0, 0, 0, 0) == 'OK' else 0)
        answers[name].append('OK' if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) else 'EPERM')
    args = struct.pack('<QQQQQQQQ', flag, 0, 0, 0, 17, 0, 0, 0)
    answers[name].append(call(435, ctypes.c_char_p(args), 64))
tell(answers)
""")
    for name, answers in told.items():
        assert set(answers) <= REFUSED, (name, answers)
        assert answers[-1] == "ENOSYS", "clone3 must look like an old kernel's"


def test_K07_threads_and_subprocesses_work(server, session):
    assert server.python(session, """
import threading, subprocess
threads = [threading.Thread(target=lambda: None) for _ in range(50)]
[t.start() for t in threads]; [t.join() for t in threads]
print(subprocess.check_output(['echo', 'hi']))""") == "b'hi\\n'\n"


def test_K08_no_namespace_can_be_entered(inside):
    told = inside("""
answers = []
for who in ('1', 'self'):
    for name in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup'):
        try:
            fd = os.open(f'/proc/{who}/ns/{name}', os.O_RDONLY)
        except OSError as error:
            continue
        answers.append(call(308, fd, 0))
answers.append(call(308, 0, 0))
tell(answers)
""")
    assert set(told) <= REFUSED


def test_K09_nothing_can_be_mounted(inside):
    told = inside("""
b = ctypes.c_char_p
s = lambda text: b(text.encode())
answers = {
 'mount': call(165, s('none'), s('/tmp'), s('tmpfs'), 0, 0),
 'bind': call(165, s('/etc'), s('/tmp'), 0, 4096, 0),
 'remount': call(165, s('none'), s('/'), 0, 32, 0),
 'umount': call(166, s('/proc'), 2), 'pivot_root': call(155, s('.'), s('.')),
 'chroot': call(161, s('/tmp')), 'fsopen': call(430, s('tmpfs'), 0),
 'open_tree': call(428, -100, s('/'), 1), 'move_mount': call(429, -1, s(''), -100, s('/tmp'), 4),
 'fspick': call(433, -100, s('/'), 0), 'mount_setattr': call(442, -100, s('/'), 0, 0, 0),
 'fsmount': call(432, -1, 0, 0)}
tell(answers)
""")
    assert set(told.values()) <= REFUSED, told


def test_K11_K12_nothing_of_proc_sys_opens_for_writing(inside):
    told = inside("""
opened = []
places = [os.path.join(top, name) for top, _, names in os.walk('/proc/sys') for name in names]
for path in places + ['/proc/sysrq-trigger', '/proc/sys/fs/binfmt_misc/register', '/proc/kcore',
                      '/proc/1/oom_score_adj', '/proc/1/mem', '/proc/acpi/wakeup', '/proc/mtrr']:
    if attempt(lambda: os.close(os.open(path, os.O_WRONLY))) == 'OK':
        opened.append(path)
tell([len(places), opened])
""")
    assert told[0] > 100 and told[1] == []


def test_K13_K14_no_sys_and_no_cgroupfs(server, session):
    assert server.stdout(session, "ls -A /sys") == ""
    mounts = server.stdout(session, "cat /proc/self/mountinfo")
    assert " - cgroup" not in mounts and " - sysfs" not in mounts
    places = server.stdout(session, "cut -d: -f3 /proc/self/cgroup").split()
    assert all(re.fullmatch(r"/(c\d+)?", place) for place in places), places


def test_K15_dev_has_the_harmless_ones_only(server, session):
    names = set(server.stdout(session, "ls /dev").split())
    assert names == {"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
                     "stdout", "tty", "urandom", "zero"}
    told = server.python(session, PRELUDE + """
tell([attempt(os.mknod, '/workspace/d', kind | 0o666, os.makedev(*number))
      for kind, number in ((0o020000, (1, 1)), (0o060000, (7, 0)), (0o020000, (5, 1)))]
     + [attempt(os.mknod, '/workspace/fifo', 0o010644), attempt(os.mkfifo, '/workspace/fifo2')])
""")
    *devices, fifo, fifo2 = json.loads(told)
    assert set(devices) <= REFUSED and (fifo, fifo2) == ("OK", "OK")


def test_K16_K18_K19_K20_dangerous_calls_are_refused_before_their_arguments_are_looked_at(inside):
    numbers = {"keyctl": 250, "add_key": 248, "request_key": 249, "io_uring_setup": 425,
               "io_uring_enter": 426, "io_uring_register": 427, "bpf": 321, "perf_event_open": 298,
               "userfaultfd": 323, "name_to_handle_at": 303, "open_by_handle_at": 304,
               "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
               "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168,
               "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
               "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
               "pidfd_getfd": 438, "acct": 163, "iopl": 172, "ioperm": 173, "quotactl": 179,
               "fanotify_init": 300, "syslog": 103, "sethostname": 170, "vmsplice": 278,
               "modify_ldt": 154, "memfd_secret": 447, "process_madvise": 440}
    told = inside(f"tell({{name: call(number, -1, -1, -1, -1, -1, -1) for name, number in "
                  f"{numbers}.items()}})")
    assert set(told.values()) <= REFUSED, told


def test_K21_only_unix_and_internet_sockets(inside):
    told = inside("""
answers = {}
for family in range(0, 50):
    for kind in (1, 2, 3, 5, 10):
        for high in (0, 1 << 32):
            if call(41, family | high, kind, 0) == 'OK': answers[f'{family}/{kind}'] = 'OK'
for protocol in (0, 1, 4, 6, 9, 12, 15, 16):
    if call(41, 16, 3, protocol) == 'OK': answers[f'netlink {protocol}'] = 'OK'
tell(sorted(answers))
""")
    assert told == ["1/1", "1/2", "1/5", "10/1", "10/2", "2/1", "2/2"]


def test_K24_a_terminal_cannot_be_typed_into(inside):
    told = inside("""
import fcntl, pty
master, slave = pty.openpty()
answers = []
for number in (0x5412, 0x541c, 0x541d, 0x5423):
    for high in (0, 1 << 32, 0xdead << 32):
        answers.append(call(16, slave, number | high, ctypes.c_char_p(b'x')))
tell([answers, os.ttyname(slave)])
""")
    assert set(told[0]) == {"EPERM"}
    assert told[1].startswith("/dev/pts/")


def test_K26_pid_1_cannot_be_touched(inside):
    told = inside("""
tell({'seize': call(101, 0x4206, 1, 0, 0), 'vm': call(310, 1, 0, 0, 0, 0, 0),
 'getfd': call(438, 0, 3, 0),
 **{name: attempt(lambda: open(f'/proc/1/{name}', 'rb').read(1))
    for name in ('mem', 'environ', 'maps', 'auxv', 'syscall', 'stack')},
 'fd': attempt(os.listdir, '/proc/1/fd'), 'exe': attempt(os.readlink, '/proc/1/exe'),
 'root': attempt(os.listdir, '/proc/1/root/'), 'cwd': attempt(os.readlink, '/proc/1/cwd')})
""")
    assert set(told.values()) <= {"EPERM", "EACCES", "ENOSYS", "ESRCH"}, told


def test_K30_only_the_standard_streams_are_open_inside(start_server):
    server = start_server()
    session = server.create()
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) > 500,
                   "the server holds them")
        code = ("import os\nfor fd in range(4096):\n try: os.fstat(fd); print(fd)\n"
                " except OSError: pass")
        assert server.stdout(session, "exec python3 -c \"$(cat)\"", stdin=code).split() == [
            "0", "1", "2"]


def test_K34_the_host_s_command_line_is_hidden(server, session):
    assert server.execute(session, "cat /proc/cmdline")["stdout"] == ""


CANARY_SEARCH = """
import os, sys
word = sys.argv[1][::-1].encode()
hits, seen = [], 0
def look(path):
    global seen
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > 64 << 20: return
        with open(path, 'rb') as file: data = file.read(64 << 20)
    except OSError:
        return
    seen += 1
    if word in data: hits.append(path)
for top, folders, names in os.walk('/'):
    if word in top.encode(): hits.append(top)
    folders[:] = [f for f in folders if os.path.join(top, f) not in ('/usr', '/proc', '/dev')]
    for name in names: look(os.path.join(top, name))
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline', 'maps', 'mountinfo', 'mounts', 'status', 'cgroup', 'stat',
                 'limits', 'net/unix', 'net/tcp', 'comm', 'smaps'):
        try:
            data = open(f'/proc/{pid}/{name}', 'rb').read()
        except OSError:
            continue
        seen += 1
        if word in data: hits.append(f'/proc/{pid}/{name}')
for name in os.listdir('/proc'):
    if not name.isdigit() and name not in ('kmsg', 'kcore'): look('/proc/' + name)
print(seen > 50, hits)
"""


def test_K36_no_secret_of_the_host_or_another_session_is_seen(binary):
    word = "CANARY" + secrets.token_hex(8)
    at_home = pathlib.Path("/root") / f".threadbox-test-{word}"
    server = Server(state_dir=f"/var/tmp/tb-{word}", TEST_SECRET=word)
    os.mkdir(server.state_dir)
    try:
        at_home.write_text(word)
        pathlib.Path(server.state_dir, "config").write_text(word)
        os.chmod(pathlib.Path(server.state_dir, "config"), 0o644)
        server.start()
        other, session = server.create(f"thread {word}", user_id=word), server.create()
        server.stdout(other, f"echo {word} | tee f /tmp/f ~/f /dev/shm/f; sleep 99 & true",
                      env={"SECRET": word})
        told = server.stdout(session, f"python3 - {word[::-1]}", stdin=CANARY_SEARCH, timeout=60)
        assert told == "True []\n"
        server.close()
    finally:
        at_home.unlink(missing_ok=True)
        server.remove()


def test_K37_K38_nothing_of_the_host_can_be_reached(server, inside):
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    told = inside(f"""
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)
answers = [attempt(connect, socket.AF_INET6 if ':' in host else socket.AF_INET,
                   (host, {server.port}))
           for host in ['127.0.0.1', '0.0.0.0', '::1', '169.254.169.254', '172.17.0.1', '10.0.0.1']
           + {addresses}]
answers += [attempt(connect, socket.AF_UNIX, path) for path in
            ('{server.state_dir}/keeper.sock', '/run/docker.sock', '/var/run/docker.sock')]
tell([answers, open('/proc/net/unix').read(), os.listdir('/proc/sys/net/ipv4/conf')])
""")
    assert "OK" not in told[0] and set(told[2]) == {"all", "default", "lo"}
    assert not set("/@") & set(told[1]) and told[1].count("\n") <= 3, told  # a pair without names


def test_K40_K41_no_priority_and_no_personality(inside):
    told = inside("""
answers = [attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),
 attempt(os.setpriority, os.PRIO_PROCESS, 0, -5), call(251, 1, 0, 1 << 13 | 0),
 attempt(lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000')),
 call(135, 0x0040000), call(135, 0x0400000), call(135, 0x8)]
tell(answers)
""")
    assert "OK" not in told, told


def test_K45_nothing_crosses_between_sessions(server):
    one, two = server.create(), server.create()
    server.stdout(one, "cat > code; python3 code > log 2>&1 & "
                       "until grep -sq ready log; do sleep 0.01; done", stdin=PRELUDE + """
shm = _libc.shmget(0x5ec4e7, 4096, 0o1666)
_libc.mq_open(b'/secret', os.O_CREAT | os.O_RDWR, 0o666, None)
tcp = socket.create_server(('127.0.0.1', 4242))
abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0secret'); abstract.listen()
for path in ('/tmp/s', '/dev/shm/s', '/home/sandboxuser/s'): open(path, 'w').write('s')
print('ready', shm, flush=True); time.sleep(60)
""")
    told = json.loads(server.python(two, PRELUDE + """
def tcp(): socket.create_connection(('127.0.0.1', 4242), 1)
def abstract(): socket.socket(socket.AF_UNIX).connect('\\0secret')
tell({'shm': _libc.shmget(0x5ec4e7, 4096, 0), 'mq': _libc.mq_open(b'/secret', os.O_RDWR),
 'tcp': attempt(tcp), 'abstract': attempt(abstract),
 'files': [p for p in ('/tmp/s', '/dev/shm/s', '/home/sandboxuser/s') if os.path.exists(p)],
 'pids': sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[:1],
 'ipc': open('/proc/sysvipc/shm').read().count(chr(10))})
"""))
    assert told == {"shm": -1, "mq": -1, "tcp": "ECONNREFUSED", "abstract": "ECONNREFUSED",
                    "files": [], "pids": [1], "ipc": 1}
    server.cleanup(one)
    server.cleanup(two)


def test_K45_locks_and_watches_do_not_cross(server):
    """Over one shared root, flock and inotify would: each session has an overlay of its own."""
    one, two = server.create(), server.create()
    server.stdout(one, "flock -x /etc/passwd sh -c 'echo ready; sleep 60' > log &"
                       "until grep -sq ready log; do sleep 0.01; done")
    assert server.execute(two, "flock -n -x /etc/passwd true")["exit_code"] == 0
    server.cleanup(one)
    server.cleanup(two)


def digest_of_host():
    names = ["/usr/bin/bash", "/usr/bin/env", os.path.realpath("/usr/bin/python3"),
             os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6"), "/etc/passwd"]
    return {name: hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest() for name in names}


def test_K46_the_host_s_files_are_the_same_after_an_attack_on_them(server, session):
    before = digest_of_host()
    server.execute(session, """exec python3 -""", stdin=PRELUDE + """
import mmap, fcntl
for path in ('/usr/bin/bash', '/usr/bin/env', os.path.realpath('/usr/bin/python3'), '/etc/passwd'):
    attempt(os.chmod, path, 0o777); attempt(os.truncate, path, 0); attempt(os.unlink, path)
    attempt(os.rename, path, path + 'x'); attempt(os.setxattr, path, 'user.x', b'y')
    fd = os.open(path, os.O_RDONLY)
    page = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    page[:4] = b'EVIL'
    r, w = os.pipe()
    attempt(os.splice, fd, w, 4096)          # the shape of Dirty Pipe: page cache in a pipe,
    os.read(r, 100); attempt(os.write, w, b'EVIL')  # then a write that must not merge into it
    attempt(os.sendfile, w, fd, 0, 100)
    attempt(os.pwrite, fd, b'EVIL', 0); attempt(os.ftruncate, fd, 0)
    attempt(lambda: os.open(f'/proc/self/fd/{fd}', os.O_WRONLY))
""")
    assert digest_of_host() == before


SWEEP = """
def outcome(number):
    pid = os.fork()
    if pid == 0:
        signal.alarm(2)
        null = os.open('/dev/null', os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        answer = call(number, -1, -1, -1, -1, -1, -1)
        os._exit({'EPERM': 10, 'ENOSYS': 11}.get(answer, 12))
    return os.waitpid(pid, 0)[1]
tell([number for number in range(0, 601)
      if os.waitstatus_to_exitcode(outcome(number)) not in (10, 11)])
"""


def syscall_names():
    header = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read_text()
    # Newer than the header; the first two never pass a filter: the kernel lets them through and
    # ends a process that calls them from anywhere but its own trampoline.
    newer = {335: "uretprobe", 336: "uprobe", 452: "fchmodat2"}
    return {**newer, **{int(n): name for name, n in re.findall(r"__NR_(\w+) (\d+)", header)}}


def test_K47_no_system_call_beyond_the_snapshot_answers(inside):
    """Set THREADBOX_UPDATE=1 to write the snapshot anew; the diff is to be read."""
    reached = inside(SWEEP, timeout=120)
    if os.environ.get("THREADBOX_UPDATE"):
        names = syscall_names()
        table = {names.get(number, f"nr_{number}"): number for number in reached}
        SNAPSHOT.write_text(json.dumps(table, indent=1) + "\n")
    known = json.loads(SNAPSHOT.read_text())
    assert sorted(set(reached) - set(known.values())) == [], "these answer and are not listed"
    assert [n for n, v in known.items() if v not in reached] == [], "these no longer answer"


@pytest.mark.parametrize("command", ["kill -9 -1", "kill -9 1", "kill -STOP 1", "kill -SEGV 1",
                                     "kill -TERM 1; kill -INT 1; kill -HUP 1; kill -USR1 1",
                                     "kill -STOP -1", "pkill -9 threadbox"])
def test_K48_pid_1_survives_its_tenant(server, session, command):
    guest = server.guest_pid(session)
    server.execute(session, command, timeout=2)
    assert server.stdout(session, "echo usable", timeout=5) == "usable\n"
    assert server.guest_pid(session) == guest and alive(guest)


def test_K50_a_crash_leaves_no_core_and_starts_no_helper(server, session):
    answer = server.execute(session, "ulimit -c unlimited; kill -SEGV $$")
    assert answer["signal"] == 11 or answer["exit_code"] == 1
    answer = server.execute(session, "ulimit -c")
    assert answer["stdout"] == "0\n"
    server.execute(session, "python3 -c 'import ctypes; ctypes.string_at(0)'")
    assert server.stdout(session, "find /workspace /tmp ~ -name '*core*'") == ""


def test_links_lead_nowhere(server, session):
    told = server.execute(session, """
ln /usr/bin/bash hard; ln -s /etc/shadow shadow; cat shadow; ln -s /proc/1/root root; ls root/
ln -s / top; ls top/root top/../../../root; cd top/..; ls root; cat /proc/self/root/etc/shadow
ls /proc/self/cwd/../../../var/tmp/""")
    assert told["stdout"].replace("top/root:", "").replace("top/../../../root:", "").split() == []
    assert server.stdout(session, "pwd -P; readlink -f /workspace/../..") == "/workspace\n/\n"


def test_an_open_directory_above_the_root_does_not_exist(inside):
    """The shape of CVE-2024-21626: a cwd or a descriptor outside of the root."""
    assert inside("""
tell([os.getcwd(), os.readlink('/proc/self/root'), os.path.samefile('/', '/..'),
      [os.readlink(f'/proc/self/fd/{fd}') for fd in range(3)][1].startswith('pipe:')])
""") == ["/workspace", "/", True, True]


@pytest.mark.parametrize("name,number", [("SUBVOL_CREATE", 0x5000940e), ("SNAP_CREATE", 0x50009401),
                                         ("SNAP_DESTROY", 0x5000940f), ("QUOTA_CTL", 0xc0109428),
                                         ("QGROUP_LIMIT", 0x8030942b), ("RESIZE", 0x50009403),
                                         ("SUBVOL_CREATE_V2", 0x50009418)])
def test_btrfs_is_not_there_for_a_tenant(inside, name, number):
    """A subvolume of one's own would have no quota."""
    told = inside(f"""
fd = os.open('/workspace', os.O_RDONLY)
arg = ctypes.create_string_buffer(4096); arg[8:13] = b'mine' + bytes(1)
tell([call(16, fd, {number} | high, arg) for high in (0, 1 << 32, 0x7fffffff << 32)])
""")
    assert set(told) == {"ENOTTY"}, name


def test_copies_that_try_to_share_extents_still_work(server, session):
    assert server.stdout(session, "head -c 1M /dev/urandom > a; cp --reflink=auto a b; cmp a b && "
                                  "echo same") == "same\n"
