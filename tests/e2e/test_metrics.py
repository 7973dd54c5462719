# SPDX-License-Identifier: Apache-2.0
"""GET /metrics is what Prometheus reads, counts what happened and says nothing about anybody; the
log has one line for each event, in one order of keys."""
import json
import math
import re

from prometheus_client.parser import text_string_to_metric_families

from server import wait_until

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
SECRETS = {"user": "u5er-of-the-test", "thread": "thre4d-of-the-test", "word": "s3cret-word",
           "file": "s3cret-file"}
ORDER = ["event", "user", "thread", "session", "command", "exit_code", "duration_ms"]


def parse(text):
    """{family: (type, {(name, labels): value})}; anything that format 0.0.4 forbids fails."""
    assert text.endswith("\n") and "\n\n" not in text and "\r" not in text
    families, family, helped = {}, None, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped = re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line)[1]
        elif line.startswith("#"):
            typed = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line)
            family, kind = typed.groups()
            assert helped == family, f"{family} has no help"
            assert family not in families, f"{family} is there twice"
            families[family] = (kind, {})
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            kind, samples = families[family]
            assert name in [family + part for part in PARTS[kind]], f"{name} is not of {family}"
            assert (name, labels) not in samples, f"{line} is there twice"
            samples[name, labels] = float(value)
    return families


def check_numbers(families):
    for family, (kind, samples) in families.items():
        assert samples, f"{family} is empty"
        assert (kind == "counter") == family.endswith("_total"), family
        if kind != "gauge":
            assert all(value >= 0 for value in samples.values()), family
        if kind == "histogram":
            check_histogram(family, samples)


def check_histogram(family, samples):
    buckets = {}
    for (name, labels), value in samples.items():
        if name.endswith("_bucket"):
            rest, bound = re.fullmatch(r'(?:(.*),)?le="([^"]*)"', labels).groups()
            buckets.setdefault(rest, []).append((float(bound), value))
    for rest, rows in buckets.items():
        assert rows == sorted(rows) and rows[-1][0] == math.inf, (family, rows)
        assert [value for _, value in rows] == sorted(value for _, value in rows), (family, rows)
        assert rows[-1][1] == samples[family + "_count", rest], (family, rest)


def scrape(server):
    reply = server.get("/metrics")
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = reply.body.decode()
    families = parse(text)
    check_numbers(families)
    return text, families


def value(families, family, labels=None, part=""):
    return families[family][1][family + part, labels]


def use(server):
    """Two commands of somebody with secrets."""
    body = {"user_id": SECRETS["user"], "thread_id": SECRETS["thread"]}
    session = server.post("/create_session", body).json["session_id"]
    assert server.post("/create_session", body).status == 409
    server.stdout(session, f"echo {SECRETS['word']} > {SECRETS['file']}.txt")
    assert server.execute(session, f"cat {SECRETS['file']}.none")["exit_code"] != 0
    return session


def test_prometheus_own_parser_and_a_strict_one_agree(start_server):
    server = start_server(POOL_SIZE=1)
    use(server)
    text, ours = scrape(server)
    theirs = {family.name: family for family in text_string_to_metric_families(text)}
    # Theirs leaves _total out of the names of counters.
    assert set(theirs) == {re.sub("_total$", "", name) for name in ours}
    for name, (kind, samples) in ours.items():
        family = theirs[re.sub("_total$", "", name)]
        assert family.type == kind
        assert family.documentation
        assert len(family.samples) == len(samples), name


def test_requests_the_pool_and_the_process_are_counted(start_server):
    server = start_server(POOL_SIZE=1, MAX_POOL_SIZE=5)
    use(server)
    assert server.get("/no/such/place").status == 404
    wait_until(lambda: server.health()["pool_available"] == 1, "the pool is full again")
    _, families = scrape(server)
    requests = "threadbox_http_requests_total"
    assert value(families, requests, 'method="POST",route="/execute",status="2xx"') == 2
    assert value(families, requests, 'method="POST",route="/create_session",status="4xx"') == 1
    assert value(families, requests, 'method="other",route="other",status="4xx"') == 1
    assert value(families, "threadbox_http_request_duration_seconds",
                 'method="POST",route="/execute"', "_count") == 2
    assert value(families, "threadbox_http_connections") >= 1
    assert value(families, "threadbox_sessions_active") == 1
    assert value(families, "threadbox_pool_available") == 1
    assert value(families, "threadbox_pool_used") == 1
    assert value(families, "threadbox_pool_capacity") == 5
    assert value(families, "process_resident_memory_bytes") > 1 << 20
    assert 3 < value(families, "process_open_fds") < value(families, "process_max_fds")
    assert value(families, "process_start_time_seconds") > 1.6e9


def test_sessions_and_commands_are_counted(start_server):
    server = start_server(POOL_SIZE=1)
    session = use(server)
    server.cleanup(session)
    _, families = scrape(server)
    assert value(families, "threadbox_sessions_created_total") == 1
    assert value(families, "threadbox_sessions_reused_total") == 1
    assert value(families, "threadbox_sessions_cleaned_up_total") == 1
    assert value(families, "threadbox_session_reuse_ratio") == 0.5
    assert value(families, "threadbox_session_lifetime_seconds", part="_count") == 1
    commands = "threadbox_commands_total"
    assert value(families, commands, 'outcome="exited0"') == 1
    assert value(families, commands, 'outcome="exited_nonzero"') == 1
    assert value(families, "threadbox_command_duration_seconds", part="_count") == 2
    assert value(families, "threadbox_commands_running") == 0


def test_repeated_commands_are_counted_by_how_it_went(start_server):
    server = start_server(POOL_SIZE=1)
    session = server.create()
    again = {"X-Threadbox-Retry": "1"}
    for stream in (False, True):
        body = {"session_id": session, "command": "false", "stream": stream}
        assert server.post("/execute", body, headers=again).status == 200
    body = {"session_id": session, "command": "true"}
    assert server.post("/execute", {**body, "session_id": "none"}, headers=again).status == 404
    assert server.post("/execute", body, headers={"X-Threadbox-Retry": "0"}).status == 200
    assert server.post("/execute", body).status == 200
    _, families = scrape(server)
    assert value(families, "threadbox_auto_retries_total", 'result="success"') == 2
    assert value(families, "threadbox_auto_retries_total", 'result="failure"') == 1


def test_the_pool_counts_hits_and_the_time_to_make_a_sandbox(start_server):
    server = start_server(POOL_SIZE=1)
    wait_until(lambda: server.health()["pool_available"] == 1, "the pool is full")
    server.create("t")
    _, families = scrape(server)
    assert value(families, "threadbox_pool_hits_total") == 1
    assert value(families, "threadbox_pool_misses_total") == 0
    assert value(families, "threadbox_sandbox_create_duration_seconds", part="_count") >= 1


def test_H28_metrics_say_nothing_about_anybody(start_server):
    server = start_server(POOL_SIZE=1)
    session = use(server)
    server.get(f"/{SECRETS['word']}?{SECRETS['word']}")
    server.get(f"/api/sessions/{session}/processes")
    text, _ = scrape(server)
    for secret in [*SECRETS.values(), session, session[:12], "cat "]:
        assert secret not in text


def log_lines(server, event):
    """Key and value of each line of an event, in their order."""
    lines = [line for line in server.log().splitlines() if f"[SANDBOX] event={event}" in line]
    pair = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^" ]*)(?: |$)')
    return [dict(pair.findall(line.split("[SANDBOX] ", 1)[1])) for line in lines]


def test_an_event_is_one_line_with_its_keys_in_order(start_server):
    server = start_server(POOL_SIZE=1)
    session = use(server)
    server.cleanup(session)
    who = {"user": SECRETS["user"][:8], "thread": SECRETS["thread"][:12], "session": session[:12]}
    for event in ("session_created", "session_reused", "command_executed", "command_failed",
                  "session_cleaned_up"):
        (line,) = log_lines(server, event)
        assert {key: line[key] for key in who} == who
        known = [key for key in line if key in ORDER]
        assert known == [key for key in ORDER if key in line]
    (line,) = log_lines(server, "command_failed")
    assert line["command"] == f"\"cat {SECRETS['file']}.none\""
    assert line["exit_code"] == "1" and int(line["duration_ms"]) >= 0


def test_the_log_as_json_has_the_same_keys(start_server):
    server = start_server(POOL_SIZE=1, LOG_JSON=1)
    session = use(server)
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["event"] == "command_failed"]
    assert line["session"] == session[:12] and line["exit_code"] == 1
    assert line["command"] == f"cat {SECRETS['file']}.none"
    assert {"time", "level", "user", "thread", "duration_ms"} <= set(line)


def test_H24_what_clients_send_never_makes_a_line(start_server):
    server = start_server(POOL_SIZE=1)
    session = server.create("t\u2028hread\u009b2J")
    forged = "true '\n2026-01-01T00:00:00.000Z [SANDBOX] event=forged\r\x1b[2J'"
    server.execute(session, forged)
    server.execute(session, "true " + "x" * 60000)
    server.get("/health", headers={"User-Agent": "x" * 4000})
    log = server.log()
    assert not [line for line in re.split("[\n\r\u2028\u0085]", log)
                if re.match(r"\S+ \[SANDBOX\] event=forged", line)]
    assert "\x1b" not in log and "\r" not in log and "\u009b" not in log
    assert max(len(line) for line in log.splitlines()) < 2000
    assert len(log_lines(server, "command_executed")) == 2
