# SPDX-License-Identifier: Apache-2.0
"""A receiver of callbacks on loopback that does as it is told, and a name server beside it."""
import base64
import collections
import hashlib
import hmac
import http.server
import json
import socket
import ssl
import struct
import threading

from server import wait_until

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LOOPBACK = {"WEBHOOK_ALLOW_PRIVATE": "true", "WEBHOOK_SECRET": KEY,
            "WEBHOOK_RETRY_SECONDS": "1,1,1,1,1,1"}
Received = collections.namedtuple("Received", "path headers body")


def verify(secret, headers, body):
    """As docs/api.md shows it to who writes a receiver."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(part, "v1," + digest)
               for part in headers["webhook-signature"].split())


class Receiver:
    """`answers` are statuses, or (status, headers), for the next requests; then all get 200.
    "hang" answers never, "drop" closes."""

    def __init__(self, port=0, host="127.0.0.1", tls=None):
        self.got, self.answers, self.over = [], [], threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.handle_error = lambda *_: None  # a client that does not trust us goes away
        self.port = self.server.server_address[1]
        self.base = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def answer(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.got.append(Received(request.path, request.headers, body))
        answer = self.answers.pop(0) if self.answers else 200
        if answer == "hang":
            self.over.wait()
        if answer in ("hang", "drop"):
            request.close_connection = True
            return
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", "2")
        request.end_headers()
        request.wfile.write(b"ok")

    def wait(self, count=1, seconds=None):
        wait_until(lambda: len(self.got) >= count, lambda: f"{count} came, not {self.got}", seconds)
        return self.got

    def ids(self):
        return [one.headers["webhook-id"] for one in self.got]

    def data(self, index=0):
        return json.loads(self.got[index].body)["data"]

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def same_port():
    """A UDP and a TCP socket; a port that is free for one may be taken for the other."""
    while True:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        try:
            return udp, socket.create_server(udp.getsockname())
        except OSError:
            udp.close()


class NameServer:
    """Answers every question for an A with the next of `addresses`, the last one again and again;
    for other types with nothing. `talkative`: over UDP it says that the answer is too long for
    that."""

    def __init__(self, *addresses, talkative=False):
        self.addresses, self.talkative = list(addresses), talkative
        self.asked = []  # (name, type), "tcp" before those that came that way
        self.udp, self.tcp = same_port()
        self.name = f"127.0.0.1:{self.udp.getsockname()[1]}"
        self.threads = [threading.Thread(target=serve) for serve in (self.serve, self.serve_tcp)]
        for thread in self.threads:
            thread.start()

    def serve(self):
        while True:
            question, peer = self.udp.recvfrom(4096)
            if not question:
                return
            self.udp.sendto(self.reply(question, self.talkative), peer)

    def serve_tcp(self):
        while True:
            stream, _ = self.tcp.accept()
            with stream, stream.makefile("rwb") as lines:
                while size := lines.read(2):
                    self.asked.append("tcp")
                    answer = self.reply(lines.read(struct.unpack(">H", size)[0]))
                    lines.write(struct.pack(">H", len(answer)) + answer)
                    lines.flush()
                    if self.udp.fileno() < 0:
                        return
            if self.udp.fileno() < 0:
                return

    def reply(self, query, cut=False):
        end = query.index(b"\0", 12) + 5
        kind = struct.unpack(">H", query[end - 4:end - 2])[0]
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += query[at] + 1
        self.asked.append((".".join(labels), kind))
        answer = b""
        if kind == 1 and not cut:
            address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
        flags = 0x8180 | (0x0200 if cut else 0)
        head = query[:2] + struct.pack(">HHHHH", flags, 1, 1 if answer else 0, 0, 0)
        return head + query[12:end] + answer

    def close(self):
        where = self.udp.getsockname()
        self.udp.sendto(b"", where)  # wakes it
        self.threads[0].join()
        self.udp.close()
        socket.create_connection(where).close()
        self.threads[1].join()
        self.tcp.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def deliveries(server, state=""):
    reply = server.get("/api/webhooks/deliveries" + (f"?state={state}" if state else ""))
    assert reply.status == 200, reply
    return reply.json["deliveries"]


def wait_state(server, state, session):
    def found():
        rows = [row for row in deliveries(server, state) if row["session_id"] == session]
        return rows[0] if rows else None
    return wait_until(found, lambda: f"one is {state}: {deliveries(server)}", 30)
