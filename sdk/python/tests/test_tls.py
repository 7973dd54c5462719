# SPDX-License-Identifier: Apache-2.0
"""https: through a proxy that ends TLS before the real server."""

import asyncio
import contextlib
import selectors
import socket
import ssl
import subprocess
import threading

import pytest

from threadbox import AsyncSandboxClient, SandboxClient, UnreachableError


class Proxy:
    """Ends TLS, and passes bytes both ways."""

    def __init__(self, port, certificate):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.port = port
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.threads.append(threading.Thread(target=self.pass_on, args=(plain,)))
            self.threads[-1].start()

    def pass_on(self, plain):
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            near = stack.enter_context(self.context.wrap_socket(plain, server_side=True))
            far = stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            self.pump(selector, near)

    @staticmethod
    def pump(selector, near):
        while True:
            for key, _ in selector.select():
                while True:
                    data = key.fileobj.recv(65536)
                    if not data:
                        return
                    key.data.sendall(data)
                    if key.fileobj is not near or not near.pending():
                        break

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.threads:
            one.join(10)


@pytest.fixture
def certificate(tmp_path):
    path = tmp_path / "both.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", path, "-out", tmp_path / "cert.pem"],
                   check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    return path


@pytest.fixture
def proxy(server, certificate):
    made = Proxy(server.port, certificate)
    yield made
    made.close()


def work(client):
    client.create_session()
    assert client.execute("seq 20000")["stdout"].endswith("\n20000\n")
    client.upload_file_from_bytes("big", bytes(300_000))
    assert len(client.download_file_to_bytes("big")) == 300_000
    process = client.processes.start("cat", stdin_open=True)
    with process.attach() as channel:
        channel.send("over TLS")
        assert channel.receive(10).data == b"over TLS"
        with pytest.raises(TimeoutError):
            channel.receive(0.05)
    process.kill()


def test_a_client_speaks_tls_over_few_connections(proxy, certificate):
    trusted = ssl.create_default_context(cafile=str(certificate))
    with SandboxClient(server_url=proxy.url, ssl_context=trusted) as client:
        work(client)
    assert proxy.connections <= 3


def test_an_asynchronous_client_speaks_tls(proxy, certificate):
    async def go():
        trusted = ssl.create_default_context(cafile=str(certificate))
        async with AsyncSandboxClient(server_url=proxy.url, ssl_context=trusted) as client:
            await client.create_session()
            return (await client.execute("echo hi"))["stdout"]

    assert asyncio.run(go()) == "hi\n"


def test_an_unknown_certificate_is_refused(proxy):
    with SandboxClient(server_url=proxy.url) as client:
        with pytest.raises(UnreachableError, match="certificate"):
            client.create_session()
