# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client for tests: says what it is told, malformed or not. Standard library only.

    with WebSocket("127.0.0.1", port, "/api/...", headers={"Origin": "..."}) as socket:
        socket.send_text("hello")
        socket.receive()       # ("text", "hello"), ("binary", b"..."), ("close", 1000, "")
        socket.send_raw(frame(TEXT, b"x", masked=False))   # what no client may send

A handshake that is refused raises Refused, with `status`, `headers` and `body`.
"""
import base64
import hashlib
import os
import socket
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PATIENCE = 10 * float(os.environ.get("THREADBOX_PATIENCE", "1"))


class Refused(Exception):
    def __init__(self, status, headers, body):
        super().__init__(f"refused with {status}: {body[:300]!r}")
        self.status, self.headers, self.body = status, headers, body


def xor(data, mask):
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def frame(opcode, payload=b"", last=True, masked=True, reserved=0, length=None, form=None,
          mask=None):
    """The bytes of a frame. `length` may lie; `form` (of 7, 16 or 64 bits) is the shortest one
    unless told."""
    length = len(payload) if length is None else length
    form = form or (7 if length < 126 else 16 if length < 65536 else 64)
    bit = 0x80 if masked else 0
    head = bytes([(0x80 if last else 0) | reserved << 4 | opcode])
    head += (bytes([bit | length]) if form == 7 else
             bytes([bit | 126]) + struct.pack(">H", length) if form == 16 else
             bytes([bit | 127]) + struct.pack(">Q", length))
    if not masked:
        return head + payload
    mask = mask or os.urandom(4)
    return head + mask + xor(payload, mask)


def close_payload(code, reason=""):
    return struct.pack(">H", code) + reason.encode()


class WebSocket:
    def __init__(self, host, port, target, headers=None, protocols=(), timeout=PATIENCE,
                 replace=None, tls=None):
        """`headers` are added; `replace` takes the place of headers of the handshake (None: left
        out). `tls` is an SSLContext."""
        self.buffer = b""
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        key = base64.b64encode(os.urandom(16)).decode()
        fields = {"Host": f"{host}:{port}", "Upgrade": "websocket", "Connection": "Upgrade",
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        if protocols:
            fields["Sec-WebSocket-Protocol"] = ", ".join(protocols)
        fields |= headers or {}
        fields |= replace or {}
        lines = [f"GET {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items() if value is not None]
        try:
            self.socket.sendall("\r\n".join(lines + ["", ""]).encode("latin-1"))
            self._read_answer(key)
        except BaseException:
            self.socket.close()
            raise

    def _read_answer(self, key):
        head = self._read_until(b"\r\n\r\n").decode("latin-1")
        first, *rest = head[:-4].split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.strip().lower(): value.strip()
                        for name, value in (line.split(":", 1) for line in rest)}
        if self.status != 101:
            size = int(self.headers.get("content-length", 0))
            raise Refused(self.status, self.headers, self._read_exactly(size))
        wanted = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()
        assert self.headers["sec-websocket-accept"] == wanted, head
        assert self.headers["upgrade"].lower() == "websocket", head
        self.protocol = self.headers.get("sec-websocket-protocol")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.disconnect()

    def disconnect(self):
        """Vanishes, without a close frame."""
        self.socket.close()

    def reset(self):
        """The same, with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _fill(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def _read_until(self, mark):
        while mark not in self.buffer:
            self._fill()
        end = self.buffer.index(mark) + len(mark)
        return self._take(end)

    def _read_exactly(self, size):
        while len(self.buffer) < size:
            self._fill()
        return self._take(size)

    def _take(self, size):
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def send_raw(self, data):
        self.socket.sendall(data)

    def send_text(self, text):
        self.send_raw(frame(TEXT, text.encode()))

    def send_binary(self, data):
        self.send_raw(frame(BINARY, data))

    def ping(self, payload=b""):
        self.send_raw(frame(PING, payload))

    def close(self, code=1000, reason=""):
        """Sends a close frame and returns the code that comes back."""
        self.send_raw(frame(CLOSE, close_payload(code, reason)))
        while True:
            kind, *rest = self.receive()
            if kind == "close":
                return rest[0]

    def receive_frame(self):
        """(opcode, payload) of the next frame, which must be one that a server may send whole."""
        first, second = self._read_exactly(2)
        assert first & 0x70 == 0 and second & 0x80 == 0, (first, second)
        assert first & 0x80, "our server sends no fragments"
        size = second & 0x7f
        if size == 126:
            size = struct.unpack(">H", self._read_exactly(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self._read_exactly(8))[0]
        return first & 0x0f, self._read_exactly(size)

    def receive(self, answer_pings=True):
        """The next message: ("text", str), ("binary", bytes), ("pong", bytes) or
        ("close", code, reason), where 1005 is no code. Pings are answered, or told as "ping"."""
        while True:
            opcode, payload = self.receive_frame()
            if opcode == PING and answer_pings:
                self.send_raw(frame(PONG, payload))
            elif opcode == TEXT:
                return "text", payload.decode()
            elif opcode == CLOSE:
                code = struct.unpack(">H", payload[:2])[0] if payload else 1005
                return "close", code, payload[2:].decode()
            else:
                return {BINARY: "binary", PING: "ping", PONG: "pong"}[opcode], payload

    def at_end(self):
        """Whether the server closes the connection now, after what was read."""
        assert not self.buffer, self.buffer[:100]
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
