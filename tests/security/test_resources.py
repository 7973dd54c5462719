# SPDX-License-Identifier: Apache-2.0
"""Rows R of the catalogue: bombs go off inside, the host and the neighbours don't notice."""
import contextlib
import json
import os
import threading
import time

import pytest

from conftest import PRELUDE
from server import Server, alive, read_text, tag_of, wait_until

MIB = 1 << 20
HOG = "python3 -c 'x = [bytearray(1 << 20) for _ in range(4096)]'"


def resident(pid):
    """Bytes."""
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def memory_available():
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


def host_disk(server):
    """(free bytes, free inodes) of the file system that holds the state directory."""
    info = os.statvfs(server.state_dir)
    return info.f_bfree * info.f_frsize, info.f_ffree


def counter(server, session, controller, name):
    tag = tag_of(server.state_dir)
    for base in (f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        text = read_text(f"{base}/threadbox/{tag}/{session}/{name}")
        if text:
            return int(text.split()[0])
    return None


@contextlib.contextmanager
def neighbour(server, session):
    """Measures another session's `echo` meanwhile; yields the list of its durations."""
    durations, over = [], threading.Event()

    def knock():
        while not over.is_set():
            began = time.monotonic()
            assert server.stdout(session, "echo on") == "on\n"
            durations.append(time.monotonic() - began)

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield durations
    finally:
        over.set()
        thread.join()


def quantile(durations, part):
    return sorted(durations)[int(len(durations) * part)]


@pytest.mark.parametrize("name,command", [
    ("bash", ":(){ :|:& };:; sleep 60"),
    ("python", "python3 -c 'import os\nwhile True:\n try: os.fork()\n except OSError: pass'")])
def test_R01_a_fork_bomb_stops_at_its_limit_and_ends_at_its_timeout(server, session, name, command):
    quiet = server.create()
    with neighbour(server, quiet) as durations:
        answer = server.execute(session, command, timeout=3)
        peak = len(server.sandbox_pids(session))
    assert answer["cause"] == "timeout" and "pids" in answer["limits_hit"], answer
    assert peak <= 256
    assert len(durations) > 5
    assert quantile(durations, 0.5) < 0.25, "a neighbour waits for at most a quarter second"
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "only PID 1 is left", 5)
    assert server.stdout(session, "echo usable") == "usable\n"
    server.cleanup(quiet)


def test_R01_a_full_process_table_is_a_clear_answer(server, session):
    server.execute(session, "python3 -c 'import os,time\ntry:\n  while os.fork(): pass\n"
                            "except OSError: pass\ntime.sleep(30)' & sleep 0.5; true")
    reply = server.try_execute(session, "echo x", timeout=5)
    assert reply.status in (200, 429), reply
    if reply.status == 429:
        assert "processes" in reply.json["error"]
    assert server.stdout(server.create(), "echo on") == "on\n"


def test_R02_a_memory_bomb_is_killed_and_the_answer_says_so(start_server):
    server = start_server()
    session = server.create()
    server.stdout(session, "true")
    before = resident(server.process.pid)
    answer = server.execute(session, "exec " + HOG)
    assert (answer["exit_code"], answer["cause"], answer["signal"]) == (137, "oom", 9)
    assert "memory" in answer["limits_hit"]
    through_bash = server.execute(session, HOG + "; exit $?")
    assert (through_bash["exit_code"], through_bash["cause"]) == (137, "oom")
    assert server.stdout(session, "echo usable") == "usable\n"
    assert resident(server.process.pid) - before < 5 * MIB
    assert alive(server.keeper_pid())


def test_R02_an_exit_after_a_child_s_oom_names_the_limit(server, session):
    answer = server.execute(session, HOG + "; echo went on; exit 3")
    assert (answer["exit_code"], answer["stdout"]) == (3, "went on\n")
    assert "memory" in answer["limits_hit"]


@pytest.mark.parametrize("place,command", [
    ("/dev/shm", "head -c 4G /dev/zero > /dev/shm/f"),
    ("/tmp", "head -c 4G /dev/zero > /tmp/f"),
    ("memfd", "python3 -c 'import os; f = os.memfd_create(\"m\")\nwhile True: "
              "os.write(f, bytes(1 << 20))'")])
def test_R03_memory_by_files_is_charged_and_bounded(server, session, place, command):
    before = memory_available()
    answer = server.execute(session, command, timeout=60)
    assert answer["exit_code"] != 0, place
    assert answer["cause"] in ("exited", "oom", "signal")
    assert before - memory_available() < 700 * MIB
    # Even with its memory full a session can be used, or says why not.
    reply = server.try_execute(session, "rm -f /tmp/f /dev/shm/f; echo usable", timeout=5)
    assert reply.status in (200, 429, 503), reply


@pytest.mark.parametrize("name,code", [
    ("full pipes", "things = []\nwhile True:\n r, w = os.pipe(); things.append((r, w))\n"
                   " os.set_blocking(w, False)\n try:\n  while True: os.write(w, bytes(65536))\n"
                   " except BlockingIOError: pass"),
    ("socket pairs", "things = []\nwhile True:\n a, b = socket.socketpair(); a.setblocking(False)\n"
                     " things.append((a, b))\n try:\n  while True: a.send(bytes(65536))\n"
                     " except BlockingIOError: pass"),
    ("timers", "import ctypes.util\nwhile True:\n t = ctypes.c_void_p()\n"
               " if _libc.timer_create(0, None, ctypes.byref(t)): raise OSError('no more timers')"),
    ("epoll", "import select\ne = [select.epoll() for _ in range(500)]\n"
              "p = [os.pipe() for _ in range(1500)]\nfor one in e:\n for r, w in p:\n"
              "  one.register(r); one.register(w)\nraise OSError('had them all')")])
def test_R04_kernel_objects_are_bounded(server, session, name, code):
    before = memory_available()
    answer = server.execute(session, "exec python3 -", stdin=PRELUDE + code, timeout=60)
    assert answer["cause"] in ("exited", "oom") and answer["exit_code"] != 0, answer
    assert before - memory_available() < 400 * MIB, name
    assert server.stdout(session, "echo usable") == "usable\n"


def test_R05_threads_count_as_processes(server, session):
    told = server.python(session, """
import threading, time
count = 0
try:
    for count in range(10000): threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
except RuntimeError as error: print(count, error)
import os; os.sys.stdout.flush(); os._exit(0)
""")
    assert 100 < int(told.split()[0]) <= 256


def test_R06_eight_spinners_share_the_quota(start_server):
    server = start_server(CPU_QUOTA=25000)
    session, quiet = server.create(), server.create()
    with neighbour(server, quiet) as durations:
        answer = server.execute(session, "for i in 1 2 3 4 5 6 7 8; do timeout 4 bash -c "
                                         "'while :; do :; done' & done; wait", timeout=30)
    assert answer["exit_code"] == 0
    assert "cpu" in answer["limits_hit"]
    share = answer["cpu_time_ms"] / answer["execution_time_ms"]
    assert 0.18 < share < 0.30, answer
    assert quantile(durations, 0.9) < 0.5


@pytest.fixture(scope="module")
def small(binary):
    """64 MiB of disk for each sandbox."""
    server = Server(MAX_WORKSPACE_SIZE_MB=64)
    try:
        yield server.start()
        server.close()
    finally:
        server.remove()


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "~"])
def test_R07_a_disk_bomb_ends_at_the_limit(small, place):
    session = small.create()
    before, _ = host_disk(small)
    answer = small.execute(session, f"cd {place}; dd if=/dev/zero of=f bs=1M count=20000; "
                                    "code=$?; stat -c %s f; exit $code", timeout=60)
    assert answer["exit_code"] != 0
    assert "quota" in answer["stderr"].lower() or "No space" in answer["stderr"], answer
    assert int(answer["stdout"]) <= 64 * MIB
    after, _ = host_disk(small)
    assert before - after < 80 * MIB
    assert small.stdout(session, f"cd {place}; rm f; echo x > g; cat g") == "x\n"
    small.cleanup(session)


def test_R07_many_files_together_end_at_the_limit_and_the_answer_says_disk(small):
    session = small.create()
    answer = small.execute(session, "for d in /workspace /tmp ~; do for i in $(seq 10); do "
                                    "head -c 8M /dev/urandom > $d/$i || exit 9; done; done")
    assert answer["exit_code"] == 9
    assert "quota" in answer["stderr"].lower() or "No space" in answer["stderr"]
    assert "disk" in answer["limits_hit"]
    used = small.stdout(session, "du -smc /workspace /tmp ~ 2>/dev/null | tail -1")
    assert 40 < int(used.split()[0]) <= 65
    other = small.create()
    assert small.stdout(other, "head -c 32M /dev/zero > f; echo fine") == "fine\n"
    for one in (session, other):
        small.cleanup(one)


def test_R07_what_others_hold_open_is_counted_too(small):
    """A deleted file that is still open takes its room."""
    session = small.create()
    answer = small.execute(session, """exec python3 -""", stdin="""
import os
held, total = [], 0
try:
    for n in range(200):
        held.append(open(f'/workspace/{n}', 'wb', buffering=0)); os.unlink(f'/workspace/{n}')
        held[-1].write(os.urandom(1 << 20)); os.fsync(held[-1].fileno()); total += 1
except OSError as error: print(total, error.strerror)
""")
    assert int(answer["stdout"].split()[0]) <= 64, answer
    small.cleanup(session)


def test_R08_a_million_empty_files_stop_at_the_limit_and_cost_the_host_no_inode(small):
    session = small.create()
    _, before = host_disk(small)
    answer = small.execute(session, "exec python3 -", timeout=100, stdin="""
import os
count = 0
try:
    for folder in range(1000):
        os.mkdir(f'/workspace/{folder}')
        for name in range(1000):
            os.close(os.open(f'/workspace/{folder}/{name}', os.O_CREAT | os.O_WRONLY)); count += 1
except OSError as error: print(error.strerror)
print(count)
""")
    assert answer["cause"] == "exited", answer
    error, count = answer["stdout"].splitlines()
    assert "quota" in error or "space" in error
    assert 10_000 < int(count) < 1_000_000
    _, after = host_disk(small)
    assert abs(before - after) < int(count) / 20, "others on this machine make files, too"
    began = time.monotonic()
    small.cleanup(session)
    assert time.monotonic() - began < 10


def test_R09_a_sparse_file_of_a_terabyte_costs_nothing(server, session):
    before, _ = host_disk(server)
    answer = server.execute(session, "truncate -s 1T sparse; ls -ls sparse; rm -f sparse; true")
    assert answer["cause"] in ("exited", "signal")
    after, _ = host_disk(server)
    assert before - after < 50 * MIB


@pytest.mark.parametrize("depth", [
    5000, pytest.param(20000, marks=pytest.mark.long)])  # Landlock looks at every level each time
def test_R10_a_deep_chain_of_directories_can_be_deleted(start_server, depth):
    server = start_server(POOL_SIZE=0)
    session = server.create()
    server.python(session, f"""
import os
for depth in range({depth}):
    os.mkdir('d' * 200); os.chdir('d' * 200)
""", timeout=100)
    began = time.monotonic()
    server.cleanup(session)
    assert time.monotonic() - began < 5
    assert os.listdir(f"{server.state_dir}/output") == []
    assert os.listdir(f"{server.state_dir}/sandboxes") == []
    fresh = server.create()
    assert server.stdout(fresh, "echo usable") == "usable\n"


def test_limits_of_a_sandbox_are_those_of_the_settings(start_server):
    server = start_server(MEMORY_LIMIT="100m", PIDS_LIMIT=50, CPU_QUOTA=30000)
    session = server.create()
    memory = counter(server, session, "memory", "memory.limit_in_bytes")
    assert (memory or counter(server, session, "memory", "memory.max")) == 100 * MIB
    assert counter(server, session, "pids", "pids.max") == 50 + 1  # a shell that is only copied
    quota = counter(server, session, "cpu", "cpu.cfs_quota_us")
    assert (quota or counter(server, session, "cpu", "cpu.max")) == 30000


def test_nothing_can_be_locked_into_memory_beyond_a_little(server, session):
    told = json.loads(server.python(session, PRELUDE + """
buffer = ctypes.create_string_buffer(8 << 20)
tell([call(149, ctypes.addressof(buffer), 8 << 20), call(151, 3)])"""))
    assert "OK" not in told
