# SPDX-License-Identifier: Apache-2.0
"""A server that speaks E2B's protocol over TLS, control plane and sandboxes, as far as a provider
needs it. It runs commands for real (e2b_box.py), and fails as the real one does when it is told."""
import base64
import contextlib
import http.server
import json
import os
import pathlib
import queue
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time
import urllib.parse
import uuid

from certificates import Certificates  # noqa: F401 (for who imports this)
from e2b_box import Box, Refused
from server import PLACE, Server, wait_until

KEY = "e2b_0123456789abcdef"
STATUS = {"invalid_argument": 400, "unauthenticated": 401, "not_found": 404, "internal": 500,
          "already_exists": 409, "resource_exhausted": 429, "unavailable": 503}


class Failure:
    """How requests whose path has `path` in it go wrong; the first `after` of them are fine."""

    def __init__(self, kind, path="", times=1, after=0, **how):
        self.kind, self.path, self.times, self.after, self.how = kind, path, times, after, how
        self.go = threading.Event()  # what is slow waits for it

    def hits(self, path):
        if self.path not in path or self.times == 0:
            return False
        self.after -= 1
        if self.after >= 0:
            return False
        self.times -= 1
        return True


class E2bServer:
    def __init__(self, certificates, names="DNS:localhost,IP:127.0.0.1", expired=False):
        self.certificates = certificates
        self.dir = tempfile.mkdtemp(prefix="e2b-", dir=PLACE)
        os.chmod(self.dir, 0o755)
        self.boxes, self.facts, self.failures, self.asked = {}, {}, [], []
        self.connections, self.lock = 0, threading.Lock()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificates.make(names, expired))
        outer = self

        class Handler(E2bHandler):
            cloud = outer

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def get_request(self):
                connection, address = super().get_request()
                outer.connections += 1
                return context.wrap_socket(connection, server_side=True,
                                           do_handshake_on_connect=False), address

            def handle_error(self, *_):
                pass  # a client that does not trust us goes away

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"https://localhost:{self.listener.server_address[1]}"
        self.thread = threading.Thread(target=self.listener.serve_forever, args=(0.05,))
        self.thread.start()

    def settings(self, **more):
        return {"E2B_API_KEY": KEY, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url,
                "E2B_CA_FILE": self.certificates.authority, "SANDBOX_PROVIDER": "e2b", **more}

    def fail(self, kind, path="", **how):
        failure = Failure(kind, path, **how)
        with self.lock:
            self.failures.append(failure)
        return failure

    def failure_of(self, path):
        with self.lock:
            return next((one for one in self.failures if one.hits(path)), None)

    def count(self, method, path):
        with self.lock:
            return sum(1 for one in self.asked if one[0] == method and path in one[1])

    def create(self, request):
        if request["templateID"] not in ("base", "code-interpreter-v1"):
            raise Refused("not_found", f"template '{request['templateID']}' not found")
        name = "i" + uuid.uuid4().hex[:19]
        box = Box(name, self.dir)
        with self.lock:
            self.boxes[name] = box
            self.facts[name] = {"templateID": request["templateID"], "sandboxID": name,
                                "clientID": "tests", "envdVersion": "0.6.13",
                                "envdAccessToken": uuid.uuid4().hex, "domain": None,
                                "metadata": request.get("metadata", {}),
                                "timeout": request["timeout"], "state": "running"}
        return self.facts[name]

    def end(self, name):
        with self.lock:
            box = self.boxes.pop(name, None)
        if box:
            box.remove()
        return box is not None

    def only_box(self):
        (box,) = self.boxes.values()
        return box

    def remove(self):
        for failure in self.failures:
            failure.go.set()
        self.listener.shutdown()
        self.listener.server_close()
        self.thread.join()
        for name in list(self.boxes):
            self.end(name)
        shutil.rmtree(self.dir, ignore_errors=True)


class E2bHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud = None

    def log_message(self, *_):
        pass

    # ---- answers ----

    def answer(self, status, body=None, content="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        data = b"" if body is None else data
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", content)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def abort(self):
        """As a machine that is gone: no good-bye."""
        self.close_connection = True
        raw = self.connection
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket.shutdown(raw, socket.SHUT_RDWR)

    def fail(self, failure):
        """True: nothing else is answered."""
        how = failure.how
        if failure.kind == "status":
            usual = {"code": how["status"], "message": "told to"}
            self.answer(how["status"], how.get("body", usual), headers=how.get("headers", ()))
        elif failure.kind == "slow":
            failure.go.wait()
            return False
        elif failure.kind == "abort":
            self.abort()
        elif failure.kind == "garbage":
            self.wfile.write(b"\x16\x03 no HTTP at all\r\n\r\n")
            self.close_connection = True
        elif failure.kind == "type":
            self.answer(200, b"<html>a captive portal</html>", "text/html")
        else:
            return False
        return True

    def do_GET(self):
        self.handle_any("GET")

    def do_POST(self):
        self.handle_any("POST")

    def do_DELETE(self):
        self.handle_any("DELETE")

    def handle_any(self, method):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        with self.cloud.lock:
            self.cloud.asked.append((method, self.path, time.monotonic()))
        self.failure = self.cloud.failure_of(f"{method} {self.path}")
        if self.failure and self.fail(self.failure):
            return
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        try:
            if self.headers.get("E2b-Sandbox-Id"):
                self.in_sandbox(method, url.path, query, body)
            else:
                self.control(method, url.path, query, json.loads(body or b"{}"))
        except Refused as refused:
            self.answer(STATUS[refused.code], {"code": refused.code, "message": refused.message})
        except OSError:
            self.close_connection = True

    # ---- the control plane ----

    def control(self, method, path, query, body):
        if self.headers.get("X-API-KEY") != KEY:
            return self.answer(401, {"code": 401, "message": "Invalid API key"})
        parts = path.strip("/").split("/")
        if parts[0] == "v2":
            parts = parts[1:]
        if parts == ["sandboxes"] and method == "POST":
            try:
                return self.answer(201, self.cloud.create(body))
            except Refused as refused:
                return self.answer(404, {"code": 404, "message": refused.message})
        if parts == ["sandboxes"]:
            return self.answer(200, self.listed(query))
        name = parts[1]
        if name not in self.cloud.boxes:
            return self.answer(404, {"code": 404, "message": f"sandbox {name} not found"})
        if method == "DELETE":
            self.cloud.end(name)
            return self.answer(204)
        if parts[2] == "connect":
            return self.answer(200, self.cloud.facts[name])
        self.cloud.facts[name]["timeout"] = body["timeout"]
        return self.answer(204)

    def listed(self, query):
        wanted = dict(urllib.parse.parse_qsl(query.get("metadata", "")))
        return [{**facts} for name, facts in self.cloud.facts.items() if name in self.cloud.boxes
                and all(facts["metadata"].get(key) == value for key, value in wanted.items())]

    # ---- sandboxes ----

    def in_sandbox(self, method, path, query, body):
        name = self.headers["E2b-Sandbox-Id"]
        box = self.cloud.boxes.get(name)
        if not box:
            return self.answer(502, {"sandboxId": name, "message": "The sandbox was not found",
                                     "code": 502})
        if path == "/health":
            return self.answer(204)
        if self.headers.get("X-Access-Token") != self.cloud.facts[name]["envdAccessToken"]:
            raise Refused("unauthenticated", "invalid access token")
        if path == "/files":
            return self.files(method, box, query["path"], body)
        kind = self.headers["Content-Type"]
        user = "user"
        if authorization := self.headers.get("Authorization"):
            user = base64.b64decode(authorization.split()[1]).decode().rstrip(":")
        if kind == "application/connect+json":
            (length,) = struct.unpack(">I", body[1:5])
            assert len(body) == length + 5
            return self.stream(box, path, json.loads(body[5:]), user)
        return self.answer(200, self.call(box, path, json.loads(body)))

    def files(self, method, box, path, body):
        place = box.path(path)
        if method == "POST":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(body)
            os.chown(place, 1000, 1000)
            return self.answer(200, [{"name": place.name, "path": path, "type": "file"}])
        if not place.is_file():
            raise Refused("not_found", f"path '{path}' does not exist")
        data = place.read_bytes()
        if span := self.headers.get("Range"):
            start = int(span.removeprefix("bytes=").rstrip("-"))
            return self.answer(206, data[start:], "application/octet-stream")
        return self.answer(200, data, "application/octet-stream")

    def call(self, box, path, request):
        method = path.removeprefix("/process.Process/")
        process = box.find(request["process"])
        if method == "SendInput":
            (data,) = request["input"].values()
            process.write(base64.b64decode(data))
        elif method == "CloseStdin":
            process.close_input()
        elif method == "SendSignal":
            process.signal({"SIGNAL_SIGKILL": 9, "SIGNAL_SIGTERM": 15}[request["signal"]])
        elif method == "Update":
            process.resize(request["pty"]["size"])
        else:
            raise Refused("not_found", f"no such method: {path}")
        return {}

    def stream(self, box, path, request, user):
        self.send_response(200)
        self.send_header("Content-Type", "application/connect+json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            process = (box.start(request, user) if path.endswith("/Start")
                       else box.find(request["process"]))
        except Refused as refused:
            self.frame({"error": {"code": refused.code, "message": refused.message}}, 2)
            return self.chunk(b"")
        listener = process.listen()
        if path.endswith("/Start"):
            process.begin()
        try:
            self.pass_on(process, listener, int(self.headers.get("Keepalive-Ping-Interval", 90)))
        finally:
            process.leave(listener)

    def pass_on(self, process, listener, ping):
        failure = self.failure
        sent = 0
        while failure and failure.kind == "chatter":  # until nobody listens
            self.frame({"event": {"data": {"stderr": "eHh4"}}})
        while True:
            try:
                event = listener.get(timeout=ping)
            except queue.Empty:
                event = {"keepalive": {}}
            if "gone" in event:
                return self.abort()
            if failure and failure.kind in ("cut", "half", "nonsense") and "data" in event:
                sent += 1
            if failure and sent > failure.how.get("events", 0):
                return self.break_off(failure, event)
            self.frame({"event": event})
            if "end" in event:
                self.frame({}, 2)
                return self.chunk(b"")

    def break_off(self, failure, event):
        """In the middle of it; the event is lost."""
        if failure.kind == "half":
            message = json.dumps({"event": event}).encode()
            self.chunk(struct.pack(">BI", 0, len(message)) + message[:len(message) // 2])
        elif failure.kind == "nonsense":
            self.chunk(b"\x07\xff\xff\xff\xffnonsense")
        return self.abort()

    def frame(self, message, flags=0):
        data = json.dumps(message).encode()
        self.chunk(struct.pack(">BI", flags, len(data)) + data)

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


class CloudServer(Server):
    """A server whose sandboxes are those of `cloud`."""

    def __init__(self, cloud, **settings):
        super().__init__(**cloud.settings(**settings))
        self.cloud = cloud

    def tag(self):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"{self.state_dir}/e2b/tag").read_text()
        return ""

    def machines(self):
        """Sandboxes of this server by their sessions, whatever it believes."""
        tag = self.tag()
        return {facts["metadata"]["threadbox_session"]: name
                for name, facts in list(self.cloud.facts.items())
                if name in self.cloud.boxes and facts["metadata"].get("threadbox") == tag}

    def remove(self):
        left = self.machines().values()
        super().remove()
        for name in left:
            self.cloud.end(name)

    def wait_machines(self, count):
        wait_until(lambda: len(self.machines()) == count, lambda: f"{count}: {self.machines()}")
