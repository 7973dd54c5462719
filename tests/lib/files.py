# SPDX-License-Identifier: Apache-2.0
"""Files over HTTP, whole or one piece at a time, by clients that do as they please."""
import contextlib
import json
import os
import socket
import urllib.parse

from server import read_text

BOUNDARY = "----------------------------boundary"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
END = f"\r\n--{BOUNDARY}--\r\n".encode()


def part(name, content, filename=None):
    """A part without its end: CR LF and the next part follow, or END."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"'
    if filename is not None:
        head = head.encode() + b'; filename="' + os.fsencode(filename) + b'"'
    if isinstance(head, str):
        head = head.encode()
    return head + b"\r\n\r\n" + (content.encode() if isinstance(content, str) else content)


def form(*parts):
    return b"\r\n".join(parts) + END


def upload_form(session, name, content, **fields):
    more = [part(field, value) for field, value in fields.items()]
    return form(part("session_id", session), *more, part("file", content, name))


def send_form(server, body, **options):
    return server.request("POST", "/upload_file", body, FORM, **options)


def upload(server, session, name, content, **fields):
    return send_form(server, upload_form(session, name, content, **fields))


def uploaded(server, session, name, content, **fields):
    reply = upload(server, session, name, content, **fields)
    assert reply.status == 200, reply
    return reply.json


def download(server, session, name, **headers):
    body = json.dumps({"session_id": session, "filename": name})
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return server.post("/download_file", body,
                       headers={"Content-Type": "application/json", **headers})


def query(**fields):
    return urllib.parse.urlencode(fields)


def listing(server, session, **fields):
    reply = server.get("/list_files?" + query(session_id=session, **fields))
    assert reply.status == 200, reply
    return reply.json


def names(server, session, **fields):
    return sorted(file["name"] for file in listing(server, session, **fields)["files"])


def everything(server, session):
    """Every name below the workspace, hidden ones too, as the tenant sees it."""
    return server.stdout(session, "find . -mindepth 1 | sort").split("\n")[:-1]


class Raw:
    """A connection whose bytes the test writes and reads itself."""

    def __init__(self, server, window=None):
        self.socket = socket.socket()
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", server.port))

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def begin_upload(self, session, name, length=None, before=b""):
        """Everything up to the file's first byte. Without `length` of the file: chunked."""
        head = part("session_id", session) + b"\r\n" + before + part("file", b"", name)
        framing = "Transfer-Encoding: chunked"
        if length is not None:
            framing = f"Content-Length: {len(head) + length + len(END)}"
        self.send(f"POST /upload_file HTTP/1.1\r\nHost: x\r\n{framing}\r\n"
                  f"Content-Type: {FORM['Content-Type']}\r\n\r\n")
        return self.send(head) if length is not None else self.chunk(head)

    def chunk(self, data):
        return self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end_upload(self):
        return self.send(END)

    def begin_download(self, session, name):
        target = "/download_file?" + query(session_id=session, filename=name)
        return self.send(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    def read(self):
        """To the end of the connection; empty when it broke."""
        parts = []
        with contextlib.suppress(ConnectionError):
            while data := self.socket.recv(1 << 16):
                parts.append(data)
        return b"".join(parts)

    def read_head(self):
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.socket.recv(1 << 12)
            assert more, data
            data += more
        head, _, self.begun = data.partition(b"\r\n\r\n")
        return head.decode()

    def status(self):
        return int(self.read_head().split()[1])

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


def descriptors(pid):
    """What a process has open, but sockets of clients that come and go."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def resident(pid):
    """Bytes."""
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0
