# SPDX-License-Identifier: Apache-2.0
"""deploy/nginx.conf in front of a server of a test, with a certificate of its own."""
import contextlib
import http.client
import pathlib
import re
import socket
import ssl
import struct
import subprocess

from server import Server, wait_until

CONF = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"
FRAME = """daemon off;
worker_processes 2;
pid {place}/pid;
error_log {place}/error.log info;
events {{ worker_connections 512; }}
http {{
    log_format seen '"$request" $status $upstream_status';
    access_log {place}/access.log seen;
    client_body_temp_path {place}/bodies;
    proxy_temp_path {place}/answers;
    include {place}/threadbox.conf;
}}
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def make_certificate(place):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", place / "key.pem", "-out", place / "cert.pem"],
                   check=True, capture_output=True)


class Nginx:
    def __init__(self, place, upstream, change=lambda text: text):
        self.place = pathlib.Path(place)
        self.plain_port, self.port = free_ports(2)
        make_certificate(self.place)
        text = CONF.read_text()
        for pattern, instead in ((r"listen 80;", f"listen 127.0.0.1:{self.plain_port};"),
                                 (r"listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
                                 (r"listen \[::\][^\n]*", ""),
                                 (r"127\.0\.0\.1:5000", f"127.0.0.1:{upstream}"),
                                 (r"/etc/threadbox/tls/fullchain\.pem", f"{place}/cert.pem"),
                                 (r"/etc/threadbox/tls/privkey\.pem", f"{place}/key.pem")):
            text, count = re.subn(pattern, instead, text)
            assert count, f"{CONF} has no {pattern}"
        (self.place / "threadbox.conf").write_text(change(text))
        (self.place / "nginx.conf").write_text(FRAME.format(place=place))
        self.place.chmod(0o755)
        self.tls = ssl.create_default_context(cafile=str(self.place / "cert.pem"))
        self.process = None

    def start(self):
        self.process = subprocess.Popen(["nginx", "-p", self.place, "-c", "nginx.conf"],
                                        stderr=open(self.place / "stderr", "w"))
        wait_until(self.answers, "nginx listens", 20)
        return self

    def answers(self):
        assert self.process.poll() is None, (self.place / "stderr").read_text()
        with contextlib.suppress(OSError):
            self.dial().close()
            return True
        return False

    def stop(self):
        self.process.terminate()
        self.process.wait(20)

    def dial(self, *protocols):
        context = self.tls
        if protocols:
            context = ssl.create_default_context(cafile=str(self.place / "cert.pem"))
            context.set_alpn_protocols(protocols)
        bare = socket.create_connection(("127.0.0.1", self.port), 20)
        return context.wrap_socket(bare, server_hostname="localhost")

    def requests(self):
        """(request line, status, the server's status or "-") of all that nginx took for one."""
        lines = (self.place / "access.log").read_text().splitlines()
        return [re.fullmatch(r'"(.*)" (\d+) (.*)', line).groups() for line in lines]


class Fronted(Server):
    """A server as it is seen through nginx."""

    def __init__(self, server, nginx):
        self.__dict__.update(server.__dict__)
        self.nginx = nginx

    def connect(self, seconds=60):
        return http.client.HTTPSConnection("localhost", self.nginx.port, timeout=seconds,
                                           context=self.nginx.tls)


# ---- as much of HTTP/2 as an attacker needs ----

HEADERS, DATA, SETTINGS, RESET, GO_AWAY = 1, 0, 4, 3, 7


def http2_frame(kind, payload, flags=0, stream=1):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + payload


def http2_fields(fields):
    """Literal fields, neither indexed nor Huffman-coded: any byte can be in them."""
    block = b""
    for name, value in fields:
        assert len(name) < 127 and len(value) < 127
        block += b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    return block


def http2_talk(nginx, fields, body):
    """Sends one request; returns when it was answered, refused or cut."""
    with nginx.dial("h2") as client:
        assert client.selected_alpn_protocol() == "h2"
        head = http2_frame(HEADERS, http2_fields(fields), 4 if body else 5)
        data = http2_frame(DATA, body, 1) if body else b""
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frame(SETTINGS, b"", 0, 0)
                       + head + data)
        text = b""
        with contextlib.suppress(OSError):
            while part := client.recv(1 << 16):
                text += part
                if http2_over(text):
                    return


def http2_over(text):
    while len(text) >= 9:
        size = int.from_bytes(text[:3], "big")
        kind, flags = text[3], text[4]
        if kind in (RESET, GO_AWAY) or (kind in (HEADERS, DATA) and flags & 1):
            return True
        text = text[9 + size:]
    return False
