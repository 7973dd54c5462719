# SPDX-License-Identifier: Apache-2.0
"""The plainest HTTP client there is, the same for us and for the others: one kept connection,
blocking calls, a few microseconds of its own."""
import json
import socket

PIECE = 256 << 10


class Answer(Exception):
    """One that is not 2xx."""


class Client:
    """`address` is a port on 127.0.0.1, or the path of a Unix socket."""

    def __init__(self, address, seconds=120):
        self.address, self.seconds = address, seconds
        self.socket, self.rest = None, b""

    def connect(self):
        if isinstance(self.address, int):
            self.socket = socket.create_connection(("127.0.0.1", self.address), self.seconds)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(self.seconds)
            self.socket.connect(self.address)
        self.rest = b""

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def receive(self):
        part = self.socket.recv(PIECE)
        if not part:
            raise ConnectionError("the server closed the connection")
        return part

    def head(self):
        """The status line and headers in lower case."""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.receive()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        return head.lower()

    def take(self, size):
        while len(self.rest) < size:
            self.rest += self.receive()
        body, self.rest = self.rest[:size], self.rest[size:]
        return body

    def chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self.rest:
                self.rest += self.receive()
            line, self.rest = self.rest.split(b"\r\n", 1)
            size = int(line, 16)
            body += self.take(size + 2)[:size]
            if size == 0:
                return body

    def until_end(self):
        body = self.rest
        while part := self.socket.recv(PIECE):
            body += part
        self.close()
        return body

    def body(self, head):
        if b"\r\ncontent-length:" in head:
            return self.take(int(head.split(b"\r\ncontent-length:", 1)[1].split(b"\r\n", 1)[0]))
        if b"\r\ntransfer-encoding: chunked" in head:
            return self.chunks()
        if head[9:12] in (b"204", b"304"):
            return b""
        return self.until_end()

    def send(self, method, path, body, content):
        if not self.socket:
            self.connect()
        head = (f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {content}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        if len(body) < PIECE:
            self.socket.sendall(head + body)
        else:
            self.socket.sendall(head)
            self.socket.sendall(body)

    def request(self, method, path, body=b"", content="application/json"):
        self.send(method, path, body, content)
        head = self.head()
        answer = self.body(head)
        if head[9:10] != b"2":
            raise Answer(f"{method} {path}: {head[:40].decode()} {answer[:500].decode()}")
        return answer

    def post(self, path, fields=None):
        return json.loads(self.request("POST", path, json.dumps(fields or {}).encode()) or b"{}")

    def get(self, path):
        return json.loads(self.request("GET", path))

    def drain(self, method, path, body, size):
        """A download that is thrown away as it comes; fails when it has another size."""
        self.send(method, path, body, "application/json")
        head = self.head()
        length = int(head.split(b"\r\ncontent-length:", 1)[1].split(b"\r\n", 1)[0])
        if head[9:12] != b"200" or length != size:
            raise Answer(f"{method} {path}: {head[:40].decode()} {length} bytes")
        left, buffer = size - len(self.rest), bytearray(PIECE)
        while left > 0:
            got = self.socket.recv_into(buffer, min(left, PIECE))
            if got == 0:
                raise ConnectionError("the server closed the connection")
            left -= got
        self.rest = b""


def form(session, name, data):
    """The body of an upload, and its content type."""
    before = (f"--bench\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n{session}\r\n"
              f"--bench\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n"
              "Content-Type: application/octet-stream\r\n\r\n").encode()
    return before + data + b"\r\n--bench--\r\n", "multipart/form-data; boundary=bench"


class Threadbox(Client):
    """What the rows need of a server; also of one that speaks as the seeds' do."""

    def create(self, **fields):
        return self.post("/create_session", fields)["session_id"]

    def execute(self, session, command="true"):
        told = self.post("/execute", {"session_id": session, "command": command})
        if told["exit_code"] != 0:
            raise Answer(f"{command}: {told}")
        return told

    def cleanup(self, session):
        self.post("/cleanup", {"session_id": session})

    def once(self):
        """A session for one command."""
        session = self.create()
        self.execute(session)
        self.cleanup(session)

    def upload(self, body, content, size):
        """`body` and `content` of form(): they are made before the clock runs."""
        told = json.loads(self.request("POST", "/upload_file", body, content))
        if told["size_bytes"] != size:
            raise Answer(f"an upload was cut: {told}")

    def download(self, session, name, size):
        asked = json.dumps({"session_id": session, "filename": name}).encode()
        self.drain("POST", "/download_file", asked, size)

    def list_files(self, session, count):
        told = self.get(f"/list_files?session_id={session}")
        if told["total_files"] != count:
            raise Answer(f"a listing was cut: {told}")
