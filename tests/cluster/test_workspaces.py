# SPDX-License-Identifier: Apache-2.0
"""WORKSPACE_STORE: a thread finds its files again when its worker is lost."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from cluster import LEASE, Cluster
from redis_server import free_port
from server import PLACE, read_text, wait_until
from test_faults import create_until

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Shared:
    """A directory that all workers have."""

    def __init__(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="tb-shared-", dir=PLACE))
        os.chmod(self.place, 0o755)
        self.settings = {"WORKSPACE_STORE": str(self.place)}

    def keys(self):
        top = pathlib.Path(self.place) / "threadbox-workspaces"
        # Unlike rglob, it goes on when a folder is removed meanwhile.
        return sorted(os.path.relpath(os.path.join(folder, name), top)
                      for folder, _, names in os.walk(top) for name in names)

    def read(self, key):
        return (pathlib.Path(self.place) / "threadbox-workspaces" / key).read_text()

    def close(self):
        shutil.rmtree(self.place)


class Moto:
    """A server that speaks S3, from PyPI (moto); its own client says what is there."""

    def __init__(self):
        self.port = free_port()
        place = ROOT / "build" / "moto-venv"
        if not (place / "done").exists():
            made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)])
            got = made.returncode == 0 and subprocess.run(
                [place / "bin/pip", "install", "-q", "moto[s3,server]"]).returncode == 0
            if not got:
                pytest.skip("moto can't be installed here (python3-venv, a package index)")
            (place / "done").touch()
        self.python = place / "bin/python"
        self.log = open(f"{PLACE}/moto-{self.port}.log", "w")
        self.process = subprocess.Popen([place / "bin/moto_server", "-p", str(self.port)],
                                        stdout=self.log, stderr=self.log,
                                        # From then on it checks every signature.
                                        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"})
        wait_until(lambda: "Running on" in read_text(self.log.name), "moto answers", 30)
        self.key = "key", "secret"
        policy = json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
        self.key = self.ask(
            "s3.create_bucket(Bucket='boxes')\niam.create_user(UserName='u')\n"
            f"iam.put_user_policy(UserName='u', PolicyName='p', PolicyDocument='{policy}')\n"
            "key = iam.create_access_key(UserName='u')['AccessKey']\n"
            "print(key['AccessKeyId'], key['SecretAccessKey'])").split()
        self.settings = {"WORKSPACE_STORE": "s3://boxes/some/prefix",
                         "WORKSPACE_S3_ENDPOINT": f"http://127.0.0.1:{self.port}",
                         "WORKSPACE_S3_KEY_ID": self.key[0], "WORKSPACE_S3_SECRET": self.key[1]}

    def ask(self, code):
        """With Amazon's own client."""
        begin = ("import boto3\ns3, iam = (boto3.client(name, region_name='us-east-1', "
                 f"endpoint_url='http://127.0.0.1:{self.port}', aws_access_key_id='{self.key[0]}',"
                 f" aws_secret_access_key='{self.key[1]}') for name in ('s3', 'iam'))\n")
        return subprocess.run([self.python, "-c", begin + code], check=True, text=True,
                              capture_output=True).stdout

    def keys(self):
        said = self.ask("for page in s3.get_paginator('list_objects_v2').paginate(Bucket='boxes'):"
                        "\n  for one in page.get('Contents', []): print(one['Key'])")
        assert all(line.startswith("some/prefix/") for line in said.split())
        return sorted(line[len("some/prefix/"):] for line in said.split())

    def read(self, key):
        return self.ask("print(s3.get_object(Bucket='boxes', Key='some/prefix/%s')"
                        "['Body'].read().decode())" % key)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        os.unlink(self.log.name)


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.long)])
def store(request, binary):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    one = Shared() if request.param == "directory" else Moto()
    yield one
    one.close()


@pytest.fixture
def shared():
    one = Shared()
    yield one
    one.close()


@pytest.fixture
def cluster(store):
    one = Cluster(WORKSPACE_STORE_DELAY_SECONDS=0, **store.settings)
    try:
        yield one.start(workers=2)
    finally:
        one.close()


def manifests(store):
    return [key for key in store.keys() if key.endswith("-manifest")]


def wait_kept(store, what):
    """All that was done until now."""
    now = time.time() * 1000

    def kept():
        there = manifests(store)
        with contextlib.suppress(OSError, subprocess.CalledProcessError):  # it may be cleared away
            return there and json.loads(store.read(there[-1]))["kept_at_ms"] >= now
    wait_until(kept, what, 20)


def test_a_lost_worker_s_thread_finds_its_files_again(store, cluster):
    front = cluster.coordinators[0]
    session = front.create("thread")
    front.stdout(session, "mkdir -p src/deep empty; echo one > src/deep/f; echo old > gone; "
                          "ln -s deep/f src/link; chmod 750 src/deep/f; echo x > 'a b'")
    wait_kept(store, "its files are kept")
    before = set(store.keys())
    front.stdout(session, "head -c 20000000 /dev/urandom > big; sha256sum big > sum")
    wait_kept(store, "what is new is kept")
    front.stdout(session, "rm gone; echo two > src/deep/f; mkdir new; rmdir empty")
    wait_kept(store, "what is gone, too")
    front.stdout(session, "echo small > last")
    wait_kept(store, "and again")
    keys = set(store.keys())
    assert before < keys, "nothing is written twice"
    owner = cluster.worker_of(session)
    lost = time.monotonic()
    owner.kill9()
    wait_until(lambda: front.try_execute(session, "true").status == 404, "it is lost", 6 * LEASE)
    wait_until(lambda: create_until(front, "thread") != session, "it has another", 6 * LEASE)
    reply = front.post("/create_session", {"user_id": "u", "thread_id": "thread"})
    again = reply.json["session_id"]
    assert reply.json["files_age_seconds"] <= time.monotonic() - lost + 20, reply
    assert reply.json["files_kept_at"]
    assert front.stdout(again, "sha256sum -c sum; cat src/link last 'a b'; stat -c %a src/deep/f; "
                               "ls -d new; ls -d gone empty 2>&1 | grep -c 'cannot access'") == (
        "big: OK\ntwo\nsmall\nx\n750\nnew\n2\n")
    wait_until(lambda: not keys & set(store.keys()), "the new owner has its own", 15)
    print(f"files are {reply.json['files_age_seconds']} s old")
    owner.start()  # it gives its session up, and forgets nothing of the other's
    wait_until(lambda: not owner.exists(session), "it has given it up", 6 * LEASE)
    assert manifests(store)
    front.cleanup(again)
    wait_until(lambda: not store.keys(), "a session that has ended leaves nothing", 15)


def test_many_changes_become_one_again(shared, start_server):
    """Without a cluster, too."""
    store = shared
    server = start_server(WORKSPACE_STORE_DELAY_SECONDS=0, POOL_SIZE=0, **store.settings)
    session = server.create("thread")
    most = 0
    for number in range(20):
        count = manifests(store)
        server.stdout(session, f"echo {number} > f{number}")
        wait_until(lambda: manifests(store) != count, "it is kept", 15)
        most = max(most, len(store.keys()))
    assert most <= 2 * 17 and len(manifests(store)) < 18, "they do not grow without end"
    anonymous = server.create()
    server.stdout(anonymous, "echo x > f")
    server.stdout(session, "for i in $(seq 3000); do echo $i > many-$i; done")
    wait_until(lambda: len(manifests(store)) == 1, "so much is kept at once", 15)
    server.restart()
    server.stdout(session, "echo more > more")
    wait_until(lambda: manifests(store), "it goes on after a restart")
    server.cleanup(session)
    wait_until(lambda: not store.keys(), "nothing is left")


def test_no_session_without_its_files(shared, start_server):
    """Who began without them would be kept in their place."""
    store = shared
    server = start_server(WORKSPACE_STORE_DELAY_SECONDS=0, POOL_SIZE=0, **store.settings)
    session = server.create("thread")
    server.stdout(session, "echo precious > f")
    wait_until(lambda: manifests(store), "it is kept")
    server.stop()
    shutil.rmtree(server.state_dir)
    os.mkdir(server.state_dir)
    manifest = store.place / "threadbox-workspaces" / manifests(store)[-1]
    text = manifest.read_text()
    manifest.write_text(text[:-10])
    server.start()
    reply = server.post("/create_session", {"user_id": "u", "thread_id": "thread"})
    assert reply.status == 503 and reply.headers["Retry-After"], reply
    assert server.health()["active_sessions"] == 0
    manifest.write_text(text)
    assert server.stdout(server.create("thread"), "cat f") == "precious\n"


@pytest.mark.parametrize("settings,named", [
    ({"WORKSPACE_STORE": "relative"}, "must be the path"),
    ({"WORKSPACE_STORE": "/nonexistent"}, "no directory"),
    ({"WORKSPACE_STORE": "s3://"}, "no bucket"),
    ({"WORKSPACE_STORE": "s3://b"}, "WORKSPACE_S3_SECRET")])
def test_a_store_that_can_t_be_used_is_refused_at_the_start(binary, settings, named, tmp_path):
    from server import Server
    server = Server(state_dir=str(tmp_path / "state"), **settings)
    done = server.command("serve", seconds=20)
    assert done.returncode == 1 and named in done.stderr, done
    assert not os.path.exists(server.state_dir)
