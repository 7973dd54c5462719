# SPDX-License-Identifier: Apache-2.0
"""The server's side of the boundary: privilege separation, sockets, files, uids."""
import os
import re
import socket
import stat
import subprocess

from keeper import Keeper
from server import PATIENCE, argv_of, wait_until


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_the_server_has_no_privilege(server):
    status = status_of(server.process.pid)
    uids, gids = status["Uid"].split(), status["Gid"].split()
    assert len(set(uids)) == 1 and uids[0] != "0"
    assert len(set(gids)) == 1 and gids[0] != "0"
    assert status["Groups"].split() == []
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert status[name] == "0" * 16, name
    assert status["NoNewPrivs"] == "1"


def test_pid_1_of_a_sandbox_has_no_privilege_on_the_host(server, session):
    status = status_of(server.guest_pid(session))
    assert "0" not in status["Uid"].split()
    assert status["CapBnd"] == status["CapAmb"] == status["CapInh"] == "0" * 16
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert int(status["Seccomp_filters"]) >= 2


def test_pid_1_runs_from_a_sealed_file_in_memory(server, session):
    """CVE-2019-5736: there is no binary of the host to overwrite."""
    assert os.readlink(f"/proc/{server.guest_pid(session)}/exe").startswith("/memfd:")


def test_every_sandbox_has_uids_of_its_own(server):
    sessions = [server.create() for _ in range(5)]
    seen = []
    for session in sessions:
        with open(f"/proc/{server.guest_pid(session)}/uid_map") as table:
            rows = [list(map(int, line.split())) for line in table]
        assert {row[0] for row in rows} == {0, 1000}
        seen += [row[1] for row in rows]
        assert all(row[2] == 1 for row in rows)
    assert len(set(seen)) == 10 and 0 not in seen
    for session in sessions:
        server.cleanup(session)


def test_all_namespaces_differ_from_the_host_s(server, session):
    guest = server.guest_pid(session)
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        assert os.readlink(f"/proc/{guest}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"), name


def test_files_of_the_state_directory_are_nobody_else_s(server):
    def mode(name):
        return stat.S_IMODE(os.stat(f"{server.state_dir}/{name}").st_mode)

    assert mode("keeper.sock") == 0o600
    assert mode("keeper.lock") == 0o600
    assert mode("keeper.log") == 0o600
    assert mode("disk/pool.img") == 0o600
    assert mode("output") == 0o700
    session = server.create("a thread")
    wait_until(lambda: os.path.exists(f"{server.state_dir}/sandboxes/{session}"), "it is recorded")
    assert mode(f"sandboxes/{session}") == 0o600
    server.cleanup(session)


def test_only_the_server_and_root_reach_the_keeper(server):
    def become_nobody():
        os.setgid(65534)
        os.setuid(65534)

    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "s.connect(sys.argv[1])")
    path = server.state_dir + "/keeper.sock"
    done = subprocess.run(["/usr/bin/python3", "-c", code, path], preexec_fn=become_nobody,
                          capture_output=True, text=True)
    assert done.returncode != 0 and "PermissionError" in done.stderr


def test_the_keeper_survives_nonsense(start_server):
    server = start_server()
    session = server.create()
    path = server.state_dir + "/keeper.sock"
    for message in (b"\x01", b"\xff" * 100, b"\x02\x01\x00\x00\x00",
                    b"\x03\x01\x00\x00\x00\xff\xff\xff\xff",
                    b"\x05\x01\x00\x00\x00\x03\x00\x00\x00../", os.urandom(1000), b"\x00" * 4096):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(path)
            client.send(message)
    keeper = Keeper(server.state_dir)
    for name in ("../../etc", "", "A", "x" * 65, "a/b", "."):
        assert keeper.create(name)[0] == Keeper.FAILED, name
    assert keeper.create("fine", environment="image:/etc/passwd")[0] == Keeper.FAILED
    assert keeper.create("fine", environment="nonsense")[0] == Keeper.FAILED
    keeper.close()
    assert server.stdout(session, "echo usable") == "usable\n"


def test_a_client_of_the_keeper_that_never_reads_blocks_nobody(start_server):
    server = start_server()
    lazy = Keeper(server.state_dir)
    lazy.socket.setblocking(False)
    sent = 0
    try:
        for sent in range(20000):
            lazy.socket.send(b"\x01\x01\x00\x00\x00")
    except BlockingIOError:
        pass
    session = server.create()
    assert server.stdout(session, "echo usable") == "usable\n"
    lazy.close()


def test_a_failed_fault_injection_needs_the_switch(start_server):
    """fail_at is for tests: without THREADBOX_FAULTS the keeper ignores it."""
    server = start_server()
    keeper = Keeper(server.state_dir)
    kind, _, fds = keeper.create("no-fault", fail_at=3)
    assert kind == Keeper.CREATED
    for fd in fds:
        os.close(fd)
    assert keeper.destroy("no-fault")[0] == Keeper.DONE
    keeper.close()


def test_nothing_secret_is_on_a_command_line(server):
    for pid in (server.process.pid, server.keeper_pid()):
        said = " ".join(argv_of(pid)).replace(server.state_dir, "")  # a random name
        assert not re.search(r"key|token|secret|password", said, re.I)
    wait_until(lambda: server.health(), "it answers", PATIENCE)
