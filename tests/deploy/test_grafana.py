# SPDX-License-Identifier: Apache-2.0
"""deploy/grafana.json asks for what a server tells, under the names that it has there."""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from server import wait_until

DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "grafana.json"
# Added by Prometheus itself when it reads a server.
OUTER_LABELS = {"instance", "job"}
WORDS = {"sum", "avg", "min", "max", "count", "by", "rate", "increase", "histogram_quantile"}
NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
MATCHER = re.compile(rf'({NAME})\s*(=~|!~|!=|=)\s*"([^"]*)"')


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text())


@pytest.fixture(scope="module")
def samples(server):
    """Of a server that had something to do: {name: [labels of each]}."""
    session = server.create("grafana")
    server.execute(session, "true")
    server.upload(session, "a", b"a")
    assert server.get("/no/such/place").status == 404
    found = {}
    for family in text_string_to_metric_families(server.get("/metrics").body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def queries(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]


def label_names(samples, metric):
    return {label for labels in samples[metric] for label in labels} | OUTER_LABELS


def check_query(samples, expr, legend):
    """Every name in the query is known, and its labels belong to its metric."""
    bare = re.sub(r"\[[^\]]*\]", "", expr)
    metrics = re.findall(rf"({NAME})\{{([^}}]*)\}}", bare)
    assert metrics, "it names no metric, or one without its instance"
    for metric, matchers in metrics:
        assert metric in samples, f"a server has no {metric}"
        found = MATCHER.findall(matchers)
        assert ", ".join(f'{n}{o}"{v}"' for n, o, v in found) == matchers
        assert ("instance", "=~", "$instance") in found
        for name, operator, value in found:
            assert name in label_names(samples, metric), f"{metric} has no {name}"
            if operator == "=":
                assert value in {labels.get(name) for labels in samples[metric]}, value
    rest = re.sub(r"\{[^}]*\}", "", bare)
    grouped = [name for group in re.findall(r"\bby \(([^)]*)\)", rest)
               for name in group.split(", ")]
    for name in grouped + re.findall(r"\{\{(\w+)\}\}", legend):
        assert all(name in label_names(samples, metric) for metric, _ in metrics), name
    # A label of the legend that the query has summed away would be empty.
    if re.match(r"(sum|avg|min|max|count|histogram_quantile)\b", expr):
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= set(grouped)
    unknown = set(re.findall(NAME, rest)) - WORDS - {metric for metric, _ in metrics}
    assert unknown <= set(grouped), f"no function or metric: {unknown}"
    assert expr.count("(") == expr.count(")")


def test_every_query_asks_for_what_a_server_tells(dashboard, samples):
    wrong = []
    for title, expr, legend in queries(dashboard):
        try:
            check_query(samples, expr, legend)
        except AssertionError as error:
            wrong.append(f"{title}: {expr}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_wrong_name_would_be_found(samples):
    good = 'sum by (outcome) (rate(threadbox_commands_total{instance=~"$instance"}[5m]))'
    check_query(samples, good, "{{outcome}}")
    for expr, legend in ((good.replace("commands_total", "command_total"), ""),
                         (good.replace("(outcome)", "(result)"), ""),
                         (good.replace("rate", "ratio"), ""),
                         (good.replace('{', '{outcome="exit", '), ""),
                         (good.replace('instance=~"$instance"', ""), ""),
                         (good, "{{result}}")):
        with pytest.raises(AssertionError):
            check_query(samples, expr, legend)


def test_every_metric_is_somewhere(dashboard, samples):
    asked = " ".join(expr for _, expr, _ in queries(dashboard))
    for name in samples:
        if not name.endswith(("_sum", "_count", "_created")):
            assert name in asked, f"{name} is on no panel"


def test_the_frame_is_what_grafana_imports(dashboard):
    assert dashboard["uid"] == "threadbox" and dashboard["title"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    variables = {row["name"] for row in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__rate_interval", "__all"}
    assert used == variables == {"datasource", "instance"}
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.long
def test_prometheus_itself_answers_every_query(dashboard, server, samples, tmp_path):
    """A real Prometheus reads the server; a query that it does not understand is a 400."""
    program = shutil.which("prometheus")
    if not program:
        pytest.skip("there is no prometheus (Debian package of that name)")
    (tmp_path / "p.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: threadbox\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]\n")
    base = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [program, f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data",
         f"--web.listen-address={base}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(expr):
        expr = expr.replace("$instance", ".*").replace("$__rate_interval", "1m")
        url = f"http://{base}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expr}: {error.read().decode()}") from error
        except OSError:
            return None
    try:
        wait_until(lambda: ask('rate(process_cpu_seconds_total{instance=~"$instance"}[1m])'),
                   "Prometheus has read the server twice", 60)
        for title, expr, _ in queries(dashboard):
            assert ask(expr), f"{title}: {expr} has no series"
    finally:
        process.kill()
        process.wait()
