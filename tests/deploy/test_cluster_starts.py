# SPDX-License-Identifier: Apache-2.0
"""What deploys a cluster really starts one: each program of it is run with the very environment
that its file gives it. Only names, ports and places are others, because here is one machine."""
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

import pytest
import yaml
from test_cluster_files import container, find, helm, manifests

from cluster import Coordinator
from redis_server import Redis, free_port, need_redis
from server import PLACE, SETTINGS, Server, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = 65534


class Deployed:
    """The programs of a deployment, by the names that they have in its network."""

    def __init__(self, place):
        self.place, self.ports, self.running, self.redis = place, {}, [], None

    def port_of(self, name, port):
        """What stands for that port of that machine here."""
        return self.ports.setdefault((name, int(port)), free_port())

    def here(self, value):
        """The same setting on this machine."""
        def url(match):
            return f"http://127.0.0.1:{self.port_of(match[1], match[2])}"
        value = value.replace("/cluster/", f"{self.place}/")
        return re.sub(r"http://([\w.-]+):(\d+)", url, value)

    def start_redis(self, name, words):
        self.redis = Redis()
        self.ports[name, 6379] = self.redis.port
        words = [self.here(word) for word in words]
        self.redis.config = [*words, "--port", self.redis.port, "--bind", "127.0.0.1", "--dir",
                             self.redis.folder]
        self.redis.answers = lambda: self.ping().returncode == 0
        self.redis.start()

    def ping(self):
        """As the health check does it: without a password."""
        return subprocess.run(["redis-cli", "-p", str(self.redis.port), "ping"],
                              capture_output=True, text=True)

    def start(self, kind, name, port, environment, **options):
        server = kind(**options)
        settings = {key: self.here(value) for key, value in environment.items()}
        settings["PORT"] = str(self.port_of(name, settings.get("PORT", port)))
        settings["REDIS_PORT"] = str(self.ports[settings["REDIS_HOST"], 6379])
        settings["REDIS_HOST"] = "127.0.0.1"
        clean = {key: value for key, value in os.environ.items() if not SETTINGS.match(key)}
        server.environment = lambda: {**clean, **settings, "STATE_DIR": server.state_dir}
        self.running.append(server)
        return server.start()

    def start_coordinator(self, name, environment):
        """As nobody, as its image and its manifest have it."""
        def be_nobody():
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return self.start(Coordinator, name, 8000, environment, preexec=be_nobody,
                          state_dir="/nowhere")

    def close(self):
        with contextlib.ExitStack() as stack:
            if self.redis:
                stack.callback(self.redis.close)
            for one in self.running:
                stack.callback(one.close)


@pytest.fixture
def deployed(binary):
    need_redis()
    with tempfile.TemporaryDirectory(prefix="tb-deployed-", dir=PLACE) as place:
        os.chmod(place, 0o755)
        one = Deployed(place)
        try:
            yield one
        finally:
            one.close()


def use(front, workers):
    """Sessions on both workers, made and used through the coordinator; one is drained."""
    def made(thread):
        reply = front.post("/create_session", {"user_id": "u", "thread_id": thread})
        assert reply.status in (200, 409, 503), reply
        return reply.status != 503 and reply.json["session_id"]
    wait_until(lambda: made("t0"), "a session can be made", 60)
    wait_until(lambda: all(row["capacity"] > 0 for row in front.get(
        "/cluster/workers").json["workers"]), "both take sessions", 60)
    sessions = [made(f"t{i}") for i in range(6)]
    for number, session in enumerate(sessions):
        assert front.stdout(session, f"echo {number} > f; cat f") == f"{number}\n"
    names = [worker.environment()["WORKER_ID"] for worker in workers]
    assert places_of(front, sessions) == set(names)
    done = workers[0].command("drain")
    assert done.returncode == 0 and " 0 left" in done.stdout, done
    for number, session in enumerate(sessions):
        assert front.stdout(session, "cat f") == f"{number}\n", "also after it was drained"
    assert places_of(front, sessions) == {names[1]}


def places_of(front, sessions):
    return {front.get(f"/status/{session}").json["worker"] for session in sessions}


def check_closed(redis):
    with pytest.raises(RuntimeError, match="NOAUTH"):
        redis.call("PING")


def test_compose_s_services_make_a_cluster(deployed):
    services = yaml.safe_load((ROOT / "deploy/docker-compose.yml").read_text())["services"]
    shell, flag, text = services["secret"]["entrypoint"]
    subprocess.run([shell, flag, deployed.here(text.replace("$$", "$"))], check=True)
    deployed.start_redis("redis", services["redis"]["command"])
    assert services["redis"]["healthcheck"]["test"] == ["CMD", "redis-cli", "ping"]
    assert deployed.ping().returncode == 0
    check_closed(deployed.redis)
    workers = [deployed.start(Server, name, 5000, services[name]["environment"])
               for name in ("worker1", "worker2")]
    front = deployed.start_coordinator("coordinator", services["coordinator"]["environment"])
    use(front, workers)


def environment_of(objects, one, secrets, pod):
    """As the kubelet makes it."""
    made = {}
    for source in one.get("envFrom", []):
        for kind, reference in source.items():
            made |= secrets if kind == "secretRef" else find(
                objects, "ConfigMap", reference["name"])["data"]
    for row in one.get("env", []):
        value = row.get("value")
        if value is None:
            source, = row["valueFrom"].items()
            value = pod if source == ("fieldRef", {"fieldPath": "metadata.name"}) else secrets[
                source[1]["key"]]
        made[row["name"]] = expand(value, made)
    return made


def expand(text, environment):
    return re.sub(r"\$\((\w+)\)", lambda name: environment[name[1]], text)


def secrets_of(kind, objects):
    if kind == "helm without a password":
        return find(objects, "Secret", "")["stringData"]
    if kind == "helm":
        return find(objects, "Secret", "")["stringData"] | {"REDIS_PASSWORD": "of-redis"}
    text = (ROOT / "deploy/kubernetes/threadbox.yaml").read_text()
    return {name: f"the {name} of a test, long enough"
            for name in re.findall(r"--from-literal=(\w+)=", text)}


@pytest.mark.parametrize("kind", ["plain", "helm", "helm without a password"])
def test_kubernetes_manifests_make_a_cluster(deployed, kind):
    objects = manifests("threadbox.yaml") if kind == "plain" else helm()
    secrets = secrets_of(kind, objects)
    _, redis = container(manifests("redis.yaml"), "StatefulSet", "redis")
    environment = environment_of([], redis, secrets, "redis-0")
    deployed.start_redis("redis", [expand(word, environment) for word in redis["args"]])
    if secrets["REDIS_PASSWORD"]:
        check_closed(deployed.redis)
    _, worker = container(objects, "StatefulSet", "worker")
    service = find(objects, "Service", "worker")["metadata"]
    workers = []
    for number in range(2):
        pod = f"{service['name']}-{number}"
        name = f"{pod}.{service['name']}.{service['namespace']}.svc"
        assert worker["args"] == ["serve"]
        workers.append(deployed.start(Server, name, 5000, environment_of(
            objects, worker, secrets, pod)))
    _, coordinator = container(objects, "Deployment", "coordinator")
    assert coordinator["args"] == ["coordinator"]
    assert coordinator["securityContext"]["runAsUser"] == NOBODY
    front = deployed.start_coordinator("coordinator", environment_of(
        objects, coordinator, secrets, "coordinator-0"))
    use(front, workers)
