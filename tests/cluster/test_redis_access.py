# SPDX-License-Identifier: Apache-2.0
"""How a worker gets into a Redis that not everybody may use, and who has no business there."""
import os
import shutil
import subprocess

import pytest

from cluster import Cluster
from redis_server import Redis, free_port
from server import Server, wait_until
from test_faults import create_until


@pytest.fixture
def certificates(tmp_path):
    """A CA, and what it signed for 127.0.0.1."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key",
                "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "2")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem",
            "-subj", "/CN=redis")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-out",
            "cert.pem", "-days", "2", "-extfile", "names")
    return tmp_path


def test_tls_with_a_password_and_only_to_whom_is_trusted(binary, start_server, certificates):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    port = free_port()
    redis = Redis(keep=False, requirepass="pass word".replace(" ", "-"), **{
        "tls-port": str(port), "tls-cert-file": f"{certificates}/cert.pem",
        "tls-key-file": f"{certificates}/key.pem", "tls-ca-cert-file": f"{certificates}/ca.pem",
        "tls-auth-clients": "no"}).start()
    try:
        settings = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": port, "REDIS_TLS": "true",
                    "REDIS_PASSWORD": "pass-word", "CLUSTER_LEASE_MS": 2000, "POOL_SIZE": 0,
                    "MIN_POOL_SIZE": 0}
        good = start_server(REDIS_CA_FILE=f"{certificates}/ca.pem", WORKER_ID="good", **settings)
        wait_until(lambda: good.health()["redis_connected"], "it is let in")
        assert redis.call("HGET", "{tb}:workers", "good")
        bad = start_server(REDIS_CA_FILE=f"{certificates}/other.pem", WORKER_ID="bad", **settings)
        wait_until(lambda: bad.post("/create_session", {}).status == 503, "it takes nothing")
        assert not bad.health()["redis_connected"]
        assert not redis.call("HGET", "{tb}:workers", "bad")
        assert "pass-word" not in good.log() + bad.log()
    finally:
        redis.close()


@pytest.mark.parametrize("settings,named", [
    ({"SANDBOX_PROVIDER": "docker"}, "SANDBOX_PROVIDER"), ({"E2B_API_KEY": "key"}, "E2B_API_KEY")])
def test_sandboxes_that_no_lease_would_end_are_refused(binary, tmp_path, settings, named):
    idle = Server(state_dir=str(tmp_path / "state"), REDIS_HOST="127.0.0.1", **settings)
    done = idle.command("serve", seconds=20)
    assert done.returncode == 1 and "REDIS_HOST" in done.stderr and named in done.stderr, done
    assert not os.path.exists(idle.state_dir), "nothing may be begun"


# ---- where it is at the moment ----

def sentinel(redis):
    """A Sentinel of its own, which is content with itself."""
    one = Redis(keep=False)
    with open(one.folder + "/sentinel.conf", "w") as file:
        file.write(f"port {one.port}\nbind 127.0.0.1\ndir {one.folder}\n"
                   f"sentinel monitor boxes 127.0.0.1 {redis.port} 1\n"
                   "sentinel down-after-milliseconds boxes 500\n"
                   "sentinel failover-timeout boxes 2000\n")
    one.config = ["redis-server", one.folder + "/sentinel.conf", "--sentinel"]
    return one.start()


def test_a_failover_that_sentinels_decide(binary):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    primary = Redis()
    cluster = Cluster(redis=primary)
    replica = watcher = None
    try:
        replica = Redis(keep=False, replicaof=f"127.0.0.1 {primary.port}").start()
        wait_until(lambda: "state=online" in primary.call("INFO", "replication"), "it follows")
        watcher = sentinel(primary)
        wait_until(lambda: str(replica.port) in str(watcher.call("SENTINEL", "replicas", "boxes")),
                   "the Sentinel has seen the replica", 20)
        known = f"127.0.0.1:{free_port()},127.0.0.1:{watcher.port}"  # the first one is dead
        cluster.more.update({"REDIS_HOST": "", "REDIS_SENTINEL_MASTER": "boxes",
                             "REDIS_SENTINELS": known})
        front = cluster.start(workers=2).coordinators[0]
        session = front.create("thread")
        front.stdout(session, "echo here > f")
        wait_until(lambda: replica.call("GET", "{tb}:t:thread"), "the replica has it")
        with cluster.watched() as seen:
            primary.kill()
            wait_until(lambda: "role:master" in replica.call("INFO", "replication"),
                       "the Sentinel has decided", 30)
            wait_until(lambda: all(one.health()["redis_connected"] for one in cluster.workers),
                       "the workers have followed", 20)
            new = create_until(front, "new", 20)
            assert front.stdout(session, "cat f") == "here\n"
            assert create_until(front, "thread") == session
            assert replica.call("GET", "{tb}:t:new").endswith(new)
        assert not seen["doubles"]
    finally:
        cluster.close()
        for one in (replica, watcher):
            if one:
                one.close()


def test_a_redis_cluster_is_asked_for_the_right_node(binary):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    buses = [free_port(), free_port()]
    nodes = [Redis(keep=False, **{"cluster-enabled": "yes", "cluster-node-timeout": "2000",
                                  "cluster-port": str(bus)}).start() for bus in buses]
    cluster = Cluster(redis=nodes[0], started=True)
    try:
        ours = nodes[0].call("CLUSTER", "KEYSLOT", "{tb}:run")
        assert nodes[1].call("CLUSTER", "KEYSLOT", "{tb}:t:x") == ours, "all are in one place"
        nodes[0].call("CLUSTER", "ADDSLOTSRANGE", 0, ours - 1, ours + 1, 16383)
        nodes[1].call("CLUSTER", "ADDSLOTS", ours)
        nodes[0].call("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, buses[1])
        for node in nodes:
            wait_until(lambda: "cluster_state:ok" in node.call("CLUSTER", "INFO"), "it is whole",
                       20)
        cluster.more.update({"REDIS_HOST": "", "REDIS_CLUSTER": f"127.0.0.1:{nodes[0].port}"})
        front = cluster.start(workers=2).coordinators[0]
        session = front.create("thread")
        assert front.create("thread") == session
        assert nodes[1].call("GET", "{tb}:t:thread").endswith(session)
        assert nodes[0].call("DBSIZE") == 0
        front.cleanup(session)
    finally:
        cluster.close()
        nodes[1].close()
