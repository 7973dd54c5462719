# SPDX-License-Identifier: Apache-2.0
"""Programs die while something is kept, or while a volume is in use: no half file is ever shown,
and nothing that was whole is lost."""
import contextlib
import os
import pathlib
import signal
import threading

import pytest
from keeper import Keeper
from server import wait_until
from test_setup import Faulty, MOST


def keep(server, session, path):
    return server.post(f"/api/sessions/{session}/artifacts", {"path": path})


def test_a_server_that_dies_while_it_keeps_a_file_shows_no_half(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "head -c 150M /dev/zero > big; echo whole > small")
    whole = keep(server, session, "small").json
    place = pathlib.Path(server.state_dir) / "storage" / "artifacts" / f"session_{session}"

    def begin():
        try:
            keep(server, session, "big")
        except OSError:
            pass  # the server is gone

    thread = threading.Thread(target=begin)
    thread.start()
    wait_until(lambda: any(p.stat().st_size > 1 << 20 for p in place.iterdir()), "it is written")
    server.kill9()
    thread.join()
    assert len(list(place.iterdir())) == 3, "it was caught in the middle"
    server.start()
    assert server.get("/api/artifacts").json["artifacts"] == [whole]
    assert sorted(p.name for p in place.iterdir()) == [whole["artifact_id"],
                                                       whole["artifact_id"] + ".json"]
    assert server.get(f"/api/artifacts/{whole['artifact_id']}/content").body == b"whole\n"
    # What the half one had taken is free again.
    assert keep(server, session, "big").status == 201


def test_damaged_descriptions_are_not_believed(start_server):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo one > f")
    kept = [keep(server, session, "f").json["artifact_id"] for _ in range(4)]
    assert server.terminate() == 0
    place = pathlib.Path(server.state_dir) / "storage" / "artifacts" / f"session_{session}"
    (place / (kept[0] + ".json")).write_text("{")
    (place / kept[1]).write_bytes(b"cut")
    (place / kept[2]).unlink()
    (place / "stranger").write_text("x")
    server.start()
    assert [row["artifact_id"] for row in server.get("/api/artifacts").json["artifacts"]] == [
        kept[3]]
    assert len(list(place.iterdir())) == 2


def volume_session(server, **fields):
    reply = server.post("/create_session", {
        "user_id": "u", "thread_id": "t", "volumes": [{"name": "v", "path": "/data"}], **fields})
    return reply.json["session_id"]


@pytest.mark.parametrize("death", ["server", "keeper", "stop"])
def test_a_volume_and_who_has_it_survive(start_server, death):
    server = start_server()
    assert server.post("/api/volumes", {"name": "v", "user_id": "u", "size_mb": 8}).status == 201
    session = volume_session(server)
    server.stdout(session, "echo kept > /data/f; sync /data/f")
    if death == "server":
        server.kill9()
    elif death == "keeper":
        server.kill9_keeper()
        server.wait()
    else:
        server.stop()
    server.start()
    volume = server.get("/api/volumes/v?user_id=u").json
    assert (volume["in_use_by"], volume["files"], volume["size_bytes"]) == ([session], 1, 8 << 20)
    assert volume_session(server) == session
    assert server.get(f"/api/sessions/{session}").json["volumes"] == [
        {"name": "v", "path": "/data", "read_only": False}]
    assert server.stdout(session, "cat /data/f; echo more >> /data/f") == "kept\n"
    assert server.request("DELETE", "/api/volumes/v?user_id=u").status == 409
    server.cleanup(session)
    assert server.request("DELETE", "/api/volumes/v?user_id=u").status == 200


@pytest.mark.parametrize("path", ["/data", "/workspace/in/data"])
def test_a_session_that_filled_its_disk_comes_back_with_its_mounts(start_server, path):
    server = start_server(MAX_WORKSPACE_SIZE_MB=16)
    assert server.post("/api/volumes", {"name": "v", "user_id": "u", "size_mb": 8}).status == 201
    session = volume_session(server, volumes=[{"name": "v", "path": path}])
    server.stdout(session, f"echo kept > {path}/f; echo mine > g")
    # Its place is gone as well: it can't be removed, but where it is can be renamed.
    server.execute(session, "mv in elsewhere; head -c 30M /dev/urandom > big; sync; "
                            "for i in {1..2000}; do : > f$i || break; done 2> /dev/null; sync; "
                            "for i in {1..9}; do head -c 4096 /dev/zero > h$i; mkdir k$i; done")
    if "Disk quota" not in server.execute(session, "mkdir more")["stderr"]:
        pytest.skip("this disk has no quotas")
    os.kill(server.guest_pid(session), signal.SIGKILL)
    wait_until(lambda: not server.sandbox_pids(session, True), "it has ended")
    assert server.stdout(session, f"cat {path}/f g") == "kept\nmine\n"
    # What was made for that is no room of the tenant's.
    assert "Disk quota" in server.execute(session, "head -c 5M /dev/zero > more")["stderr"]


def test_a_keeper_clears_away_trees_that_nobody_made_whole(start_server):
    server = start_server()
    keeper = Keeper(server.state_dir)
    for name in ("whole", "half"):
        assert keeper.make_volume(name)[0] == Keeper.DONE
    keeper.close()
    server.stop()
    (pathlib.Path(server.state_dir) / "volumes" / "half").unlink()
    server.start()

    def trees():
        """None: it is a keeper's beginning that has its name, and nothing mounted yet."""
        place = f"/proc/{server.keeper_pid()}/root{server.state_dir}/disk/pool/volumes.d"
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(place)
    wait_until(lambda: trees() is not None, "there is a keeper")
    assert trees() == ["whole"]


def test_every_system_call_of_a_set_up_with_volumes_may_fail(start_server):
    server = start_server(THREADBOX_FAULTS=1, POOL_SIZE=0)
    one = Faulty(server)
    assert one.keeper.make_volume("vol-1")[0] == Keeper.DONE
    mounts = [(0, 0, "vol-1", "/data"), (0, 1, "vol-1", "/workspace/in/deep")]

    def create(name, n):
        kind, fields, fds = one.keeper.create(name, fail_at=n, mounts=mounts)
        if kind == Keeper.FAILED:
            return fields
        import socket
        with socket.socket(fileno=fds[0]) as control:
            control.settimeout(10)
            return control.recv(65536)[:1] == b"\x40" or "jail failed"

    assert create("warm-up", 0) is True
    one.destroy("warm-up")
    before = one.holds()
    for n in range(1, MOST):
        outcome = create(f"fault-{n}", n)
        one.destroy(f"fault-{n}")
        if outcome is True:
            break
    assert n > 40, "few steps were tried"
    wait_until(lambda: one.is_back_at(before), lambda: f"{one.holds()} is {before}")
    assert one.keeper.remove_volume("vol-1")[0] == Keeper.DONE
    one.keeper.close()
