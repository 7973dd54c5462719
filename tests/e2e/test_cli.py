# SPDX-License-Identifier: Apache-2.0
"""The commands of the binary and its settings."""
import json
import os
import socket

import pytest

from server import Server, wait_until


@pytest.fixture
def idle(binary):
    """Settings and a state directory, but no server."""
    box = Server()
    try:
        yield box
        wait_until(lambda: not box.leftovers(), lambda: f"nothing is left, but {box.leftovers()}")
    finally:
        box.remove()


def test_four_lines_say_what_runs_how_isolated_for_whom_and_what_to_try(server):
    what, isolation, access, example = server.lines
    assert f"http://127.0.0.1:{server.port}" in what and server.state_dir in what
    assert isolation.startswith("isolation: ")
    assert access.startswith("access: anybody on this machine, and nobody else")
    assert example.startswith("try: curl")


def test_version_and_help(idle):
    assert idle.command("version").stdout.startswith("threadbox ")
    for words in (["--help"], ["serve", "--help"], ["run", "--help"], ["doctor", "--help"]):
        done = idle.command(*words)
        assert done.returncode == 0 and done.stdout
    assert "MEMORY_LIMIT" in idle.command("serve", "--help").stdout
    assert idle.command().returncode != 0
    assert idle.command("nonsense").returncode != 0


@pytest.mark.parametrize("command,code", [("true", 0), ("exit 7", 7), ("kill -9 $$", 137),
                                          ("no-such-program", 127), ("exit 255", 255)])
def test_run_passes_the_exit_code_on(idle, command, code):
    assert idle.command("run", command).returncode == code


def test_run_passes_output_on_and_leaves_nothing(idle):
    done = idle.command("run", "echo out; echo err >&2; pwd; id -un; echo x > f")
    assert done.stdout == "out\n/workspace\nsandboxuser\n"
    assert done.stderr == "err\n"
    assert os.listdir(idle.state_dir + "/sandboxes") == []
    assert os.listdir(idle.state_dir + "/output") == []


def test_run_ends_at_its_timeout(idle):
    done = idle.command("run", "--timeout", "1", "sleep 60")
    assert done.returncode == 124
    assert "timeout" in done.stderr


def test_run_beside_a_server_uses_its_keeper(server):
    assert server.command("run", "echo $((6 * 7))").stdout == "42\n"
    assert server.get("/health").status == 200
    assert server.keeper_pid()


def test_stop_where_nothing_runs_says_so(idle):
    done = idle.command("stop")
    assert done.returncode == 0
    assert idle.state_dir in done.stdout


def test_stop_returns_when_every_sandbox_is_gone(start_server):
    server = start_server()
    server.stdout(server.create("t"), "sleep 99 & echo x")
    assert server.command("stop").returncode == 0
    assert server.sandbox_pids() == []
    wait_until(lambda: server.process.poll() is not None, "the server has ended")


def test_the_server_s_exit_code_after_stop_is_0(start_server):
    server = start_server()
    server.command("stop")
    assert server.wait() == 0


def test_doctor_shows_every_barrier(idle):
    done = idle.command("doctor", "--json")
    rows = json.loads(done.stdout)
    assert {row["state"] for row in rows} <= {"present", "degraded", "missing"}
    names = {row["name"] for row in rows}
    assert {"namespaces", "seccomp", "landlock", "cgroup limits", "disk limit"} <= names
    worst = max(["present", "degraded", "missing"].index(row["state"]) for row in rows
                if row["name"] != "host sysctls")
    assert done.returncode == worst
    assert all(row["advice"] for row in rows if row["state"] != "present")
    table = idle.command("doctor")
    assert table.returncode == worst
    for name in names:
        assert name in table.stdout


def test_wrong_settings_are_listed_all_at_once(idle):
    idle.settings.update(PORT="99999", POOL_SIZE="x", MEMORY_LIMIT="1", CPU_QUOTA="-5",
                         LOG_LEVEL="loud")
    done = idle.command("serve")
    assert done.returncode == 1
    for name in ("PORT=99999", "POOL_SIZE=x", "MEMORY_LIMIT=1", "CPU_QUOTA=-5",
                 "LOG_LEVEL=loud"):
        assert name in done.stderr


def test_pool_size_beyond_the_maximum_is_refused(idle):
    idle.settings.update(POOL_SIZE="9", MAX_POOL_SIZE="3")
    done = idle.command("serve")
    assert done.returncode == 1 and "POOL_SIZE" in done.stderr


def test_listening_on_all_addresses_needs_keys_or_consent(idle, start_server):
    idle.settings["HOST"] = "0.0.0.0"
    done = idle.command("serve")
    assert done.returncode == 1
    for words in ("HOST=0.0.0.0", "threadbox keys create", "ALLOW_NO_AUTH"):
        assert words in done.stderr
    assert not idle.keeper_pid(), "something was started"
    server = start_server(HOST="0.0.0.0", ALLOW_NO_AUTH=1)
    assert server.health()["status"] == "healthy"
    assert server.lines[2].startswith("access: ANYBODY")


def test_a_taken_port_is_a_clear_error(idle):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        idle.settings["PORT"] = str(port)
        done = idle.command("serve")
    assert done.returncode == 1
    assert str(port) in done.stderr and "in use" in done.stderr


def test_an_unknown_environment_is_a_clear_error(idle):
    idle.settings["ENVIRONMENT"] = "image:/no/such/image"
    done = idle.command("run", "true")
    assert done.returncode == 1
    assert "/no/such/image" in done.stderr
    idle.command("stop")


def test_a_run_that_fails_leaves_no_keeper(idle):
    idle.settings["ENVIRONMENT"] = "image:/no/such/image"
    idle.command("run", "true")
    left = idle.keeper_pid()
    idle.command("stop")
    assert not left


def test_a_state_dir_too_long_for_a_socket_is_a_clear_error(idle):
    os.chmod(idle.state_dir, 0o711)
    idle.state_dir += "/" + "x" * 120
    done = idle.command("serve")
    idle.state_dir = idle.state_dir.rpartition("/")[0]
    assert done.returncode == 1
    assert "too long" in done.stderr


def test_limits_are_settings(start_server):
    server = start_server(MEMORY_LIMIT="64m", PIDS_LIMIT=32, MAX_WORKSPACE_SIZE_MB=32)
    session = server.create()
    assert server.execute(session, "python3 -c 'bytearray(100 << 20)'")["cause"] == "oom"
    answer = server.execute(session, "for i in $(seq 60); do sleep 5 & done; wait", timeout=20)
    assert "pids" in answer["limits_hit"]
    answer = server.execute(session, "head -c 64M /dev/zero > f")
    assert answer["exit_code"] != 0


def test_a_state_directory_that_the_server_can_not_reach_is_refused(binary, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    box = Server(state_dir=str(closed / "state"))
    done = box.command("serve")
    assert done.returncode == 1 and "choose another directory" in done.stderr
    assert str(closed) in done.stderr or str(tmp_path) in done.stderr
    assert not box.leftovers()
