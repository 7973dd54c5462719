# SPDX-License-Identifier: Apache-2.0
"""What deploys a cluster: it can be read, and each name in it is one that the program knows."""
import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def settings(binary):
    """Names to their defaults, as the program tells them."""
    shown = subprocess.run([binary, "serve", "--help"], text=True, capture_output=True).stdout
    names = dict(re.findall(r"^  ([A-Z][A-Z0-9_]{2,}) +(\S+)", shown, re.M))
    return {**names, "THREADBOX_CONFIG": ""}


def render(text, values):
    """What helm makes of our templates; they use no more of its language than this."""
    def value(match):
        words = match[1].strip()
        if words == "toYaml .Values.settings | indent 2":
            return "\n".join(f"  {name}: {json_like(one)}"
                             for name, one in values["settings"].items())
        quoted = words.endswith("| quote")
        path = re.search(r"\.(Values|Release)\.([\w.]+)", words)
        assert path, words
        found = {"Name": "box", "Namespace": "boxes"} if path[1] == "Release" else values
        for part in path[2].split("."):
            found = found[part]
        return json_like(found) if quoted else str(found)
    return re.sub(r"\{\{(.*?)\}\}", value, text)


def json_like(text):
    return '"%s"' % str(text).replace('"', '\\"')


def helm():
    values = yaml.safe_load((DEPLOY / "helm/threadbox/values.yaml").read_text())
    values["clusterSecret"] = "a secret of this release"
    text = (DEPLOY / "helm/threadbox/templates/threadbox.yaml").read_text()
    return list(yaml.safe_load_all(render(text, values)))


def manifests(name):
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def find(objects, kind, end):
    return next(one for one in objects
                if one["kind"] == kind and one["metadata"]["name"].endswith(end))


def container(objects, kind, end):
    pod = find(objects, kind, end)["spec"]["template"]["spec"]
    (only,) = pod["containers"]
    return pod, only


@pytest.mark.parametrize("objects", [manifests("threadbox.yaml"), helm()], ids=["plain", "helm"])
def test_kubernetes_knows_the_program(objects, settings):
    for kind, end, path in (("StatefulSet", "worker", "/readyz"),
                            ("Deployment", "coordinator", "/health")):
        pod, one = container(objects, kind, end)
        names = {row["name"] for row in one["env"]}
        for source in one["envFrom"]:
            (reference,) = source.values()
            for other in objects:
                if other["kind"] == "ConfigMap" and other["metadata"]["name"] == reference["name"]:
                    names |= set(other["data"])
        assert {"REDIS_HOST", "HOST", "PORT"} <= names <= set(settings), names - set(settings)
        port = next(row["value"] for row in one["env"] if row["name"] == "PORT")
        assert one["ports"][0]["containerPort"] == int(port)
        assert one["readinessProbe"]["httpGet"]["path"] == path and one["livenessProbe"]
        labels = find(objects, kind, end)["spec"]["template"]["metadata"]["labels"]
        budget = find(objects, "PodDisruptionBudget", end)["spec"]
        assert budget["selector"]["matchLabels"] == labels
        assert find(objects, kind, end)["spec"]["selector"]["matchLabels"] == labels
        assert pod["terminationGracePeriodSeconds"] > 30, "longer than SHUTDOWN_GRACE_SECONDS"
    _, worker = container(objects, "StatefulSet", "worker")
    service = find(objects, "Service", "worker")
    place = find(objects, "StatefulSet", "worker")
    assert place["spec"]["serviceName"] == service["metadata"]["name"]
    url = next(row["value"] for row in worker["env"] if row["name"] == "ADVERTISE_URL")
    assert url == (f"http://$(WORKER_ID).{service['metadata']['name']}"
                   f".{service['metadata']['namespace']}.svc:5000")
    names = [row["name"] for row in worker["env"]]
    assert names.index("WORKER_ID") < names.index("ADVERTISE_URL"), "else it is not resolved"
    policy = find(objects, "NetworkPolicy", "worker")["spec"]
    assert policy["podSelector"]["matchLabels"] == place["spec"]["selector"]["matchLabels"]
    assert worker["lifecycle"]["preStop"]["exec"]["command"] == ["/usr/bin/threadbox", "drain"]


def test_redis_s_own_manifest_is_the_one_that_the_others_ask(settings):
    objects = manifests("redis.yaml")
    config = find(manifests("threadbox.yaml"), "ConfigMap", "threadbox")["data"]
    assert find(objects, "Service", "redis")["metadata"]["name"] == config["REDIS_HOST"]
    assert str(find(objects, "Service", "redis")["spec"]["ports"][0]["port"]) == settings[
        "REDIS_PORT"]


def test_no_secret_is_written_down():
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix in (".yml", ".yaml"):
            for line in path.read_text().splitlines():
                found = re.search(r"CLUSTER_SECRET\s*[:=]\s*(\S+)", line)
                assert not found or found[1].startswith(("{{", "%s", "\"$(")), (path, line)


def test_compose_knows_the_program(settings):
    compose = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())
    services = compose["services"]
    assert {"redis", "worker1", "worker2", "coordinator"} <= set(services)
    for name in ("worker1", "worker2", "coordinator"):
        one = services[name]
        assert set(one["environment"]) <= set(settings), set(one["environment"]) - set(settings)
        assert (DEPLOY.parent / one["build"]["dockerfile"]).exists()
        assert one["depends_on"]["secret"] == {"condition": "service_completed_successfully"}
    for name in ("worker1", "worker2"):
        one = services[name]
        assert one["environment"]["WORKER_ID"] == name
        assert one["environment"]["ADVERTISE_URL"] == f"http://{name}:{settings['PORT']}"
        assert one["privileged"] is True and "ports" not in one
        assert f"{name}:/var/lib/threadbox" in one["volumes"]
    assert services["coordinator"]["environment"]["WORKERS"].split(",") == [
        services[name]["environment"]["ADVERTISE_URL"] for name in ("worker1", "worker2")]
    assert services["coordinator"]["ports"] == ["127.0.0.1:8000:8000"]


def test_compose_s_secret_is_made_once(tmp_path):
    """The very words, by a real shell."""
    compose = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())
    shell, flag, text = compose["services"]["secret"]["entrypoint"]
    text = text.replace("$$", "$").replace("/cluster/", f"{tmp_path}/")
    made = []
    for _ in range(2):
        subprocess.run([shell, flag, text], check=True)
        made.append((tmp_path / "threadbox.conf").read_text())
    assert made[0] == made[1]
    found = re.fullmatch(r"CLUSTER_SECRET=([0-9a-f]{64})\nREDIS_PASSWORD=([0-9a-f]{64})\n", made[0])
    assert found and found[1] != found[2]
    assert (tmp_path / "redis.conf").read_text() == f"requirepass {found[2]}\n"


@pytest.mark.parametrize("name", ["worker", "coordinator"])
def test_dockerfiles_start_what_there_is(name, binary):
    text = (DEPLOY / f"Dockerfile.{name}").read_text()
    program = re.search(r'CMD \["(\w+)"\]', text)[1]
    done = subprocess.run([binary, program, "--help"], text=True, capture_output=True)
    assert done.returncode == 0
    assert re.search(r"EXPOSE (\d+)", text)[1] == {"worker": "5000", "coordinator": "8000"}[name]
    path = re.search(r"http://127.0.0.1:\d+(/\w+)", text)[1]
    assert path in ("/healthz", "/health")


def test_the_coordinator_s_unit_is_accepted_by_systemd(binary):
    unit = DEPLOY / "systemd/threadbox-coordinator.service"
    assert "ExecStart=/usr/bin/threadbox coordinator" in unit.read_text()
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], text=True,
                          capture_output=True)
    said = [line for line in done.stderr.splitlines() if "threadbox-coordinator" in line
            and "is not executable" not in line and "No such file" not in line]
    assert not said, said
