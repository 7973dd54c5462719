# SPDX-License-Identifier: Apache-2.0
"""Volumes: named, per user, mounted into sessions, filled and emptied over HTTP."""
import io
import tarfile
import uuid

import pytest
from test_openapi import assert_described, spec  # noqa: F401


class Volume:
    """One of a user of its own on the shared server."""

    def __init__(self, server, name="models", **fields):
        self.server, self.name = server, name
        self.user = fields.setdefault("user_id", f"user-{uuid.uuid4()}")
        self.made = server.post("/api/volumes", {"name": name, "size_mb": 16, **fields})

    def path(self, rest="", **query):
        pairs = {"user_id": self.user, **query}
        asked = "&".join(f"{key}={value}" for key, value in pairs.items())
        return f"/api/volumes/{self.name}{rest}?{asked}"

    def put(self, path, data):
        return self.server.request("PUT", self.path("/content", path=path), data)

    def read(self, path, **options):
        return self.server.get(self.path("/content", path=path), **options)

    def session(self, path="/data", **fields):
        use = {"name": self.name, "path": path, **fields}
        reply = self.server.post("/create_session", {"user_id": self.user, "volumes": [use]})
        assert reply.status == 200, reply
        return reply.json["session_id"]

    def info(self):
        return self.server.get(self.path()).json

    def remove(self):
        return self.server.request("DELETE", self.path())


@pytest.fixture
def volume(server):
    one = Volume(server)
    assert one.made.status == 201, one.made
    yield one
    for session in one.info().get("in_use_by", []):
        server.cleanup(session)
    one.remove()


def test_a_volume_outlives_its_sessions(server, volume):
    first = volume.session("/data")
    server.stdout(first, "mkdir /data/d; echo kept > /data/d/f; chmod 700 /data/d")
    server.cleanup(first)
    second = volume.session("/workspace/in/deep")
    assert server.stdout(second, "cat in/deep/d/f; stat -c %U:%a in/deep/d") == \
        "kept\nsandboxuser:700\n"


def test_two_sessions_share_its_files_at_once(server, volume):
    one, other = volume.session("/data"), volume.session("/mnt/shared")
    server.stdout(one, "echo from-one > /data/f")
    assert server.stdout(other, "cat /mnt/shared/f; echo more >> /mnt/shared/f") == "from-one\n"
    assert server.stdout(one, "cat /data/f; rm /data/f") == "from-one\nmore\n"
    assert server.execute(other, "test -e /mnt/shared/f")["exit_code"] == 1


def test_read_only_is_read_only(server, volume):
    volume.put("f", b"text")
    session = volume.session("/data", read_only=True)
    result = server.execute(session, "cat /data/f; echo x > /data/g; rm /data/f; chmod 777 /data")
    assert result["stdout"] == "text" and result["exit_code"] != 0
    assert result["stderr"].count("Read-only file system") == 3


def test_its_limit_holds_inside_and_for_uploads(server, volume):
    session = volume.session("/data")
    result = server.execute(session, "head -c 40M /dev/zero > /data/big; stat -c %s /data/big")
    assert "Disk quota exceeded" in result["stderr"] or "No space" in result["stderr"], result
    assert int(result["stdout"]) < 17 << 20
    assert volume.put("more", bytes(12 << 20)).status in (413, 507)
    server.stdout(session, "rm /data/big; sync /data")
    assert volume.put("too-large", bytes(17 << 20)).status == 413


def test_files_go_in_and_out(server, spec, volume):  # noqa: F811
    assert_described(spec, "writeVolumeFile", volume.put("a/b.txt", b"0123456789"), 201)
    assert_described(spec, "writeVolumeFile", volume.put("a/b.txt", b"01234567890"), 200)
    assert assert_described(spec, "readVolumeFile", volume.read("a/b.txt"), 200).body == \
        b"01234567890"
    part = volume.read("a/b.txt", headers={"Range": "bytes=2-4"})
    assert assert_described(spec, "readVolumeFile", part, 206).body == b"234"
    assert_described(spec, "readVolumeFile", volume.read("nothing"), 404)
    assert_described(spec, "readVolumeFile", volume.read("../x"), 400)
    listed = server.get(volume.path("/files", recursive=1))
    assert [row["path"] for row in assert_described(spec, "listVolumeFiles", listed, 200)
            .json["files"]] == ["a", "a/b.txt"]
    info = assert_described(spec, "getVolume", server.get(volume.path()), 200).json
    assert (info["files"], info["used_bytes"], info["in_use_by"]) == (1, 11, [])
    gone = server.request("DELETE", volume.path("/files", path="a", recursive=1))
    assert_described(spec, "removeVolumeFile", gone, 200)
    assert server.get(volume.path("/files")).json["files"] == []


def test_a_tar_fills_it_and_comes_out_again(server, spec, volume):  # noqa: F811
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in (("x/1", b"one"), ("x/2", b"two")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    filled = server.request("PUT", volume.path("/archive", path="top"), packed.getvalue())
    assert assert_described(spec, "fillVolume", filled, 200).json["files"] == 2
    reply = assert_described(spec, "downloadVolume", server.get(volume.path("/archive")), 200)
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        assert tar.extractfile("top/x/2").read() == b"two"
    assert_described(spec, "fillVolume",
                     server.request("PUT", volume.path("/archive"), b"no tar" * 200), 400)


def test_it_is_not_removed_while_somebody_has_it(server, spec, volume):  # noqa: F811
    session = volume.session("/data")
    refused = assert_described(spec, "removeVolume", volume.remove(), 409).json
    assert refused["in_use_by"] == [session] and "end the sessions" in refused["error"]
    server.cleanup(session)
    assert_described(spec, "removeVolume", volume.remove(), 200)
    assert_described(spec, "getVolume", server.get(volume.path()), 404)
    assert_described(spec, "removeVolume", volume.remove(), 404)


def test_names_are_a_users_own(server, spec, volume):  # noqa: F811
    volume.put("secret", b"mine")
    assert_described(spec, "createVolume", Volume(server, user_id=volume.user).made, 409)
    other = Volume(server)
    assert other.made.status == 201 and other.made.json["volume_id"] != \
        volume.made.json["volume_id"]
    assert other.read("secret").status == 404
    listed = assert_described(spec, "listVolumes",
                              server.get(f"/api/volumes?user_id={volume.user}"), 200).json
    assert [row["name"] for row in listed["volumes"]] == ["models"] and listed["total"] == 1
    other.remove()
    reply = server.post("/create_session", {
        "user_id": "somebody else", "volumes": [{"name": "models", "path": "/data"}]})
    assert reply.status == 404 and "this user has none" in reply.json["error"]


@pytest.mark.parametrize("fields", [
    {"name": ""}, {"name": "../x"}, {"name": ".x"}, {"name": "-x"}, {"name": "a/b"},
    {"name": "x" * 65}, {"name": "a\nb"}, {"name": 5}, {}, {"name": "x", "size_mb": 0},
    {"name": "x", "size_mb": 1.5}, {"name": "x", "size_mb": 1 << 30},
    {"name": "x", "size_mb": "16"}, {"name": "x", "user_id": "a\x01"}])
def test_what_can_not_be_a_volume_is_refused(server, spec, fields):  # noqa: F811
    assert_described(spec, "createVolume", server.post("/api/volumes", fields), 400)


@pytest.mark.parametrize("volumes,why", [
    ([{"name": "models", "path": path}], why) for path, why in [
        ("data", "absolute"), ("/", "root"), ("/proc/x", "/proc"), ("/etc", "/etc"),
        ("/dev/shm/x", "/dev"), ("/usr/local", "/usr"), ("/a/../etc", ".."), ("/a//b", "empty"),
        ("/workspace", "session's own"), ("/tmp", "itself"), ("/home/sandboxuser", "itself"),
        ("/var/run/x", "no directory"), ("/a\nb", "control")]
] + [([{"name": "models", "path": "/a"}, {"name": "models", "path": "/a/b"}], "each other"),
     ([{"name": "models"}], "path"), ([{"path": "/a"}], "name"), ({"name": "models"}, "list"),
     (["models"], "object"), ([{"name": "models", "path": f"/d{n}"} for n in range(17)], "16")])
def test_places_that_can_not_be_are_refused(server, volume, volumes, why):
    reply = server.post("/create_session", {"user_id": volume.user, "volumes": volumes})
    assert reply.status == 400 and why in reply.json["error"], reply


def test_a_user_has_a_limited_number(start_server):
    small = start_server(MAX_VOLUMES_PER_USER=1, MAX_VOLUME_SIZE_MB=8, VOLUME_SIZE_MB=4)
    first = small.post("/api/volumes", {"name": "a", "user_id": "u"})
    assert (first.status, first.json["size_bytes"], first.json["limited"]) == (201, 4 << 20, True)
    assert small.post("/api/volumes", {"name": "b", "user_id": "u"}).status == 503
    assert small.post("/api/volumes", {"name": "b", "user_id": "v", "size_mb": 9}).status == 400


def test_environments_mount_volumes_and_directories_of_the_host(start_server, tmp_path):
    tmp_path.chmod(0o755)
    host, registry = tmp_path / "host", tmp_path / "registry"
    host.mkdir()
    (host / "f").write_text("of the operator\n")
    (registry / "environments").mkdir(parents=True)
    (registry / "environments" / "m.yaml").write_text(
        f'name: mounted\nmounts: ["cache:/cache", "{host}:/host"]\n')
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    server = start_server(REGISTRY_DIR=registry)
    made = server.post("/api/sessions", {"environment": "mounted", "user_id": "u"}).json
    assert made["volumes"] == [{"name": "cache", "path": "/cache", "read_only": False}]
    session = made["session_id"]
    result = server.execute(session, "cat /host/f; echo x > /cache/x; echo x > /host/x")
    assert result["stdout"] == "of the operator\n" and "Read-only" in result["stderr"]
    server.cleanup(session)
    again = server.post("/api/sessions", {"environment": "mounted", "user_id": "u"}).json
    assert server.stdout(again["session_id"], "cat /cache/x") == "x\n"
    other = server.post("/api/sessions", {"environment": "mounted", "user_id": "v"}).json
    assert server.stdout(other["session_id"], "ls -A /cache") == ""
    # A client never names one.
    reply = server.post("/create_session", {"volumes": [{"name": str(host), "path": "/x"}]})
    assert reply.status == 400


def test_a_confined_session_has_them_too(server, volume):
    volume.put("f", b"text\n")
    body = {"user_id": volume.user, "policy": "strict",
            "volumes": [{"name": "models", "path": "/data"},
                        {"name": "models", "path": "/mnt/ro", "read_only": True}]}
    session = server.post("/create_session", body).json["session_id"]
    assert server.stdout(session, "cat /data/f; echo y > /data/g; cat /mnt/ro/g") == "text\ny\n"
    server.stdout(session, "cat /usr/bin/head > /data/e")
    code = "import os; os.chmod('/data/e', 0o755); os.execv('/data/e', ['head'])"
    result = server.execute(session, f'python3 -c "{code}"')
    assert result["exit_code"] != 0 and "PermissionError" in result["stderr"], result


def test_rootless_has_them_without_a_limit(rootless):
    made = rootless.post("/api/volumes", {"name": "v", "user_id": "u", "size_mb": 1})
    assert made.status == 201 and made.json["limited"] is False, made
    volumes = [{"name": "v", "path": "/data"}]
    one, other = (rootless.post("/create_session", {"user_id": "u", "volumes": volumes})
                  .json["session_id"] for _ in range(2))
    rootless.stdout(one, "echo hi > /data/f")
    assert rootless.stdout(other, "cat /data/f") == "hi\n"
    too_large = rootless.request("PUT", "/api/volumes/v/content?user_id=u&path=x", bytes(2 << 20))
    assert too_large.status == 413
