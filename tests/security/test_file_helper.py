# SPDX-License-Identifier: Apache-2.0
"""The process that opens files for the server as the tenant: attacked, starved, killed, rootless;
and F26, the end of all files."""
import json
import os

from conftest import PRELUDE, quick, refused
from files import Raw, descriptors, download, everything, names, query, upload, uploaded
from server import wait_until


# ---- the helper ----

ATTACK = PRELUDE + """
tried, denied, opened = 0, 0, []
for name in os.listdir('/proc'):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    status = open(f'/proc/{name}/status').read()
    if 'Uid:\\t1000' in status:
        continue
    pid = int(name)
    for file in ('mem', 'maps', 'environ', 'fd', 'cwd', 'root', 'exe', 'stack', 'syscall', 'ns/mnt',
                 'io', 'auxv', 'pagemap', 'clear_refs', 'oom_score_adj', 'timerslack_ns'):
        path = f'/proc/{pid}/{file}'
        flags = os.O_RDWR if file in ('oom_score_adj', 'mem', 'clear_refs') else os.O_RDONLY
        if file == 'fd': result = attempt(os.listdir, path)
        elif file in ('cwd', 'root', 'exe', 'ns/mnt'): result = attempt(os.readlink, path)
        else: result = attempt(lambda: os.read(os.open(path, flags), 1))
        tried += 1
        opened += [path] if result == 'OK' else []
    for number in (0, 9, 15, 18, 19, 20):
        result = attempt(os.kill, pid, number)
        opened += [f'kill {number}'] if result == 'OK' else []
    opened += ['ptrace'] if call(101, 0x4206, pid, 0, 0) == 'OK' else []
    vector = ctypes.create_string_buffer(16)
    opened += ['process_vm_readv'] if call(310, pid, vector, 1, vector, 1, 0) == 'OK' else []
    pidfd = _libc.syscall(434, pid, 0)
    opened += ['pidfd_getfd'] if pidfd >= 0 and call(438, pidfd, 3, 0) == 'OK' else []
    limit = struct.pack('QQ', 0, 0)
    opened += ['prlimit'] if call(302, pid, 7, limit, 0) == 'OK' else []
    opened += ['nice'] if attempt(os.setpriority, os.PRIO_PROCESS, pid, 19) == 'OK' else []
    opened += ['affinity'] if attempt(os.sched_setaffinity, pid, [0]) == 'OK' else []
attempt(os.kill, -1, 19)
tell([tried, opened])
"""


def test_K26_nobody_reaches_the_helper(server, session):
    raw = Raw(server).begin_upload(session, "f", length=2000).send(b"x" * 1000)
    wait_until(lambda: len(server.sandbox_pids(session)) == 2, "the helper waits")
    tried, opened = json.loads(server.stdout(session, "exec python3 -", stdin=ATTACK))
    assert tried == 2 * 16 and opened == []
    raw.send(b"y" * 1000).end_upload()
    assert raw.status() == 200
    raw.close()
    assert download(server, session, "f").body == b"x" * 1000 + b"y" * 1000


def test_an_upload_outlives_commands_that_are_killed_beside_it(server, session):
    raw = Raw(server).begin_upload(session, "f", length=2000).send(b"x" * 1000)
    wait_until(lambda: len(server.sandbox_pids(session)) == 2, "the helper waits")
    assert server.execute(session, "sleep 60", timeout=1)["cause"] == "timeout"
    hog = "exec python3 -c 'x = [bytearray(1 << 20) for _ in range(4096)]'"
    assert server.execute(session, hog)["cause"] == "oom"
    raw.send(b"y" * 1000).end_upload()
    assert raw.status() == 200
    raw.close()


def test_no_process_left_for_a_helper_is_a_clear_answer(start_server):
    server = start_server(PIDS_LIMIT=20)
    session, other = server.create(), server.create()
    server.execute(session, """python3 -c '
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(60); os._exit(0)
    except OSError: time.sleep(0.001)' > /dev/null 2>&1 &""")
    # And one more, that of a shell which is only copied.
    wait_until(lambda: len(server.sandbox_pids(session, True)) == 21, "all processes are taken")
    for reply in (quick(upload, server, session, "f", b"x"), quick(download, server, session, "f"),
                  quick(server.get, "/list_files?" + query(session_id=session))):
        assert reply.status == 503 and "limit of processes" in reply.json["error"], reply
        assert reply.headers["Retry-After"]
    uploaded(server, other, "f", b"x")


def test_more_uploads_than_a_sandbox_has_processes(start_server):
    server = start_server(PIDS_LIMIT=20)
    session, other = server.create(), server.create()
    raws = [Raw(server).begin_upload(session, f"f{i}", length=10).send(b"x") for i in range(40)]
    wait_until(lambda: len(server.sandbox_pids(session)) >= 20, "all processes are taken")
    uploaded(server, other, "f", b"x")
    statuses = []
    for raw in raws:
        try:
            raw.send(b"x" * 9).end_upload()
            statuses.append(raw.status())
        except ConnectionError:
            statuses.append(503)
        raw.close()
    assert set(statuses) == {200, 503} and statuses.count(200) > 5, statuses
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")
    assert len(everything(server, session)) == statuses.count(200)


def test_a_sandbox_that_does_not_answer_holds_up_nobody(start_server):
    server = start_server()
    session, other = server.create(), server.create()
    uploaded(server, session, "f", b"x")
    guest = server.guest_pid(session)
    os.kill(guest, 19)
    try:
        waiting = [Raw(server).begin_download(session, "f") for _ in range(20)]
        for _ in range(5):
            assert quick(upload, server, other, "f", b"x", seconds=1).status == 200
            assert quick(server.stdout, other, "echo on", seconds=1) == "on\n"
        for raw in waiting[10:]:
            raw.close()
    finally:
        os.kill(guest, 18)
    for raw in waiting[:10]:
        assert raw.status() == 200
        raw.close()
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")


# ---- the end ----

def test_F26_a_session_goes_with_whatever_is_in_it(start_server):
    server = start_server()
    session = server.create()
    server.python(session, """
import os
for i in range(20000): os.close(os.open(f'f{i}', os.O_CREAT))
os.makedirs('locked/inner/deeper')
open('locked/inner/f', 'w').write('x')
os.mkfifo('p')
os.chmod('locked/inner', 0); os.chmod('locked', 0)""", timeout=60)
    server.stdout(session, "head -c 20M /dev/zero > big")
    server.execute(session, "python3 -c 'import os\nf = open(\"open\", \"w\")\n"
                            "while True: f.write(\"x\" * 65536); f.seek(0)' > /dev/null 2>&1 &")
    up = Raw(server).begin_upload(session, "late", length=2000).send(b"x")
    down = Raw(server, window=4096).begin_download(session, "big")
    assert down.status() == 200
    quick(server.cleanup, session, seconds=5)
    assert not server.sandbox_pids(session)
    left = [path for path, _, _ in os.walk(server.state_dir) if session in path]
    assert left == []
    up.send(b"x" * 1999).end_upload()
    assert up.status() in (404, 503)
    up.close()
    down.close()
    wait_until(lambda: not [name for name in descriptors(server.process.pid) if "/big" in name],
               "the server has let go of it")


# ---- without root ----

def test_without_root_files_go_up_and_down_and_stay_inside(rootless, canary):
    session = rootless.create()
    uploaded(rootless, session, "a/b", b"hello")
    uploaded(rootless, session, "a/b", b"again")
    assert download(rootless, session, "a/b").body == b"again"
    assert rootless.stdout(session, "cat a/b; stat -c %U a/b") == "againsandboxuser\n"
    rootless.stdout(session, f"ln -s {canary}/f link; ln -s {canary} d; mkfifo p")
    for name in ("link", "d/f", "p"):
        refused(quick(download, rootless, session, name))
        refused(quick(upload, rootless, session, name, b"x"))
    assert names(rootless, session) == ["a", "d", "link", "p"]


def test_without_root_an_upload_outlives_a_command_that_ends_badly(rootless):
    """Strays are ended then, which the helper is not."""
    session = rootless.create()
    raw = Raw(rootless).begin_upload(session, "f", length=2000).send(b"x" * 1000)
    wait_until(lambda: "threadbox-guest" in rootless.stdout(
        session, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | sed 1d"), "the helper waits")
    rootless.execute(session, "(setsid sleep 60 &) ; kill -9 $PPID; sleep 1")
    rootless.execute(session, "sleep 60", timeout=1)
    assert rootless.stdout(session, "pgrep -c sleep || true") == "0\n"
    raw.send(b"y" * 1000).end_upload()
    assert raw.status() == 200
    raw.close()


def test_without_root_the_helper_can_be_killed_but_not_entered(rootless):
    """It has the tenant's uid there. Its memory and its files stay its own."""
    session = rootless.create()
    raw = Raw(rootless).begin_upload(session, "f", length=2000).send(b"x" * 1000)
    told = json.loads(rootless.python(session, PRELUDE + """
found = []
end = time.monotonic() + 5
while not found and time.monotonic() < end:
    for name in os.listdir('/proc'):
        mine = name in ('1', str(os.getppid()))  # PID 1, and the command's minder
        if name.isdigit() and not mine and os.path.exists(f'/proc/{name}/cmdline'):
            if open(f'/proc/{name}/status').read().find('PPid:\\t1\\n') > 0:
                words = open(f'/proc/{name}/cmdline').read()
                found += [int(name)] if words.startswith('threadbox-guest') else []
results = {}
for pid in found:
    if attempt(os.listdir, f'/proc/{pid}/fd') == 'OK': results['fd'] = pid
    if attempt(lambda: open(f'/proc/{pid}/mem', 'rb')) == 'OK': results['mem'] = pid
    if call(101, 0x4206, pid, 0, 0) == 'OK': results['ptrace'] = pid
    attempt(os.kill, pid, 9)
tell([len(found), results])"""))
    assert told[0] >= 1 and told[1] == {}, told
    try:
        raw.send(b"y" * 1000).end_upload()
        assert raw.status() in (200, 503)
    except ConnectionError:
        pass
    raw.close()
    assert everything(rootless, session) == []
    uploaded(rootless, session, "f", b"x")
