# SPDX-License-Identifier: Apache-2.0
"""Damaged, stale or missing state; disks and tables that are full."""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from server import PATIENCE, Server, alive, tag_of, wait_until


def flip(position):
    def damage(path):
        data = bytearray(path.read_bytes())
        data[position if position >= 0 else len(data) + position] ^= 0x40
        path.write_bytes(data)
    return damage


def cut(keep):
    return lambda path: path.write_bytes(path.read_bytes()[:keep])


def huge(path):
    with open(path, "r+b") as file:
        file.truncate(4 << 30)


DAMAGES = {
    "empty": cut(0), "short": cut(3), "cut in the middle": cut(40), "cut at the end": cut(-1),
    "wrong version": flip(0), "flipped environment size": flip(7), "flipped slot": flip(47),
    "flipped label": flip(-3), "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "noise": lambda path: path.write_bytes(os.urandom(500)), "huge": huge}


@pytest.mark.parametrize("name", DAMAGES)
def test_FT32_a_damaged_record_costs_its_session_at_most(start_server, name):
    server = start_server()
    bad, good = server.create("bad"), server.create("good")
    server.stdout(good, "echo data > f")
    server.stop()
    DAMAGES[name](pathlib.Path(server.state_dir, "sandboxes", bad))
    server.start()
    assert server.create("good") == good
    assert server.stdout(good, "cat f") == "data\n"
    fresh = server.create("bad")
    assert server.stdout(fresh, "echo usable") == "usable\n"


def test_FT32_a_damaged_record_is_set_aside_and_told(start_server):
    server = start_server()
    session = server.create("t")
    server.stop()
    path = pathlib.Path(server.state_dir, "sandboxes", session)
    path.write_bytes(b"nonsense")
    server.start()
    assert "damaged" in server.log()
    assert path.with_name(session + ".damaged").read_bytes() == b"nonsense"


def test_FT32_the_files_of_a_damaged_record_are_set_aside_too(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f; sync")
    server.stop()
    path = pathlib.Path(server.state_dir, "sandboxes", session)
    path.write_bytes(b"nonsense")
    server.start()
    pool = pathlib.Path(f"/proc/{server.keeper_pid()}/root{server.state_dir}/disk/pool")
    assert any(tree.name.startswith(session) for tree in pool.iterdir())


def test_FT32_strange_things_among_the_records_do_no_harm(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo data > f")
    server.stop()
    records = pathlib.Path(server.state_dir, "sandboxes")
    (records / "00000000-0000-4000-8000-000000000000.tmp").write_text("half written")
    (records / "UPPER").write_text("x")
    (records / "link").symlink_to("/etc/passwd")
    server.start()
    assert server.stdout(server.create("t"), "cat f") == "data\n"
    assert os.path.exists("/etc/passwd")


def test_FT32_a_folder_among_the_records_does_not_stop_the_start(start_server):
    server = start_server()
    session = server.create("t")
    server.stop()
    os.mkdir(f"{server.state_dir}/sandboxes/0000-folder")
    try:
        server.start()
        assert server.create("t") == session
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(f"{server.state_dir}/sandboxes/0000-folder")
        server.restart()


def test_a_keeper_that_cannot_start_leaves_nothing(start_server):
    server = start_server()
    server.stop()
    wait_until(lambda: not server.leftovers(), "all is gone")
    lock = f"{server.state_dir}/sandboxes"
    os.rename(lock, lock + ".away")
    open(lock, "w").close()
    try:
        done = server.command("serve")
        assert done.returncode == 1 and "sandboxes" in done.stderr
        left = server.leftovers()
    finally:
        os.unlink(lock)
        os.rename(lock + ".away", lock)
        server.start()
    assert left == []


def test_FT31_stale_cgroups_are_swept_with_what_runs_in_them_and_foreign_ones_are_not(start_server):
    server = start_server(POOL_SIZE=0)
    ours = next(top for top in server.cgroups()
                if os.path.exists(f"{top}/../../cgroup.controllers"))
    server.stop()
    wait_until(lambda: not server.leftovers(), "all is gone")
    sleeper = subprocess.Popen(["sleep", "999"])
    foreign = subprocess.Popen(["sleep", "999"])
    stranger = os.path.dirname(ours) + "/test-stranger"
    try:
        stale = ours + "/stale"
        os.makedirs(stale + "/c1")
        os.makedirs(stranger)
        for place, process in ((stale + "/c1", sleeper), (stranger, foreign)):
            with open(place + "/cgroup.procs", "w") as file:
                file.write(str(process.pid))
        server.start()
        wait_until(lambda: sleeper.poll() is not None, "the stale process is dead")
        assert not os.path.exists(stale)
        assert "cleaned_up" in server.log()
        assert foreign.poll() is None and os.path.exists(stranger)
    finally:
        for process in (sleeper, foreign):
            process.kill()
            process.wait()
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(stranger)


def test_a_stale_socket_file_is_no_obstacle(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "true")
    wait_until(lambda: os.path.exists(f"{server.state_dir}/sandboxes/{session}"), "it is recorded")
    server.kill9_keeper()
    server.wait()
    assert os.path.exists(server.state_dir + "/keeper.sock")
    server.start()
    assert server.create("t") == session


def test_an_empty_state_directory_after_a_stop_is_a_fresh_start(start_server):
    server = start_server()
    server.create("t")
    server.stop()
    shutil.rmtree(server.state_dir)
    server.start()
    assert server.stdout(server.create("t"), "ls") == ""


def test_a_state_directory_that_cannot_be_written_is_a_clear_error(binary):
    server = Server(state_dir="/proc/threadbox-test")
    done = server.command("serve")
    assert done.returncode == 1 and "/proc/threadbox-test" in done.stderr


# ---- full ----

@contextlib.contextmanager
def small_disk(mebibytes):
    """An ext4 of its own."""
    work = tempfile.mkdtemp(prefix="tb-disk-", dir="/var/tmp")
    image, place = work + "/image", work + "/mount"
    os.mkdir(place)
    os.chmod(work, 0o755)  # the server is not root and must get through
    subprocess.run(["truncate", "-s", f"{mebibytes}M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        shutil.rmtree(work)


def fill(place):
    """Takes every free byte; returns the file that does."""
    path = place + "/filling"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    with contextlib.suppress(OSError), open(path, "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
    return path


@pytest.fixture
def on_small_disk(binary):
    with small_disk(64) as place:
        server = Server(state_dir=place + "/state")
        server.log_path = pathlib.Path(place).parent / "log"
        try:
            yield server
            server.stop()
            wait_until(lambda: not server.leftovers(), lambda: f"gone: {server.leftovers()}")
        finally:
            server.remove()


MKFS = shutil.which("mkfs.btrfs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def failing_mkfs(folder, times):
    """A PATH whose mkfs.btrfs fails so often before it works."""
    program = folder / "mkfs.btrfs"
    program.write_text(f"#!/bin/sh\necho x >> {folder}/tries\n"
                       f"[ $(wc -l < {folder}/tries) -gt {times} ] && exec {MKFS} \"$@\"\nexit 1\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_what_stands_in_the_way_of_a_pool_for_a_moment_costs_no_limit(start_server, tmp_path):
    server = start_server(PATH=failing_mkfs(tmp_path, 2))
    assert server.health()["isolation"]["barriers"]["disk limit"] == "present"
    assert len((tmp_path / "tries").read_text()) == 6, "it was tried three times"


def test_a_pool_that_could_not_be_made_leaves_nothing_of_it(start_server, tmp_path):
    server = start_server(PATH=failing_mkfs(tmp_path, 1000), POOL_SIZE=0)
    assert "mkfs.btrfs failed" in server.log()
    assert os.listdir(server.state_dir + "/disk") == ["trees"]
    server.stop()
    server.restart(PATH=os.environ["PATH"])
    assert server.health()["isolation"]["barriers"]["disk limit"] == "present"


def test_who_is_killed_while_it_makes_a_pool_leaves_none(start_server, tmp_path):
    """Half of one was found by the next keeper, which then refused to start."""
    server = start_server(POOL_SIZE=0)
    server.stop()
    shutil.rmtree(server.state_dir + "/disk")
    (tmp_path / "mkfs.btrfs").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    (tmp_path / "mkfs.btrfs").chmod(0o755)
    server.settings["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    starting = server.spawn("serve", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(),
               "it makes one")
    server.kill9_keeper()
    starting.kill()
    starting.wait()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    server.settings["PATH"] = os.environ["PATH"]
    server.start()
    assert server.health()["isolation"]["barriers"]["disk limit"] == "present"


def test_FT11_a_disk_too_small_for_the_pool_is_said_and_it_works_without(on_small_disk):
    server = on_small_disk.start()
    assert "disk limit missing" in server.lines[1]
    assert "barrier_missing" in server.log() and "4 GiB" in server.log()
    assert server.health()["isolation"]["level"] == "degraded"
    assert server.health()["isolation"]["barriers"]["disk limit"] == "missing"
    session = server.create("t")
    assert server.stdout(session, "echo data > f; cat f") == "data\n"
    server.restart()
    assert server.stdout(session, "cat f") == "data\n"
    done = server.command("doctor", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 2 and rows["disk limit"]["state"] == "missing"
    assert "4 GiB" in rows["disk limit"]["detail"] and rows["disk limit"]["advice"]
    server.cleanup(session)


def test_FT11_a_full_disk_is_a_clear_error_at_the_start(on_small_disk):
    os.mkdir(on_small_disk.state_dir)
    fill(os.path.dirname(on_small_disk.state_dir))
    process = on_small_disk.spawn("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    on_small_disk.process = process
    lines = on_small_disk.read_lines(3, PATIENCE)
    if len(lines) < 3:
        assert process.wait(timeout=PATIENCE) != 0
        assert b"No space left" in process.stderr.read()
    process.stderr.close()


def test_FT11_a_disk_that_fills_up_costs_output_not_answers(on_small_disk):
    server = on_small_disk.start()
    session = server.create("t")
    place = os.path.dirname(server.state_dir)
    server.stdout(session, "echo before")
    filling = fill(place)
    answer = server.execute(session, "echo to stdout; echo to stderr >&2; exit 3", timeout=10)
    assert answer["exit_code"] == 3
    assert "to stdout" in answer["stdout"] and "to stderr" in answer["stderr"]
    answer = server.execute(session, "seq 100000", timeout=10)
    assert answer["exit_code"] == 0 and answer["stdout"].endswith("\n100000\n")
    reply = server.post("/create_session", {"user_id": "u", "thread_id": "another"})
    assert reply.status in (200, 500, 503, 507), reply
    assert server.health()["status"]
    os.unlink(filling)
    assert server.stdout(session, "echo after") == "after\n"
    fresh = server.create("yet-another")
    assert server.stdout(fresh, "echo usable > f; cat f") == "usable\n"


def test_FT29_a_server_with_few_descriptors_refuses_one_by_one_and_recovers(start_server):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))

    server = start_server(preexec=few, POOL_SIZE=0)
    sessions, refused = [], 0
    for _ in range(120):
        reply = server.post("/create_session")
        if reply.status == 200:
            sessions.append(reply.json["session_id"])
        else:
            assert reply.status in (500, 503), reply
            refused += 1
    assert sessions and refused
    assert server.health()["status"] == "healthy"
    assert alive(server.keeper_pid())
    for session in sessions:
        server.cleanup(session)
    again = wait_until(lambda: server.post("/create_session").json.get("session_id"),
                       "there is room again")
    assert server.stdout(again, "echo usable") == "usable\n"
    wait_until(lambda: len(server.sandbox_pids()) == 1, "what was refused is gone")


def test_FT29_connections_beyond_the_limit_do_not_end_the_server(start_server):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))

    server = start_server(preexec=few)
    session = server.create()
    with contextlib.ExitStack() as stack:
        for _ in range(150):
            client = stack.enter_context(socket.socket())
            client.settimeout(1)
            with contextlib.suppress(OSError):
                client.connect(("127.0.0.1", server.port))
        assert server.process.poll() is None
    reply = wait_until(lambda: answered(server, session), "it answers again")
    assert reply.json["stdout"] == "on\n"


def answered(server, session):
    with contextlib.suppress(OSError):
        reply = server.try_execute(session, "echo on", seconds=2)
        return reply if reply.status == 200 else None
    return None


def test_the_tag_of_a_state_directory_is_the_one_that_tests_look_for(start_server):
    """Otherwise every check for leftovers would look at nothing."""
    server = start_server()
    session = server.create()
    assert len(server.cgroups()) >= 1
    assert server.guest_pid(session)
    assert tag_of(server.state_dir) in server.cgroups()[0]
    assert server.mounts() and server.loops()
