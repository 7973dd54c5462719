# SPDX-License-Identifier: Apache-2.0
"""Every route, for tests/security/test_matrix.py: who may use it, and how it is asked."""
from webhook_rows import ROWS as WEBHOOK_ROWS

SOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
OPEN, READ, WRITE, SERVER, ADMIN = "open", "read", "write", "server", "admin"


def form(session):
    part = "--b\r\nContent-Disposition: form-data; name="
    return (f'{part}"session_id"\r\n\r\n{session}\r\n'
            f'{part}"file"; filename="up"\r\n\r\nx\r\n--b--\r\n')


class Request:
    """One way to ask: `{session}` and the like in it become names of things that there are."""

    def __init__(self, access, right, path, body=None, other=404, headers=None, fresh=None):
        self.access, self.right, self.path, self.body = access, right, path, body
        self.other, self.headers, self.fresh = other, headers or {}, fresh


S = "/api/sessions/{session}"
V = "?user_id=u"
# Who may, the status for the right one, what is asked. `other`: the status for another tenant.
# `fresh`: what is made anew for this row, because it will be gone.
ROUTES = {
    "POST /create_session": Request(WRITE, 409, "/create_session",
                                    {"user_id": "u", "thread_id": "t"}, other=200),
    "GET /get_session": Request(READ, 200, "/get_session?thread_id=mine"),
    "GET /status/{session_id}": Request(READ, 200, "/status/{session}"),
    "POST /cleanup": Request(WRITE, 200, "/cleanup", {"session_id": "{session}"}, other=200,
                             fresh="session"),
    "POST /execute": Request(WRITE, 200, "/execute",
                             {"session_id": "{session}", "command": "true"}),
    "POST /api/sessions/{session_id}/processes": Request(
        WRITE, 201, S + "/processes", {"command": "true"}),
    "GET /api/sessions/{session_id}/processes": Request(READ, 200, S + "/processes"),
    "GET /api/sessions/{session_id}/processes/{process_id}": Request(
        READ, 200, S + "/processes/{process}"),
    "DELETE /api/sessions/{session_id}/processes/{process_id}": Request(
        WRITE, 200, S + "/processes/{process}", fresh="process"),
    "GET /api/sessions/{session_id}/processes/{process_id}/output": Request(
        READ, 200, S + "/processes/{process}/output?limit=10"),
    "POST /api/sessions/{session_id}/processes/{process_id}/stdin": Request(
        WRITE, 200, S + "/processes/{process}/stdin", {"data": "x\n"}),
    "POST /api/sessions/{session_id}/processes/{process_id}/stdin/close": Request(
        WRITE, 200, S + "/processes/{process}/stdin/close", fresh="process"),
    "POST /api/sessions/{session_id}/processes/{process_id}/resize": Request(
        WRITE, 400, S + "/processes/{process}/resize", {"rows": 50, "cols": 132}),
    "POST /api/sessions/{session_id}/processes/{process_id}/signal": Request(
        WRITE, 200, S + "/processes/{process}/signal", {"signal": "CONT"}),
    "GET /api/sessions/{session_id}/processes/{process_id}/attach": Request(
        WRITE, 101, S + "/processes/{process}/attach", headers=SOCKET),
    "GET /api/sessions/{session_id}/attach": Request(
        WRITE, 101, S + "/attach?start=true", headers=SOCKET),
    "POST /api/sessions/{session_id}/shells": Request(WRITE, 201, S + "/shells", {}),
    "GET /api/sessions/{session_id}/shells": Request(READ, 200, S + "/shells"),
    "GET /api/sessions/{session_id}/shells/{shell_id}": Request(READ, 200, S + "/shells/{shell}"),
    "DELETE /api/sessions/{session_id}/shells/{shell_id}": Request(
        WRITE, 200, S + "/shells/{shell}", fresh="shell"),
    "POST /api/sessions/{session_id}/shells/{shell_id}/run": Request(
        WRITE, 200, S + "/shells/{shell}/run", {"command": "true"}),
    "POST /api/sessions/{session_id}/shells/{shell_id}/interrupt": Request(
        WRITE, 409, S + "/shells/{shell}/interrupt"),
    "POST /upload_file": Request(
        WRITE, 200, "/upload_file", form,
        headers={"Content-Type": "multipart/form-data; boundary=b"}),
    "GET /download_file": Request(READ, 200, "/download_file?session_id={session}&filename=f"),
    "POST /download_file": Request(READ, 200, "/download_file",
                                   {"session_id": "{session}", "filename": "f"}),
    "GET /list_files": Request(READ, 200, "/list_files?session_id={session}"),
    **{f"GET {path}": Request(OPEN, 200, path)
       for path in ("/health", "/healthz", "/readyz", "/openapi.json", "/docs", "/redoc")},
    "GET /cluster/redis": Request(OPEN, 404, "/cluster/redis"),
    "GET /cluster/caller": Request(READ, 404, "/cluster/caller"),
    "POST /cluster/arrivals": Request(OPEN, 404, "/cluster/arrivals", {}),
    "POST /cluster/arrivals/{session_id}": Request(OPEN, 404, "/cluster/arrivals/x", {}),
    "GET /cluster/leaving/{session_id}": Request(OPEN, 404, "/cluster/leaving/x"),
    **{f"{method} /admin/drain": Request(OPEN, 404, "/admin/drain")
       for method in ("POST", "GET", "DELETE")},
    "GET /metrics": Request(SERVER, 200, "/metrics"),
    "GET /api/sessions/{session_id}/files": Request(READ, 200, S + "/files?path=f"),
    "DELETE /api/sessions/{session_id}/files": Request(WRITE, 200, S + "/files?path=gone",
                                                       fresh="file"),
    "GET /api/sessions/{session_id}/files/list": Request(READ, 200, S + "/files/list"),
    "GET /api/sessions/{session_id}/files/content": Request(READ, 200, S + "/files/content?path=f"),
    "PUT /api/sessions/{session_id}/files/content": Request(
        WRITE, 201, S + "/files/content?path={unique}", "new"),
    "POST /api/sessions/{session_id}/files/edit": Request(
        WRITE, 200, S + "/files/edit", {"path": "gone", "old": "hello", "new": "bye"},
        fresh="file"),
    "GET /api/sessions/{session_id}/files/glob": Request(READ, 200, S + "/files/glob?pattern=*"),
    "POST /api/sessions/{session_id}/files/search": Request(
        READ, 200, S + "/files/search", {"pattern": "hello"}),
    "POST /api/sessions/{session_id}/files/mkdir": Request(
        WRITE, 201, S + "/files/mkdir", {"path": "{unique}"}),
    "POST /api/sessions/{session_id}/files/move": Request(
        WRITE, 200, S + "/files/move", {"from": "gone", "to": "{unique}"}, fresh="file"),
    "GET /api/sessions/{session_id}/files/archive": Request(READ, 200, S + "/files/archive"),
    "PUT /api/sessions/{session_id}/files/archive": Request(
        WRITE, 200, S + "/files/archive", "\0" * 1024),
    "POST /api/sessions": Request(WRITE, 200, "/api/sessions",
                                  {"environment": "Python3", "thread_id": "api"}, other=200),
    "GET /api/sessions": Request(READ, 200, "/api/sessions", other=200),
    "GET /api/sessions/{session_id}": Request(READ, 200, S),
    "DELETE /api/sessions/{session_id}": Request(WRITE, 200, S, fresh="session"),
    "POST /api/sessions/{session_id}/tokens": Request(WRITE, 201, S + "/tokens", {}),
    "GET /api/sessions/{session_id}/tools": Request(READ, 200, S + "/tools"),
    "POST /api/sessions/{session_id}/tools/{tool}": Request(
        WRITE, 200, S + "/tools/python_exec", {"parameters": {"file": "f"}}),
    "POST /api/e2b/files": Request(
        WRITE, 200, "/api/e2b/files",
        {"session_id": "{session}", "file_path": "e", "content": "aGVsbG8="}),
    "GET /api/e2b/files/{session_id}": Request(READ, 200, "/api/e2b/files/{session}"),
    "GET /api/e2b/files/{session_id}/{path}": Request(READ, 200, "/api/e2b/files/{session}/f"),
    "GET /api/e2b/url/{session_id}": Request(READ, 200, "/api/e2b/url/{session}"),
    "POST /api/sandbox/start": Request(WRITE, 410, "/api/sandbox/start", other=410),
    "POST /api/sandbox/stop": Request(WRITE, 410, "/api/sandbox/stop", other=410),
    "GET /api/sandbox/status/{container_id}": Request(WRITE, 410, "/api/sandbox/status/x",
                                                      other=410),
    "GET /": Request(OPEN, 200, "/"),
    "GET /api/registry": Request(READ, 200, "/api/registry", other=200),
    "GET /api/registry/{kind}": Request(READ, 200, "/api/registry/agents", other=200),
    "GET /api/registry/{kind}/{name}": Request(
        READ, 200, "/api/registry/environments/Python3", other=200),
    "POST /api/volumes": Request(WRITE, 201, "/api/volumes",
                                 {"name": "{unique}", "user_id": "u", "size_mb": 1}, other=201),
    "GET /api/volumes": Request(READ, 200, "/api/volumes", other=200),
    "GET /api/volumes/{name}": Request(READ, 200, "/api/volumes/vol" + V),
    "DELETE /api/volumes/{name}": Request(WRITE, 200, "/api/volumes/{volume}" + V, fresh="volume"),
    "GET /api/volumes/{name}/files": Request(READ, 200, "/api/volumes/vol/files" + V),
    "DELETE /api/volumes/{name}/files": Request(
        WRITE, 200, "/api/volumes/vol/files" + V + "&path=gone", fresh="volume_file"),
    "GET /api/volumes/{name}/content": Request(
        READ, 200, "/api/volumes/vol/content" + V + "&path=f"),
    "PUT /api/volumes/{name}/content": Request(
        WRITE, 201, "/api/volumes/vol/content" + V + "&path={unique}", "x"),
    "GET /api/volumes/{name}/archive": Request(READ, 200, "/api/volumes/vol/archive" + V),
    "PUT /api/volumes/{name}/archive": Request(WRITE, 200, "/api/volumes/vol/archive" + V,
                                               "\0" * 1024),
    "POST /api/sessions/{session_id}/artifacts": Request(WRITE, 201, S + "/artifacts",
                                                         {"path": "f"}),
    "GET /api/sessions/{session_id}/artifacts": Request(READ, 200, S + "/artifacts"),
    "GET /api/sessions/{session_id}/log": Request(READ, 200, S + "/log"),
    "GET /api/artifacts": Request(READ, 200, "/api/artifacts", other=200),
    "GET /api/artifacts/{artifact_id}": Request(READ, 200, "/api/artifacts/{artifact}"),
    "DELETE /api/artifacts/{artifact_id}": Request(WRITE, 200, "/api/artifacts/{artifact}",
                                                   fresh="artifact"),
    "GET /api/artifacts/{artifact_id}/content": Request(
        READ, 200, "/api/artifacts/{artifact}/content"),
    "POST /api/sessions/{session_id}/code": Request(
        WRITE, 200, S + "/code", {"code": "1", "language": "bash"}),
    "POST /api/e2b/execute": Request(
        WRITE, 200, "/api/e2b/execute",
        {"session_id": "{session}", "code": "true", "language": "bash"}),
    "POST /api/sessions/{session_id}/contexts": Request(
        WRITE, 201, S + "/contexts", {"language": "bash"}),
    "GET /api/sessions/{session_id}/contexts": Request(READ, 200, S + "/contexts"),
    "GET /api/sessions/{session_id}/contexts/{context_id}": Request(
        READ, 200, S + "/contexts/{context}"),
    "DELETE /api/sessions/{session_id}/contexts/{context_id}": Request(
        WRITE, 200, S + "/contexts/{context}", fresh="context"),
    "POST /api/sessions/{session_id}/contexts/{context_id}/restart": Request(
        WRITE, 200, S + "/contexts/{context}/restart"),
    "POST /api/sessions/{session_id}/contexts/{context_id}/interrupt": Request(
        WRITE, 409, S + "/contexts/{context}/interrupt"),
    **{route: Request(*row) for route, row in WEBHOOK_ROWS.items()},
}
