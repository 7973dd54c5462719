# SPDX-License-Identifier: Apache-2.0
"""How a worker gets into a Redis that not everybody may use, and who has no business there."""
import os
import shutil
import subprocess

import pytest

from redis_server import Redis, free_port
from server import Server, wait_until


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
        assert redis.call("HGET", "tb:workers", "good")
        bad = start_server(REDIS_CA_FILE=f"{certificates}/other.pem", WORKER_ID="bad", **settings)
        wait_until(lambda: bad.post("/create_session", {}).status == 503, "it takes nothing")
        assert not bad.health()["redis_connected"]
        assert not redis.call("HGET", "tb:workers", "bad")
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
