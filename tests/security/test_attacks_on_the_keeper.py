# SPDX-License-Identifier: Apache-2.0
"""What a hostile review tried as the server's own uid, or as another user of the host."""
import io
import os
import pathlib
import signal
import stat
import subprocess
import tarfile
import time

import pytest

from attack import BINARY, KeeperLink, as_uid, create_message, packed

SERVER_UID = 0x70000000
NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


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


def test_rootless_a_command_can_not_stop_its_minder(make_box):
    # A16
    box = make_box(as_user=NOBODY)
    session = box.create("t")
    started = time.monotonic()
    answer = box.run(session, "kill -STOP $PPID; sleep 100", timeout=1, wait=8)
    assert answer.get("cause") == "timeout" and time.monotonic() - started < 5
