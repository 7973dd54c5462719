# SPDX-License-Identifier: Apache-2.0
"""The registry: what is shipped, what an operator adds, and how a change of the files arrives."""
import datetime
import os
import pathlib
import re
import shutil
import signal

import pytest
from server import wait_until
from shells import open_shell
from test_openapi import assert_described, spec  # noqa: F401

KINDS = ["environments", "agents", "tools", "prompts", "policies"]


@pytest.fixture
def registry(tmp_path):
    """A directory for REGISTRY_DIR that a server without root can read."""
    place = pathlib.Path("/var/tmp") / f"tb-registry-{os.getpid()}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o755)
    yield place
    shutil.rmtree(place)


def write(registry, path, text):
    file = registry / path
    file.parent.mkdir(mode=0o755, exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)


def reload(server, expected):
    before = server.log().count(expected)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.log().count(expected) > before, f"the log says {expected}")


def test_the_samples_are_there_and_as_described(server, spec):  # noqa: F811
    names = assert_described(spec, "getRegistry", server.get("/api/registry"), 200).json
    assert list(names) == KINDS
    assert {"Python3", "Node", "Bash", "python-basic", "e2b-python"} <= set(names["environments"])
    assert {"code_executor", "ml_data_scientist"} <= set(names["agents"])
    for kind in KINDS:
        reply = assert_described(spec, "listRegistry", server.get(f"/api/registry/{kind}"), 200)
        assert [item["name"] for item in reply.json["items"]] == names[kind]
        for name in names[kind]:
            reply = server.get(f"/api/registry/{kind}/{name}")
            assert assert_described(spec, "getRegistryItem", reply, 200).json["name"] == name
            assert reply.json["source"] == "builtin"


def test_what_there_is_not_is_answered_with_what_there_is(server, spec):  # noqa: F811
    reply = server.get("/api/registry/things")
    assert assert_described(spec, "listRegistry", reply, 404).json["known"] == KINDS
    reply = server.get("/api/registry/prompts/nothing")
    assert assert_described(spec, "getRegistryItem", reply, 404).json["known"] == ["default"]
    assert server.get("/api/registry/things/x").status == 404


def test_a_change_arrives_with_SIGHUP(start_server, registry):
    write(registry, "prompts/p.yaml", "name: mine\nsystem_prompt: first\n")
    server = start_server(REGISTRY_DIR=registry)
    assert server.get("/api/registry/prompts/mine").json["system_prompt"] == "first"
    write(registry, "prompts/p.yaml", "name: mine\nsystem_prompt: second\n")
    write(registry, "policies/p.yaml", "name: lister\ncommands: [ls]\nconfine: false\n")
    reload(server, "registry_reloaded")
    item = server.get("/api/registry/prompts/mine").json
    assert (item["system_prompt"], item["source"]) == ("second", "prompts/p.yaml")
    session = server.create(policy="lister")
    assert server.try_execute(session, "cat x").status == 400


def test_a_bad_change_leaves_all_as_it_was_and_says_why(start_server, registry):
    write(registry, "prompts/p.yaml", "name: mine\nsystem_prompt: first\n")
    server = start_server(REGISTRY_DIR=registry)
    write(registry, "prompts/p.yaml", "name: mine\nsystem_prompt: second\n")
    write(registry, "prompts/q.yaml", "name: other\nsistem_prompt: x\n")
    reload(server, "registry_not_reloaded")
    assert "prompts/q.yaml:2: unknown key 'sistem_prompt'" in server.log()
    assert server.get("/api/registry/prompts/mine").json["system_prompt"] == "first"
    assert server.get("/api/registry/prompts/other").status == 404
    assert server.health()["status"] == "healthy"


def test_a_server_does_not_start_with_a_bad_registry_and_tells_all_of_it(start_server, registry):
    write(registry, "environments/a.yaml", "name: a\nresources:\n  memory: lots\n")
    write(registry, "agents/b.yaml", "name: b\nenvironment: nowhere\n")
    server = start_server()
    server.settings["REGISTRY_DIR"] = str(registry)
    server.settings["STATE_DIR"] = server.state_dir + "-2"
    done = server.command("serve")
    assert done.returncode != 0
    assert "environments/a.yaml:3: memory must be a size" in done.stderr
    assert "agents/b.yaml:2: 'nowhere' is none of the environments" in done.stderr


# ---- environments ----

ENVIRONMENT = """name: small
resources: {memory: 64Mi, disk: 32Mi, cpu: 0.5, pids: 32, timeout: 90, command_timeout: 2}
environment: {GREETING: "hello $(id)", HOME: /workspace}
policy: wide
"""


def make(server, **fields):
    reply = server.post("/api/sessions", fields)
    assert reply.status == 200, reply
    return reply.json["session_id"]


def test_a_session_gets_what_its_environment_says(start_server, registry):
    write(registry, "environments/small.yaml", ENVIRONMENT)
    server = start_server(REGISTRY_DIR=registry, DEFAULT_POLICY="strict")
    session = make(server, environment="small")
    status = server.get(f"/status/{session}").json
    assert status["memory_limit_bytes"] == 64 << 20
    assert (status["cpu_limit_percent"], status["policy"]) == (50, "wide")
    assert server.stdout(session, "echo $GREETING; pwd; cd; pwd") == \
        "hello $(id)\n/workspace\n/workspace\n"
    late = server.execute(session, "sleep 60")
    assert late["timed_out"], late
    assert "timed out after 2 s" in late["stderr"]
    full = server.execute(session, "head -c 60M /dev/zero > big", timeout=30)
    assert full["exit_code"] != 0 and "disk" in full["limits_hit"], full
    eaten = server.execute(session, "python3 -c 'bytearray(200 << 20)'", timeout=30)
    assert "memory" in eaten["limits_hit"], eaten
    times = [server.get(f"/api/sessions/{session}").json[key]
             for key in ("last_activity", "expires_at")]
    assert seconds_between(*times) == 90


def test_shells_and_files_of_a_session_are_its_environments_too(start_server, registry):
    write(registry, "environments/small.yaml", ENVIRONMENT)
    server = start_server(REGISTRY_DIR=registry, DEFAULT_POLICY="strict")
    session = make(server, environment="small", policy="open")
    shell = open_shell(server, session)
    assert shell.say("echo $GREETING; cd; pwd") == "hello $(id)\n/workspace\n"
    shell.say("GREETING=changed")
    assert shell.say("echo $GREETING") == "changed\n"
    late = shell.run("sleep 60")
    assert late["timed_out"] and "timed out after 2 s" in late["stderr"], late
    content = f"/api/sessions/{session}/files/content"
    for name in ("a", "b", "c", "d"):
        reply = server.request("PUT", f"{content}?path={name}", bytes(9 << 20))
        if reply.status != 201:
            break
    assert (reply.status, name) == (507, "d"), reply
    assert reply.json["max_workspace_mb"] == 32


def seconds_between(first, second):
    parse = datetime.datetime.fromisoformat
    return (parse(second[:-1]) - parse(first[:-1])).total_seconds()


def test_a_request_says_more_than_its_environment(start_server, registry):
    write(registry, "environments/small.yaml", ENVIRONMENT)
    server = start_server(REGISTRY_DIR=registry)
    session = make(server, environment="small", policy="open", timeout_minutes=5)
    found = server.get(f"/api/sessions/{session}").json
    assert found["policy"] == "open"
    assert seconds_between(found["last_activity"], found["expires_at"]) == 300


def test_environment_and_agent_survive_every_kind_of_restart(start_server, registry):
    write(registry, "environments/small.yaml", ENVIRONMENT)
    write(registry, "agents/a.yaml", "name: a\nenvironment: small\ntools: [execute_python]\n")
    server = start_server(REGISTRY_DIR=registry)
    session = make(server, agent="a", thread_id="t")

    def check():
        found = server.get(f"/api/sessions/{session}").json
        assert (found["environment"], found["agent"]) == ("small", "a")
        assert (found["provider"], found["policy"]) == ("native", "wide")
        assert server.stdout(session, "echo $GREETING") == "hello $(id)\n"
        assert server.get(f"/status/{session}").json["memory_limit_bytes"] == 64 << 20

    check()
    server.restart()
    check()
    server.kill9_keeper()
    server.wait()
    server.restart()
    assert server.get("/api/sessions?state=asleep").json["total"] == 1
    check()  # around its files, with the limits of before
    assert server.execute(session, "head -c 60M /dev/zero > big", timeout=30)["exit_code"] != 0
    # The store is lost: the keeper's label still knows.
    server.terminate()
    shutil.rmtree(pathlib.Path(server.state_dir) / "store")
    server.start()
    check()


def test_an_environment_that_is_gone_leaves_its_sessions_usable(start_server, registry):
    write(registry, "environments/small.yaml", ENVIRONMENT)
    server = start_server(REGISTRY_DIR=registry)
    session = make(server, environment="small")
    (registry / "environments/small.yaml").unlink()
    server.restart()
    assert "environment_unknown" in server.log()
    assert server.stdout(session, "echo ok") == "ok\n"
    reply = server.post("/api/sessions", {"environment": "small"})
    assert reply.status == 400 and "Unknown environment: small" in reply.json["error"]


def test_what_this_machine_can_not_give_is_refused(start_server, registry):
    write(registry, "environments/n.yaml", "name: net\nnetwork: internet\n")
    write(registry, "environments/m.yaml", 'name: mounted\nmounts: ["/no/such:/data"]\n')
    server = start_server(REGISTRY_DIR=registry)
    reply = server.post("/api/sessions", {"environment": "mounted"})
    assert reply.status == 503 and "/no/such can't be mounted" in reply.json["error"], reply
    for name, why in (("net", "no network"),):
        reply = server.post("/api/sessions", {"environment": name})
        assert reply.status == 400 and why in reply.json["error"], reply


def test_an_environment_keeps_a_warm_pool_which_a_reload_changes(start_server, registry):
    write(registry, "environments/small.yaml", ENVIRONMENT + "warm_pool: 2\n")
    server = start_server(REGISTRY_DIR=registry)  # and 1 of the usual kind
    wait_until(lambda: server.health()["pool_available"] == 3, "three are ready")
    make(server, environment="small")
    assert metric(server, "threadbox_pool_hits_total") == 1
    assert metric(server, "threadbox_pool_misses_total") == 0
    wait_until(lambda: server.health()["pool_available"] == 3, "another one was made")
    write(registry, "environments/small.yaml", ENVIRONMENT)
    reload(server, "registry_reloaded")
    wait_until(lambda: server.health()["pool_available"] == 1, "they are gone")
    # What is ready is taken over by the next server.
    write(registry, "environments/small.yaml", ENVIRONMENT + "warm_pool: 1\n")
    reload(server, "registry_reloaded")
    wait_until(lambda: server.health()["pool_available"] == 2, "one more is ready")
    pids = set(server.sandbox_pids())
    server.restart()
    wait_until(lambda: server.health()["pool_available"] == 2, "both are there")
    assert set(server.sandbox_pids()) == pids


def metric(server, name):
    text = server.get("/metrics").body.decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


# ---- tools ----

@pytest.fixture
def run(server):
    session = make(server)

    def tool(name, status=200, **parameters):
        reply = server.post(f"/api/sessions/{session}/tools/{name}", {"parameters": parameters})
        assert reply.status == status, reply
        return reply.json

    tool.session = session
    yield tool
    server.cleanup(session)


def test_tools_run_and_are_as_described(server, spec, run):  # noqa: F811
    place = f"/api/sessions/{run.session}/tools"
    tools = assert_described(spec, "listTools", server.get(place), 200).json["tools"]
    assert "execute_python" in [tool["name"] for tool in tools]
    body = {"parameters": {"code": "print(6 * 7)"}}
    reply = server.post(f"{place}/execute_python", body)
    result = assert_described(spec, "runTool", reply, 200).json
    assert (result["success"], result["result"], result["stdout"]) == (True, 42, "42\n")
    for path, body, status in [
            ("execute_python", {}, 400), ("execute_python", {"parameters": {"code": 5}}, 400),
            ("execute_python", {"parameters": [1]}, 400), ("nothing", {}, 400),
            ("execute_python", {"parameters": {"code": "1"}, "timeout": 0}, 400)]:
        assert_described(spec, "runTool", server.post(f"{place}/{path}", body), status)
    reply = server.post("/api/sessions/nobody/tools/execute_python", {})
    assert_described(spec, "runTool", reply, 404)


def test_a_tool_that_fails_says_why(run):
    result = run("execute_python", code="import sys; print('x', file=sys.stderr); 1/0")
    assert (result["success"], result["exit_code"]) == (False, 1)
    assert result["error"] == "ZeroDivisionError: division by zero"
    assert run("execute_python", code="raise SystemExit(3)")["error"] == \
        "the tool ended with exit code 3"


def test_wrong_parameters_are_all_named(run):
    refused = run("ml_trainer", 400, file=1, features=[], model="magic", other=0)
    assert {(row["parameter"], row["problem"]) for row in refused["problems"]} == {
        ("", '"target" is required'), ("/file", "must be string"),
        ("/features", "must have at least 1 items"),
        ("/model", 'must be one of ["linear","neighbours"]'),
        ("/other", "is not a parameter; known are file, target, features, model, neighbours, "
                   "test_share, seed")}
    assert "known" in run("nothing", 400)


def test_the_shipped_tools_do_what_they_say(server, run):
    assert run("file_operations", operation="write", path="d/a.txt", content="hi\n")["success"]
    assert run("file_operations", operation="read", path="d/a.txt")["result"]["content"] == "hi\n"
    assert run("file_operations", operation="list")["result"]["files"] == [
        "d", "data", "outputs", "src", "tmp"]
    assert run("file_operations", 400, operation="write", path="x")
    missing = run("file_operations", operation="read", path="none")
    assert not missing["success"] and "No such file" in missing["result"]["error"]
    rows = "".join(f"{i},{i % 7},{3 * i - 2 * (i % 7) + 1}\n" for i in range(40))
    run("file_operations", operation="write", path="t.csv", content="a,b,y\n" + rows)
    about = run("data_analysis", file="t.csv", columns=["a"])["result"]
    assert about["rows"] == 40
    assert about["columns"]["a"]["mean"] == 19.5 and about["columns"]["a"]["max"] == 39
    model = run("ml_trainer", file="t.csv", target="y", features=["a", "b"])["result"]
    assert abs(model["coefficients"]["a"] - 3) < 1e-6 and model["test_rows"] == 10
    assert model["r2"] > 0.999
    near = run("ml_trainer", file="t.csv", target="y", features=["a"], model="neighbours")
    assert near["result"]["r2"] > 0.5
    assert not run("ml_trainer", file="t.csv", target="y", features=["z"])["success"]
    run("file_operations", operation="write", path="p.py", content="import sys; print(sys.argv)")
    assert run("python_exec", file="p.py", arguments=["-x", "a b"])["stdout"] == \
        "['p.py', '-x', 'a b']\n"


def test_the_shipped_tools_run_under_the_strict_policy(start_server):
    server = start_server(DEFAULT_POLICY="strict")
    session = make(server, agent="ml_data_scientist")
    place = f"/api/sessions/{session}/tools"
    for tool, parameters in (("execute_python", {"code": "print(1)"}),
                             ("file_operations", {"operation": "list"})):
        reply = server.post(f"{place}/{tool}", {"parameters": parameters})
        assert reply.status == 200 and reply.json["success"], reply


def test_no_value_is_ever_read_by_a_shell(start_server, registry):
    write(registry, "tools/t.yaml", """name: show
command: [printf, "%s|", "--a={{text}}", "{{text}}", "{{list}}", "{{absent}}"]
environment: {TEXT: "{{text}}"}
parameters:
  type: object
  properties:
    text: {type: string}
    list: {type: array, items: {type: string}}
    absent: {type: string}
""")
    write(registry, "tools/e.yaml", """name: env
command: [sh, -c, 'printf %s "$TEXT"']
environment: {TEXT: "{{text}}"}
parameters: {type: object, properties: {text: {type: string}}}
""")
    server = start_server(REGISTRY_DIR=registry)
    session = make(server)
    nasty = "'; touch pwned; echo \"$(touch pwned)`touch pwned` \\ \n ${HOME} -e ä"
    place = f"/api/sessions/{session}/tools"
    body = {"parameters": {"text": nasty, "list": [nasty, "-n"]}}
    shown = server.post(f"{place}/show", body).json["stdout"]
    assert shown == f"--a={nasty}|{nasty}|{nasty}|-n|"
    assert server.post(f"{place}/env", {"parameters": {"text": nasty}}).json["stdout"] == nasty
    listed = server.get(f"/list_files?session_id={session}").json["files"]
    assert sorted(row["name"] for row in listed) == ["data", "outputs", "src", "tmp"]


def test_an_agent_has_only_its_own_tools(server):
    session = make(server, agent="code_executor")
    place = f"/api/sessions/{session}/tools"
    names = [tool["name"] for tool in server.get(place).json["tools"]]
    assert names == ["python_exec", "execute_python"]
    reply = server.post(f"{place}/ml_trainer", {"parameters": {}})
    assert reply.status == 400 and reply.json["known"] == names
    server.cleanup(session)


def test_a_tool_is_held_to_its_time_and_to_the_policy(start_server, registry):
    write(registry, "tools/t.yaml", "name: slow\ncommand: [sleep, '60']\ntimeout: 1\n")
    write(registry, "tools/r.yaml", "name: remove\ncommand: [rm, -r, x]\n")
    write(registry, "tools/n.yaml", "name: net\ncommand: [ls]\nallow_network: true\n")
    server = start_server(REGISTRY_DIR=registry, DEFAULT_POLICY="strict")
    place = f"/api/sessions/{make(server)}/tools"
    late = server.post(f"{place}/slow").json
    assert (late["success"], late["error"]) == (False, "the tool took too long")
    refused = server.post(f"{place}/remove")
    assert refused.status == 400 and "forbidden" in refused.json["error"], refused
    refused = server.post(f"{place}/net")
    assert refused.status == 400 and "needs the network" in refused.json["error"]
