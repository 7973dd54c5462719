# SPDX-License-Identifier: Apache-2.0
"""Environments of the registry as images, with pools of their own."""
from engine import BARE, IMAGE
from server import wait_until

BARE_ENVIRONMENT = f"""\
name: bare
provider: docker
image: {BARE}
resources:
  memory: 64Mi
  pids: 40
environment:
  COLOUR: green
warm_pool: 1
"""


def images_of(server):
    return sorted(box["Image"] for box in server.boxes().values())


def test_an_environment_names_its_image_and_keeps_some_ready(start_server, tmp_path):
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments/bare.yaml").write_text(BARE_ENVIRONMENT)
    server = start_server(POOL_SIZE=1, MIN_POOL_SIZE=1, REGISTRY_DIR=str(tmp_path))
    wait_until(lambda: server.health()["pool"]["available"] == 2, "one of each is ready")
    assert images_of(server) == [BARE, IMAGE]
    ready = {box["Image"]: name for name, box in server.boxes().items()}
    reply = server.post("/api/sessions", {"environment": "bare"})
    assert reply.status == 200 and reply.json["provider"] == "docker", reply
    session = reply.json["session_id"]
    assert reply.json["sandbox_id"] == ready[BARE], (reply, ready)
    assert server.stdout(session, "echo $COLOUR") == "green\n"
    host = server.engine.inspect(ready[BARE])["HostConfig"]
    assert host["Memory"] == 64 << 20 and host["PidsLimit"] < 128, host
    wait_until(lambda: images_of(server) == [BARE, BARE, IMAGE], "another one is made ready")
    server.cleanup(session)


def test_native_is_the_default_beside_containers(start_server):
    server = start_server(SANDBOX_PROVIDER="native")
    plain = server.create()
    assert not server.boxes()
    reply = server.post("/api/sessions", {"provider": "docker", "environment": IMAGE})
    assert reply.status == 200 and reply.json["provider"] == "docker", reply
    session = reply.json["session_id"]
    assert len(server.boxes()) == 1
    assert server.stdout(session, "id -u") == server.stdout(plain, "id -u") == "1000\n"
    server.restart()
    assert server.stdout(session, "echo again") == server.stdout(plain, "echo again")
    for one in (plain, session):
        server.cleanup(one)
