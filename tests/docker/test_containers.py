# SPDX-License-Identifier: Apache-2.0
"""What the engine is told of a container, and what becomes of it."""
import os
import shutil
import signal
import tarfile

from engine import BARE, image_tar
from live import Live, start
from server import wait_until

LIMITS = {"MEMORY_LIMIT": "128m", "CPU_QUOTA": 50000, "PIDS_LIMIT": 50}


def test_every_barrier_of_the_engine_is_set(start_server, engine):
    server = start_server(**LIMITS)
    session = server.create()
    told = engine.inspect(session)
    config, host = told["Config"], told["HostConfig"]
    assert config["User"] == "1000:1000" and config["Hostname"] == f"box-{session[:8]}"
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == 128 << 20
    assert (host["CpuPeriod"], host["CpuQuota"]) == (100000, 50000)
    assert 50 <= host["PidsLimit"] <= 100
    mounts = {mount["Destination"]: mount for mount in told["Mounts"]}
    assert mounts["/workspace"]["RW"] is True and mounts["/.threadbox"]["RW"] is False
    assert config["Labels"] == {"threadbox.server": server.tag(), "threadbox.session": session}


def test_the_guest_cannot_be_changed_signalled_or_spoken_to(server, session):
    for attempt in ("echo > /.threadbox/guest", "rm /.threadbox/guest", "kill -9 1; false",
                    "cat /proc/1/mem", "ls /proc/1/fd"):
        assert server.execute(session, attempt)["exit_code"] != 0, attempt
    assert server.stdout(session, "echo fine") == "fine\n"
    carrier = server.execute(session, "ps -eo pid,args | grep '[g]uest carry'")["stdout"].split()[0]
    assert server.execute(session, f"kill -9 {carrier}")["exit_code"] != 0
    # As the tenant nobody is let in where carriers come in.
    answer = server.execute(session, f"/.threadbox/guest carry {session} < /dev/zero", timeout=5)
    assert answer["stdout"] == "" and not answer["timed_out"]
    assert server.stdout(session, "echo fine") == "fine\n"


def test_an_image_that_knows_nothing_of_us_has_a_workspace(start_server):
    server = start_server(CONTAINER_IMAGE=BARE)
    session = server.create()
    told = server.stdout(session, "id -u; echo mine > f; cat f; stat -c %u .")
    assert told == "1000\nmine\n1000\n"


def test_much_in_an_image_s_workspace_is_not_read_by_us(start_server, engine, tmp_path):
    """More than an answer of the engine may have."""
    tar = tmp_path / "image.tar"
    shutil.copy(image_tar("prepared"), tar)
    with tarfile.open(tar, "a") as archive:
        large = tarfile.TarInfo("./workspace/large")
        large.size = 65 << 20
        large.uid = large.gid = 1000
        with open("/dev/zero", "rb") as zeros:
            archive.addfile(large, zeros)
    with open(tar, "rb") as content:
        engine.call("POST", "/images/create?fromSrc=-&repo=threadbox-large&tag=1", content,
                    raw=True, content="application/x-tar")
    server = start_server(CONTAINER_IMAGE="threadbox-large:1")
    session = server.create()
    assert server.stdout(session, "stat -c '%u %s' . large | cut -d' ' -f1; wc -c < large") == \
        f"1000\n1000\n{65 << 20}\n"


def test_a_network_is_what_was_asked_for(start_server, engine):
    server = start_server(DOCKER_NETWORK_MODE="host")
    session = server.create()
    assert engine.inspect(session)["HostConfig"]["NetworkMode"] == "host"
    assert server.stdout(session, "echo fine") == "fine\n"


def test_a_runtime_that_the_engine_lacks_is_told(start_server):
    server = start_server(DOCKER_RUNTIME="runsc-that-is-not-there")
    reply = server.post("/create_session", {"thread_id": "t"})
    assert reply.status in (400, 503) and "runsc-that-is-not-there" in reply.json["error"], reply
    server.settings.pop("DOCKER_RUNTIME")
    server.restart()


def test_a_lost_carrier_is_replaced_and_nothing_is_lost(start_server):
    server = start_server()
    session = server.create("t")
    command = "echo a; read x; echo b $x; seq 1 200000; exit 6"
    live = start(server, session, command, stdin_open=True)
    live.wait_said(b"a\n")
    for _ in range(3):
        first = wait_until(lambda: server.carrier_pid(session), "there is a carrier")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: server.carrier_pid(session) not in (None, first), "there is another one")
    wait_until(lambda: live.write(b"go\n").status == 200, "it can be written to")
    last = server.carrier_pid(session)
    os.kill(last, signal.SIGKILL)
    assert live.wait_exited(60)["exit_code"] == 6
    assert live.output() == b"a\nb go\n" + "".join(f"{n}\n" for n in range(1, 200001)).encode()
    # The last one may have told all that before it died: what is given to it then is refused.
    wait_until(lambda: server.carrier_pid(session) not in (None, last), "there is another one")
    assert server.stdout(session, "echo fine") == "fine\n"


def test_a_container_that_was_killed_comes_back_with_its_files(start_server, engine):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo kept > f")
    live = start(server, session, "sleep 1000")
    engine.call("POST", f"/containers/threadbox-{session}/kill", raw=True)
    wait_until(lambda: "container_lost" in server.log(), "the server knows")
    assert server.stdout(session, "cat f") == "kept\n"
    assert server.get(live.path).status == 404  # its output went with the container


def test_a_removed_session_leaves_neither_container_nor_volume(start_server, engine):
    server = start_server()
    session = server.create("t")
    server.stdout(session, "echo x > f")
    assert server.boxes().keys() == {session} and len(engine.volumes(server.tag())) == 1
    server.cleanup(session)
    wait_until(lambda: not server.boxes() and not engine.volumes(server.tag()), "all is gone")


def test_an_idle_container_goes_with_its_files(start_server, engine):
    server = start_server()
    session = server.create("t", timeout_minutes=0.02)
    server.stdout(session, "echo x > f")
    server.wait_gone(session)
    wait_until(lambda: not server.boxes() and not engine.volumes(server.tag()), "all is gone")


def test_a_session_that_expired_without_a_server_is_gone_with_its_files(start_server, engine):
    server = start_server(KEEPER_GRACE=1)
    session = server.create("t", timeout_minutes=0.03)
    server.stdout(session, "mkdir -p d/e; echo x > d/e/f; sleep 1000 > /dev/null 2>&1 &")
    server.kill9()
    # The guest ends by itself: nobody else is there.
    wait_until(lambda: not server.boxes(), "the container has ended", 30)
    server.start()
    assert server.try_execute(session, "true").status == 404
    assert engine.volumes(server.tag()) == []


def test_what_was_never_given_away_ends_without_a_server(start_server):
    server = start_server(POOL_SIZE=1, KEEPER_GRACE=1)
    wait_until(lambda: server.health()["pool"]["available"] == 1, "one is ready")
    server.kill9()
    wait_until(lambda: not server.boxes(), "the container has ended", 30)
    server.start()


def test_the_next_server_finds_sessions_and_ready_ones_and_removes_the_rest(start_server, engine):
    server = start_server(POOL_SIZE=1)
    wait_until(lambda: server.health()["pool"]["available"] == 1, "one is ready")
    session = server.create("t")
    wait_until(lambda: server.health()["pool"]["available"] == 1, "the next one is ready")
    ready, = server.boxes().keys() - {session}
    live = start(server, session, "echo up; read x; exit 3", stdin_open=True)
    live.wait_said(b"up\n")
    server.kill9()
    # One of ours that nobody knows: as if the server had died while it made it.
    stray = {"Image": "threadbox-test:latest", "Cmd": ["sleep", "1000"],
             "Labels": {"threadbox.server": server.tag(), "threadbox.session": "stray"}}
    engine.call("POST", "/containers/create?name=threadbox-stray", stray)
    # And one of another server.
    other = {**stray, "Labels": {"threadbox.server": "other", "threadbox.session": "other"}}
    engine.call("POST", "/containers/create?name=threadbox-other", other)
    try:
        server.start()
        assert server.boxes().keys() == {session, ready}
        live = Live(server, session, live.number)
        assert live.write(b"\n").status == 200 and live.wait_exited()["exit_code"] == 3
        assert engine.containers("other")
    finally:
        engine.call("DELETE", "/containers/threadbox-other?force=1", raw=True)


def test_what_a_container_takes_is_told(server, session):
    server.stdout(session, "true")
    reply = server.get(f"/status/{session}")
    assert reply.status == 200, reply


def route_of(server, session):
    return os.readlink(f"/proc/{server.carrier_pid(session)}/fd/1").split(":")[0]


def test_the_engine_is_gone_around_where_it_sees_our_directory(server, session):
    assert route_of(server, session) == "socket"
    folder = f"{server.state_dir}/docker/run"
    assert os.stat(folder).st_mode & 0o777 == 0o711 and os.listdir(folder) == []
    # The tenant finds nobody there, and can leave nothing.
    for attempt in ("ls /.threadbox-run", "touch /.threadbox-run/x"):
        assert server.execute(session, attempt)["exit_code"] != 0, attempt


def test_where_it_does_not_all_goes_through_the_engine(start_server):
    server = start_server()
    os.chmod(f"{server.state_dir}/docker/run", 0o700)
    session = server.create("t")
    assert route_of(server, session) == "pipe"
    numbers = "".join(f"{n}\n" for n in range(1, 100001))
    assert server.stdout(session, "seq 1 100000") == numbers
    assert server.stdout(session, "cat", stdin=numbers) == numbers
    assert server.upload(session, "f", numbers.encode()).status == 200
    assert server.download(session, "f").body == numbers.encode()
    live = start(server, session, "echo a; read x; echo b $x", stdin_open=True)
    live.wait_said(b"a\n")
    assert live.write(b"c\n").status == 200
    assert live.wait_exited()["exit_code"] == 0 and live.output() == b"a\nb c\n"
    server.restart()
    assert server.stdout(session, "cat f") == numbers
