# SPDX-License-Identifier: Apache-2.0
"""Volumes are the one thing that sandboxes share: what a tenant, an image or a server that was
taken over tries with them."""
import contextlib
import os
import pathlib
import subprocess

import pytest
from keeper import Box, Keeper

VOLUME, DIRECTORY = 0, 1
RW, RO = 0, 1


@pytest.fixture(scope="module")
def keeper(server):
    one = Keeper(server.state_dir)
    yield one
    one.close()


@pytest.fixture
def volume(keeper, request):
    """The id of a volume of 8 MiB."""
    name = f"vol-{abs(hash(request.node.name)) % 10**10}"
    assert keeper.make_volume(name, 8 << 20)[0] == Keeper.DONE
    yield name
    assert keeper.remove_volume(name)[0] == Keeper.DONE, "somebody still has it"


@contextlib.contextmanager
def box(keeper, name, *mounts, **options):
    one = Box(keeper, name, mounts=mounts, **options)
    try:
        yield one
    finally:
        one.close()


def on_host(server, volume):
    return pathlib.Path(f"/proc/{server.keeper_pid()}/root{server.state_dir}/disk/pool/volumes.d"
                        ) / volume


def refused(keeper, *mounts, name="refused-box"):
    kind, fields, fds = keeper.create(name, mounts=mounts)
    assert kind == Keeper.FAILED and not fds, "it was made"
    return fields[5:].decode()


# ---- what the keeper takes ----

@pytest.mark.parametrize("source", ["", "..", ".", "../../sandboxes", "/", "/etc", "a/b", "A",
                                    "a.b", "x" * 65, "no-such-volume", "vol\0x"])
def test_volumes_are_named_by_their_id_and_nothing_else(keeper, source):
    assert refused(keeper, (VOLUME, RW, source, "/data"))


@pytest.mark.parametrize("path", ["/", "/etc", "/var", "/root", "/tmp", "relative", ""])
def test_directories_of_the_host_are_those_that_the_keeper_was_started_for(keeper, path):
    assert refused(keeper, (DIRECTORY, RO, path, "/data"))


def test_no_environment_mounts_the_state_itself(start_server, tmp_path):
    registry = tmp_path / "registry" / "environments"
    registry.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    link = tmp_path / "link"
    server = start_server()
    state, settings = server.state_dir, dict(REGISTRY_DIR=registry.parent)
    server.stop()
    link.symlink_to(state)
    (registry / "a.yaml").write_text(
        f'name: a\nmounts: ["{state}:/s"]\n')
    (registry / "b.yaml").write_text(f'name: b\nmounts: ["{link}/disk:/s"]\n')
    (registry / "c.yaml").write_text(f'name: c\nmounts: ["{os.path.dirname(state)}:/s"]\n')
    server.restart(**settings)
    for name in "abc":
        reply = server.post("/api/sessions", {"environment": name})
        assert reply.status == 400 and "can't be mounted" in reply.json["error"], reply


def test_a_tenant_who_can_write_above_a_directory_chooses_no_other(start_server, tmp_path):
    registry = tmp_path / "registry" / "environments"
    registry.mkdir(parents=True)
    inner = tmp_path / "shared" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("fine")
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    inner.parent.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(inner.parent)  # an operator's own
    (registry / "a.yaml").write_text(f'name: a\nmounts: ["{link}:/s:rw"]\n')
    (registry / "b.yaml").write_text(f'name: b\nmounts: ["{inner}:/s"]\n')
    server = start_server(REGISTRY_DIR=registry.parent)
    made = server.post("/api/sessions", {"environment": "b"})
    assert server.stdout(made.json["session_id"], "cat /s/file") == "fine"
    first = server.post("/api/sessions", {"environment": "a"}).json["session_id"]
    server.stdout(first, "cat /s/inner/file; mv /s/inner /s/old; ln -s /root /s/inner")
    assert inner.is_symlink()
    reply = server.post("/api/sessions", {"environment": "b"})
    assert reply.status == 503 and "can't be mounted" in reply.json["error"], reply


@pytest.mark.parametrize("target", [
    "/", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm", "/etc", "/etc/passwd", "/usr/bin", "/bin",
    "/lib64", "/run", "/home", "/home/sandboxuser", "/tmp", "/sandbox", "/sandbox/workspace",
    "/workspace/..", "/a/../etc", "/a/./b", "/a//b", "/a/", "a", "", "/a\0b", "/" + "x" * 255,
    "/var/run/x", "/var/tmp/x", "/var/lib/unreadable", "/a" * 17])
def test_nothing_is_mounted_over_the_system(keeper, volume, target):
    assert refused(keeper, (VOLUME, RW, volume, target))


def test_mounts_are_not_nested_and_not_too_many(keeper, volume):
    for pair in (("/a", "/a"), ("/a", "/a/b"), ("/workspace/a/b", "/workspace/a"),
                 ("/workspace", "/workspace/x")):
        assert refused(keeper, *((VOLUME, RW, volume, target) for target in pair))
    assert refused(keeper, *((VOLUME, RW, volume, f"/d{n}") for n in range(17)))
    assert refused(keeper, (7, RW, volume, "/a"))
    assert refused(keeper, (VOLUME, 9, volume, "/a"))


def test_only_those_that_were_asked_for_are_listed(keeper):
    for name in ("one", "two"):
        assert keeper.make_volume(f"vol-{name}", label=f"{name}:v")[0] == Keeper.DONE
    for begins, kind in (("one:", Keeper.VOLUME), ("two:v", Keeper.VOLUME), ("", Keeper.VOLUME),
                         ("three:", Keeper.DONE), ("ne:", Keeper.DONE)):
        assert keeper.ask(Keeper.LIST_VOLUMES, Keeper.bytes(begins))[0] == kind, begins
    assert keeper.ask(Keeper.LIST_VOLUMES)[0] == Keeper.VOLUME
    assert keeper.ask(Keeper.LIST_VOLUMES, b"\x09")[0] == Keeper.FAILED
    for name in ("one", "two"):
        assert keeper.remove_volume(f"vol-{name}")[0] == Keeper.DONE


# ---- what a tenant does with it ----

def test_read_only_can_not_be_undone(keeper, volume):
    with box(keeper, "ro-box", (VOLUME, RO, volume, "/data")) as one:
        code, out, err = one.run(
            "mount -o remount,rw /data; mount -o remount,bind,rw /data; umount /data;"
            "umount -l /data; unshare -rm mount -o remount,rw /data; unshare -m true;"
            "nsenter -t 1 -m true; touch /data/x; chmod 777 /data; ln -s x /data/y;"
            "mkdir /data/d; setfattr -n user.a -v b /data; touch -d yesterday /data; ls -A /data")
        assert (code, out) == (0, ""), (out, err)


def test_no_devices_no_set_user_id_and_no_strange_owners(server, keeper, volume):
    with box(keeper, "dev-box", (VOLUME, RW, volume, "/data")) as one:
        code, out, _ = one.run("mknod /data/d c 1 3; mknod /data/b b 7 0; ls /data/d /data/b")
        assert code != 0 and out == ""
        assert one.run("chown 0 /data; chown 0:0 /data/. ; chown 1:1 /data")[0] != 0
        # The bit itself may be set on one's own file, as anywhere; nobody gains by it.
        assert one.run("cp /usr/bin/id /data/id; chmod 6755 /data/id;"
                       "ln -s /etc/shadow /data/l")[0] == 0
        line = one.run("grep ' /data ' /proc/self/mountinfo")[1]
        assert {"nosuid", "nodev", "idmapped"} <= set(line.split()[5].split(",")), line
    found = on_host(server, volume) / "id"
    assert found.stat().st_uid >= 0x70000000, "it must belong to nobody of the host"
    with box(keeper, "dev-box-2", (VOLUME, RW, volume, "/data")) as other:
        assert other.run("/data/id -u; cat /data/l")[1] == "1000\n"


def test_owners_that_are_nobodys_are_nobody_inside(server, keeper, volume):
    """Whoever puts files of the host's root there gives them to no sandbox."""
    place = on_host(server, volume)
    (place / "of-root").write_text("secret")
    (place / "of-root").chmod(0o600)
    node = place / "null"
    os.mknod(node, 0o666 | 0o020000, os.makedev(1, 3))
    node.chmod(0o666)
    with box(keeper, "owner-box", (VOLUME, RW, volume, "/data")) as one:
        assert one.run("cat /data/of-root")[0] != 0
        assert one.run("stat -c %u /data/of-root")[1] == "65534\n"
        assert one.run("chmod 666 /data/of-root")[0] != 0
        assert one.run("echo x > /data/null; cat /data/null")[0] != 0, "a device was opened"


def test_links_in_a_volume_lead_nowhere_of_the_host(server, keeper, volume):
    with box(keeper, "link-box", (VOLUME, RW, volume, "/data")) as one:
        one.run("ln -s / /data/root; ln -s /proc/1/root /data/proc; ln -s ../../../../etc /data/up")
        assert one.run("cat /data/root/etc/shadow /data/up/shadow")[1] == ""
        assert one.run("ls /data/proc/")[1] == ""


def test_a_tenant_can_not_move_the_place_of_a_mount(keeper, volume):
    """On its next start the place is looked at again: a link there is not followed."""
    mounts = [(VOLUME, RW, volume, "/workspace/a/b")]
    one = Box(keeper, "moved-box", mounts=mounts, label="kept")
    assert one.run("rmdir a/b; rm -rf a/b; mv a/b c")[0] != 0
    assert one.run("mv a moved && ln -s /etc a")[0] == 0
    one.close(keep_files=True)
    kind, fields, _ = keeper.create("moved-box", mounts=mounts, label="kept")
    assert kind == Keeper.FAILED and b"no directory" in fields
    assert keeper.destroy("moved-box")[0] == Keeper.DONE


def test_what_comes_back_has_the_mounts_that_it_had(keeper, volume):
    """A server that was taken over gives no sleeping sandbox another volume."""
    one = Box(keeper, "sleeper", mounts=[(VOLUME, RO, volume, "/data")], label="kept")
    one.close(keep_files=True)
    assert keeper.remove_volume(volume)[0] == Keeper.FAILED, "one that sleeps has it"
    again = Box(keeper, "sleeper", label="kept", mounts=[(VOLUME, RW, volume, "/other")])
    assert again.run("ls -d /other")[0] != 0
    assert again.run("touch /data/x")[0] != 0
    again.close()


def test_an_image_can_not_lead_a_mount_elsewhere(start_server, tmp_path):
    image = tmp_path / "image"
    for folder in ("usr", "etc", "opt", "real"):
        (image / folder).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (image / name).symlink_to("usr/" + name)
        subprocess.run(["cp", "-a", f"/usr/{name}", image / "usr"], check=False) \
            if name == "lib64" else None
    (image / "data").symlink_to("/etc")
    (image / "opt" / "out").symlink_to("../../../..")
    (image / "file").write_text("x")
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    server = start_server(ENVIRONMENT=f"image:{image}", POOL_SIZE=0)
    keeper = Keeper(server.state_dir)
    assert keeper.make_volume("vol-1")[0] == Keeper.DONE
    for target in ("/data", "/data/x", "/opt/out", "/opt/out/x", "/file", "/file/x"):
        kind, fields, _ = keeper.create("image-box", environment=f"image:{image}",
                                        mounts=[(VOLUME, RW, "vol-1", target)])
        assert kind == Keeper.FAILED and b"no directory" in fields, target
    keeper.close()


# ---- limits ----

def test_the_limit_holds_for_all_who_share_it(keeper, volume):
    mount = (VOLUME, RW, volume, "/data")
    with box(keeper, "full-1", mount) as one, box(keeper, "full-2", mount) as other:
        assert one.run("head -c 5M /dev/zero > /data/a")[0] == 0
        assert other.run("head -c 5M /dev/zero > /data/b && sync /data/b")[0] != 0
        assert one.run("head -c 1M /dev/zero > /workspace/mine")[0] == 0, "its own tree has room"
        assert other.run("rm /data/a /data/b && sync /data && echo x > /data/c")[0] == 0


def test_names_count_too(server, keeper, volume):
    """Empty files end at the limit of bytes too; on the host all of them are one file."""
    with box(keeper, "names-box", (VOLUME, RW, volume, "/data"), cpu_quota=100000) as one:
        code, out, _ = one.run("cd /data; i=0; while : > $i-$(printf %0200d 0); do i=$((i+1)); done"
                               " 2>/dev/null; echo $i", timeout=120)
        assert 0 < int(out) < 100000
        assert one.run("find /data -type f -delete; ls -A /data | head -1")[1] == ""
    assert on_host(server, volume).stat().st_dev != os.stat(server.state_dir).st_dev


def test_deep_trees_and_odd_names_are_removed_with_it(keeper):
    assert keeper.make_volume("deep-1", 16 << 20)[0] == Keeper.DONE
    with box(keeper, "deep-box", (VOLUME, RW, "deep-1", "/data"), cpu_quota=100000) as one:
        assert one.run("cd /data; for i in $(seq 400); do mkdir d && cd d || break; done;"
                       "touch /data/$'a\\nb' /data/-rf /data/\\*; chmod 0 /data/d")[0] == 0
    assert keeper.remove_volume("deep-1")[0] == Keeper.DONE


# ---- over HTTP ----

def test_another_users_volume_can_not_be_named(server):
    assert server.post("/api/volumes", {"name": "v", "user_id": "alice"}).status == 201
    tries = ["v", "../alice/v", "alice/v", "alice:v", "v\x00"]
    for name in tries:
        reply = server.post("/create_session", {"user_id": "mallory", "volumes": [
            {"name": name, "path": "/data"}]})
        assert reply.status in (400, 404), reply
    ours = server.get("/api/volumes?user_id=alice").json["volumes"][0]["volume_id"]
    reply = server.post("/create_session", {"user_id": "mallory", "volumes": [
        {"name": ours, "path": "/data"}]})
    assert reply.status == 404, "an id is no name"
    for method, path in (("GET", "/api/volumes/v?user_id=mallory"),
                         ("GET", "/api/volumes/v/archive?user_id=mallory"),
                         ("DELETE", "/api/volumes/v?user_id=mallory")):
        assert server.request(method, path).status == 404
    assert server.request("DELETE", "/api/volumes/v?user_id=alice").status == 200


def test_tricks_of_a_volumes_files_do_not_reach_the_server(server):
    assert server.post("/api/volumes", {"name": "t", "user_id": "t"}).status == 201
    volumes = [{"name": "t", "path": "/data"}]
    made = server.post("/create_session", {"user_id": "t", "volumes": volumes})
    session = made.json["session_id"]
    server.stdout(session, "cd /data; ln -s /etc/passwd l; mkfifo f; mkdir d; ln -s / d/out; "
                           "ln -s ../../../../../etc/shadow up")
    for path in ("l", "f", "d", "d/out/etc/passwd", "up", "../x", "/etc/passwd"):
        reply = server.get(f"/api/volumes/t/content?user_id=t&path={path}")
        assert reply.status in (400, 404), (path, reply)
    for path in ("l", "d/out/x", "d"):
        reply = server.request("PUT", f"/api/volumes/t/content?user_id=t&path={path}", b"x")
        assert reply.status >= 400, path
    server.cleanup(session)
    assert server.request("DELETE", "/api/volumes/t?user_id=t").status == 200
