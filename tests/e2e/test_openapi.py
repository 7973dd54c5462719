# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json and docs/api.md say is well formed and true."""
import pathlib
import re
import subprocess
import uuid

import jsonschema
import pytest

MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.md"
OPERATIONS = {"createSession", "getSession", "getStatus", "cleanup", "execute", "startProcess",
              "listProcesses", "getProcess", "endProcess", "readOutput", "writeInput",
              "closeInput", "resizeTerminal", "signalProcess", "attach", "startAndAttach",
              "runCode", "e2bExecute", "createContext", "listContexts", "getContext",
              "deleteContext", "restartContext", "interruptContext",
              "openShell", "listShells", "getShell", "closeShell", "runInShell", "interruptShell",
              "statFile", "removeFile", "listTree", "readFile", "writeFile", "editFile",
              "globFiles", "searchFiles", "makeDirectory", "moveFile", "downloadArchive",
              "uploadArchive", "uploadFile", "downloadFile", "downloadFileByQuery", "listFiles",
              "getHealth", "getLife", "getReadiness",
              "getRegistry", "listRegistry", "getRegistryItem", "makeSession", "listSessions",
              "getApiSession", "deleteSession", "listTools", "runTool", "e2bWriteFile",
              "listDirectory", "e2bReadFile", "getUrl", "getRoot",
              "startSandbox", "stopSandbox", "sandboxStatus",
              "getClusterRedis", "getClusterCaller", "expectSession", "arriveSession",
              "getLeavingFiles", "drainWorker", "getDrain", "stopDraining",
              "createToken", "getMetrics", "getOpenapi", "getDocs", "getRedoc",
              "listDeliveries", "removeDelivery", "replayDelivery",
              "createWebhook", "listWebhooks", "getWebhook", "changeWebhook", "removeWebhook",
              "testWebhook", "replayWebhook", "readAudit",
              "createVolume", "listVolumes", "getVolume", "removeVolume", "listVolumeFiles",
              "removeVolumeFile", "readVolumeFile", "writeVolumeFile", "downloadVolume",
              "fillVolume", "keepArtifact", "listSessionArtifacts", "readSessionLog",
              "listArtifacts", "getArtifact", "removeArtifact", "downloadArtifact"}


@pytest.fixture(scope="module")
def spec(server):
    reply = server.get("/openapi.json")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    return reply.json


def operations(spec):
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def find(spec, operation_id):
    return next(row for row in operations(spec) if row[2]["operationId"] == operation_id)


def resolve(spec, node):
    while "$ref" in node:
        found = spec
        for key in node["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        node = found
    return node


def walk(node, path=""):
    yield path, node
    rows = node.items() if isinstance(node, dict) else \
        enumerate(node) if isinstance(node, list) else ()
    for key, value in rows:
        yield from walk(value, f"{path}/{key}")


def validator(spec, schema):
    """References lead into the whole description, so that is the root of each schema."""
    return jsonschema.Draft202012Validator({**schema, "components": spec["components"]})


def response_of(spec, operation_id, status):
    responses = find(spec, operation_id)[2]["responses"]
    assert str(status) in responses, f"{operation_id} may not answer {status}: {sorted(responses)}"
    return resolve(spec, responses[str(status)])


def assert_described(spec, operation_id, reply, status):
    """The status, type, body and headers of a real answer are those of the description."""
    assert reply.status == status, reply
    described = response_of(spec, operation_id, status)
    kind = reply.headers.get("Content-Type", "").split(";")[0]
    assert kind in described.get("content", {"": None}), (operation_id, kind)
    if kind == "application/json":
        validator(spec, described["content"][kind]["schema"]).validate(reply.json)
    for name, header in described["headers"].items():
        header = resolve(spec, header)
        if header.get("required"):
            assert name in reply.headers, (operation_id, status, name)
        if name in reply.headers and header["schema"].get("type") == "integer":
            assert reply.headers[name].isdigit(), (name, reply.headers[name])
    return reply


# ---- the description itself ----

def test_every_operation_is_described_in_words(spec):
    found = [operation for _, _, operation in operations(spec)]
    assert {o["operationId"] for o in found} == OPERATIONS
    assert len(found) == len(OPERATIONS)
    tags = {tag["name"] for tag in spec["tags"]}
    for operation in found:
        assert operation["summary"] and operation["description"], operation["operationId"]
        assert set(operation["tags"]) <= tags and len(operation["tags"]) == 1
        deprecated = operation["summary"].startswith("Deprecated")
        assert deprecated or {"200", "201", "101"} & set(operation["responses"])


def test_the_frame_is_openapi_31(spec, server):
    assert spec["openapi"] == "3.1.0"
    assert spec["info"]["version"] == server.health()["version"]
    assert spec["servers"] == [{"url": "/"}]
    known = {"openapi", "info", "servers", "tags", "security", "paths", "webhooks",
             "components"}
    assert set(spec) == known
    for path, _, operation in operations(spec):
        assert path.startswith("/")
        assert set(operation) <= {"tags", "operationId", "summary", "description", "parameters",
                                  "requestBody", "responses", "security"}
        for status, response in operation["responses"].items():
            response = resolve(spec, response)
            assert re.fullmatch("[1-5][0-9][0-9]", status)
            assert response["description"]
            assert set(response) <= {"description", "headers", "content"}


def test_every_reference_leads_somewhere_and_everything_is_used(spec):
    used = {node["$ref"] for _, node in walk(spec) if isinstance(node, dict) and "$ref" in node}
    for reference in used:
        assert resolve(spec, {"$ref": reference}), reference
    made = {f"#/components/{kind}/{name}"
            for kind, parts in spec["components"].items() for name in parts}
    used |= {f"#/components/securitySchemes/{name}" for one in spec["security"] for name in one}
    assert made - used <= {"#/components/schemas/File"}, "described, but not used"


def test_parameters_of_a_path_are_those_of_its_pattern(spec):
    for path, _, operation in operations(spec):
        named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), path
        for parameter in operation.get("parameters", []):
            assert parameter["description"]
            assert parameter["in"] != "path" or parameter["required"]


def test_schemas_are_json_schema_and_say_what_each_field_is(spec):
    for path, node in walk(spec):
        if isinstance(node, dict) and path.endswith("/schema"):
            jsonschema.Draft202012Validator.check_schema(node)
    for name, schema in spec["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        for field, part in schema.get("properties", {}).items():
            assert resolve(spec, part).get("description"), (name, field)
        assert set(schema.get("required", [])) <= set(schema.get("properties", {})), name


def test_every_example_fits_its_schema(spec):
    count = 0
    for path, node in walk(spec):
        if isinstance(node, dict) and "schema" in node:
            for example in node.get("examples", {}).values():
                validator(spec, node["schema"]).validate(example["value"])
                count += 1
    for schema in spec["components"]["schemas"].values():
        for example in schema.get("examples", []):
            validator(spec, schema).validate(example)
            count += 1
    assert count > 60


def test_every_refusal_has_error_and_detail_and_every_answer_a_request_id(spec):
    for path, _, operation in operations(spec):
        for status, response in operation["responses"].items():
            response = resolve(spec, response)
            assert "X-Request-Id" in response["headers"], (path, status)
            if status == "503":
                assert "Retry-After" in response["headers"], path
            if status >= "400" and (path, status) != ("/create_session", "409"):
                schema = resolve(spec, response["content"]["application/json"]["schema"])
                assert {"error", "detail"} <= set(schema["required"]), (path, status)


# ---- is it true? ----

@pytest.mark.parametrize("body", [None, {}, {"user_id": "u", "thread_id": "", "policy": "strict"}])
def test_created_sessions_are_as_described(server, spec, body):
    reply = server.post("/create_session", body)
    assert_described(spec, "createSession", reply, 200)
    server.cleanup(reply.json["session_id"])


def test_an_existing_session_is_as_described(server, spec):
    body = {"thread_id": f"openapi-{uuid.uuid4()}", "timeout_minutes": 1.5}
    server.create(body["thread_id"])
    reply = assert_described(spec, "createSession", server.post("/create_session", body), 409)
    server.cleanup(reply.json["session_id"])


def test_a_full_server_is_as_described(start_server, spec):
    small = start_server(POOL_SIZE=0, MAX_POOL_SIZE=1)
    small.create("a")
    body = {"thread_id": "b"}
    assert_described(spec, "createSession", small.post("/create_session", body), 503)


@pytest.mark.parametrize("name,value", [("thread_id", "x" * 513), ("user_id", "a\nb"),
                                        ("timeout_minutes", 0), ("timeout_minutes", 10081),
                                        ("thread_id", 5), ("timeout_minutes", "30")])
def test_what_the_server_refuses_the_schema_refuses(server, spec, name, value):
    body = {name: value}
    schema = spec["components"]["schemas"]["CreateSession"]
    assert not validator(spec, schema).is_valid(body)
    assert_described(spec, "createSession", server.post("/create_session", body), 400)


@pytest.mark.parametrize("fields", [
    {"command": "echo hello; echo no >&2"}, {"command": "exit 7"}, {"command": "kill -9 $$"},
    {"command": "sleep 60", "timeout": 0.2},
    {"command": "cat; pwd; echo $A", "stdin": "in", "cwd": "/tmp", "env": {"A": "1"}}])
def test_commands_are_as_described(server, spec, fields):
    # Processes are killed here, which the strict policy would not allow.
    session = server.create(policy="open")
    body = {"session_id": session, **fields}
    validator(spec, spec["components"]["schemas"]["Execute"]).validate(body)
    assert_described(spec, "execute", server.post("/execute", body), 200)
    server.cleanup(session)


@pytest.mark.parametrize("status,fields", [
    (400, {"command": ""}), (400, {"command": 5}), (400, {"timeout": 0}), (400, {"timeout": 86401}),
    (400, {"env": {"A": 1}}), (400, {"session_id": None}), (400, {"cwd": []}), (400, {"stream": 1}),
    (404, {"session_id": "nobody"})])
def test_refused_commands_are_as_described(server, spec, session, status, fields):
    body = {"session_id": session, "command": "true", **fields}
    assert_described(spec, "execute", server.post("/execute", body), status)
    if status == 400:
        assert not validator(spec, spec["components"]["schemas"]["Execute"]).is_valid(body)


def test_what_the_policy_refuses_is_as_described(server, spec):
    session = server.post("/create_session", {"policy": "strict"}).json["session_id"]
    reply = server.try_execute(session, "ls; rm -r x")
    server.cleanup(session)
    assert_described(spec, "execute", reply, 400)
    assert {"command", "forbidden_pattern", "position"} <= set(reply.json)


@pytest.mark.parametrize("body,headers,status", [
    ("{", {}, 400), ("x" * (17 << 20), {}, 413),
    ("{}", {"Origin": "http://evil.example", "Content-Type": "text/plain"}, 415)])
def test_bad_bodies_are_as_described(server, spec, body, headers, status):
    for operation in ("execute", "cleanup", "createSession"):
        reply = server.post(find(spec, operation)[0], body, headers=headers)
        assert_described(spec, operation, reply, status)


def test_processes_are_as_described(server, spec, session):
    number = server.execute(session, "echo hello")["process_id"]
    base = f"/api/sessions/{session}/processes"
    assert_described(spec, "listProcesses", server.get(base), 200)
    assert_described(spec, "getProcess", server.get(f"{base}/{number}"), 200)
    page = assert_described(spec, "readOutput", server.get(f"{base}/{number}/output"), 200)
    assert {"X-Output-Offset", "X-Output-Total", "X-Process-State"} <= set(page.headers)
    for operation, path, status in [
            ("listProcesses", "/api/sessions/nobody/processes", 404),
            ("getProcess", f"{base}/99", 404), ("getProcess", f"{base}/x", 400),
            ("readOutput", f"{base}/{number}/output?stream=both", 400),
            ("readOutput", f"{base}/99/output", 404)]:
        assert_described(spec, operation, server.get(path), status)


def test_cleanup_and_the_server_are_as_described(server, spec):
    gone = {"session_id": "nobody"}
    assert_described(spec, "cleanup", server.post("/cleanup", gone), 200)
    assert_described(spec, "cleanup", server.post("/cleanup", {}), 400)
    assert_described(spec, "getHealth", server.get("/health"), 200)
    assert_described(spec, "getLife", server.get("/healthz"), 200)
    assert_described(spec, "getReadiness", server.get("/readyz"), 200)
    for operation in ("getOpenapi", "getDocs", "getRedoc"):
        path = find(spec, operation)[0]
        reply = assert_described(spec, operation, server.get(path), 200)
        known = {"If-None-Match": reply.headers["ETag"]}
        again = server.get(path, headers=known)
        assert (again.status, again.body) == (304, b"")


def test_metrics_are_as_described(server, spec):
    assert_described(spec, "getMetrics", server.get("/metrics"), 200)


def test_finding_a_session_is_as_described(server, spec):
    thread = f"openapi-{uuid.uuid4()}"
    session = server.create(thread)
    path = f"/get_session?thread_id={thread}"
    assert_described(spec, "getSession", server.get(path), 200)
    assert_described(spec, "getSession", server.get("/get_session"), 400)
    server.cleanup(session)
    assert_described(spec, "getSession", server.get(path), 404)


def test_the_status_of_a_session_is_as_described(server, spec, session):
    assert_described(spec, "getStatus", server.get(f"/status/{session}"), 200)
    assert_described(spec, "getStatus", server.get("/status/nobody"), 404)


def form(fields, name=None, content=b""):
    """(body, headers) of a multipart form as clients send it."""
    parts = [f'--cut\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
             for key, value in fields.items()]
    if name is not None:
        parts.append(b'--cut\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n'
                     b"%s\r\n" % (name.encode(), content))
    return b"".join(parts) + b"--cut--\r\n", {"Content-Type": "multipart/form-data; boundary=cut"}


def upload(server, fields, *file):
    body, headers = form(fields, *file)
    return server.post("/upload_file", body, headers=headers)


def test_files_are_as_described(server, spec, session):
    mine = {"session_id": session}
    assert_described(spec, "uploadFile", upload(server, mine, "d/a.txt", b"0123456789"), 200)
    wanted = {**mine, "filename": "d/a.txt"}
    whole = assert_described(spec, "downloadFile", server.post("/download_file", wanted), 200)
    assert whole.body == b"0123456789"
    assert {"Content-Disposition", "ETag"} <= set(whole.headers)
    part = server.post("/download_file", wanted, headers={"Range": "bytes=2-4"})
    assert assert_described(spec, "downloadFile", part, 206).body == b"234"
    listed = assert_described(spec, "listFiles", server.get(f"/list_files?session_id={session}"),
                              200)
    assert [row["name"] for row in listed.json["files"]] == ["d"]


@pytest.mark.parametrize("status,fields,file", [
    (400, {}, ("a", b"x")), (400, {"session_id": "SESSION"}, ()),
    (400, {"session_id": "SESSION"}, ("../a", b"x")), (404, {"session_id": "nobody"}, ("a", b"x"))])
def test_refused_uploads_are_as_described(server, spec, session, status, fields, file):
    fields = {key: session if value == "SESSION" else value for key, value in fields.items()}
    assert_described(spec, "uploadFile", upload(server, fields, *file), status)


def test_uploads_beyond_a_limit_are_as_described(start_server, spec):
    small = start_server(MAX_FILE_SIZE_MB=1, MAX_TOTAL_FILES=1)
    mine = {"session_id": small.create()}
    assert_described(spec, "uploadFile", upload(small, mine, "big", b"x" * (2 << 20)), 413)
    assert_described(spec, "uploadFile", upload(small, mine, "one", b"x"), 200)
    assert_described(spec, "uploadFile", upload(small, mine, "two", b"x"), 507)


@pytest.mark.parametrize("operation,status,fields", [
    ("downloadFile", 400, {"filename": None}), ("downloadFile", 400, {"filename": "../x"}),
    ("downloadFile", 400, {"filename": "/etc/passwd"}), ("downloadFile", 404, {"filename": "x"}),
    ("downloadFile", 404, {"session_id": "nobody", "filename": "x"})])
def test_refused_downloads_are_as_described(server, spec, session, operation, status, fields):
    body = {"session_id": session, **fields}
    assert_described(spec, operation, server.post("/download_file", body), status)


def test_refused_lists_are_as_described(server, spec):
    assert_described(spec, "listFiles", server.get("/list_files"), 400)
    assert_described(spec, "listFiles", server.get("/list_files?session_id=nobody"), 404)


def test_every_answer_has_a_request_id(server):
    for path in ("/health", "/docs", "/nothing"):
        assert server.get(path).headers["X-Request-Id"]


def test_the_lines_of_the_manual_work(server, tmp_path):
    """Every block of docs/api.md in its order, as a reader would paste them."""
    text = MANUAL.read_text()
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M))
    script = script.replace("http://127.0.0.1:5000", f"http://127.0.0.1:{server.port}")
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert '"error":"' not in done.stdout, done.stdout
    assert '"stdout":"hello\\n"' in done.stdout and '"cleaned_up"' in done.stdout
    assert "event: exit" in done.stdout and "hello from outside" in done.stdout
    assert (tmp_path / "copy.csv").read_text() == "a,b\n1,2\n"
