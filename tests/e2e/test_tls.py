# SPDX-License-Identifier: Apache-2.0
"""https on the server's own port, with real clients: Python's ssl, curl, the SDK."""
import asyncio
import hashlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys

import pytest

from certificates import Certificates
from live import attach_new, connections, start
from server import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python" / "src"))

from threadbox import AsyncSandboxClient, SandboxClient, UnreachableError  # noqa: E402

NAMES = "DNS:localhost,IP:127.0.0.1"
BIG = 20_000_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make certificates with")
    return Certificates(tmp_path_factory.mktemp("certificates"))


def trusting(certificates):
    return ssl.create_default_context(cafile=certificates.authority)


@pytest.fixture(scope="module")
def https(binary, certificates):
    """A server for all tests here that change nothing about it."""
    import server as lib
    certificate, key = certificates.make(NAMES)
    made = lib.Server(tls=trusting(certificates), TLS_CERT_FILE=certificate, TLS_KEY_FILE=key)
    try:
        yield made.start()
        made.close()
    finally:
        made.remove()


@pytest.fixture
def box(https):
    name = https.create()
    yield name
    https.cleanup(name)


def serial_of(server):
    """Which certificate a new connection is shown."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
        with server.tls.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            return secured.getpeercert()["serialNumber"]


def test_the_usual_requests_work_and_say_hsts(https, box):
    assert "running at https://127.0.0.1:" in https.lines[0]
    assert https.stdout(box, "echo hello") == "hello\n"
    reply = https.get("/health")
    assert reply.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert https.get("/nothing").status == 404


def test_many_megabytes_go_both_ways(https, box):
    data = os.urandom(BIG)
    https.upload(box, "big", data)
    digest = hashlib.sha256(data).hexdigest()
    assert digest in https.stdout(box, "sha256sum big")
    reply = https.post("/download_file", {"session_id": box, "filename": "big"})
    assert hashlib.sha256(reply.body).hexdigest() == digest


def test_events_come_while_they_are_printed(https, box):
    process = start(https, box, "echo one; read x; echo two", stdin_open=True)
    with process.follow(stream="stdout") as events:
        assert next(events).data["data"] == "one\n"
        process.write(b"\n")
        assert next(events).data["data"] == "two\n"
        assert next(events).name == "exit"


def test_a_websocket_carries_a_terminal_and_files(https, box):
    process = start(https, box, "cat; exit 3", stdin_open=True)
    data = os.urandom(300_000)
    with process.attach() as channel:
        channel.expect_told("attached")
        channel.send_binary(data)
        channel.until(lambda: len(channel.data) == len(data))
        assert channel.data == data
        channel.tell(type="stdin_close")
        assert channel.drain()[0] == 1000
    # Much at once, which plain HTTP sends from the file itself.
    fields = {"argv": ["bash", "-c", f"head -c {BIG} /dev/zero | tr '\\0' x"]}
    with attach_new(https, box, fields) as channel:
        assert channel.drain()[0] == 1000
        assert channel.data == b"x" * BIG


def test_who_vanishes_leaves_no_connection(https, box):
    process = start(https, box, "echo one; sleep 1000")
    for _ in range(3):
        with process.follow() as events:
            next(events)
    plain = socket.create_connection(("127.0.0.1", https.port), timeout=10)
    secured = https.tls.wrap_socket(plain, server_hostname="127.0.0.1")
    path = f"/api/sessions/{box}/processes/{process.number}/output"
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
    secured.sendall(head.encode())
    assert b"200 OK" in secured.recv(65536)
    secured.close()  # of TCP alone, in the middle of an answer
    wait_until(lambda: connections(https) == 0, "no connection is left")
    process.delete()


def test_plain_http_is_told_where_it_is(https):
    connection = http.client.HTTPConnection("127.0.0.1", https.port, timeout=10)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert answer.status == 400 and "https://" in answer.read().decode()
    assert answer.headers["Strict-Transport-Security"] is None
    connection.close()


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_is_content(https, certificates, version):
    if not shutil.which("curl"):
        pytest.skip("there is no curl")
    done = subprocess.run(
        ["curl", "-sS", "--cacert", certificates.authority, f"--tlsv{version}", "--tls-max",
         version, "-w", "%{http_version} %{http_code} %{ssl_verify_result}", "-o", "/dev/null",
         f"https://localhost:{https.port}/health"], text=True, capture_output=True, timeout=30)
    assert done.stdout == "1.1 200 0", done
    old = subprocess.run(["curl", "-sS", "-k", "--tls-max", "1.1", "--ciphers", "ALL:@SECLEVEL=0",
                          f"https://localhost:{https.port}/health"], capture_output=True,
                         timeout=30)
    assert old.returncode == 35, old


def test_the_sdk_speaks_to_it(https, certificates):
    url = f"https://127.0.0.1:{https.port}"
    with SandboxClient(server_url=url, ssl_context=trusting(certificates)) as client:
        client.create_session()
        assert client.execute("seq 20000")["stdout"].endswith("\n20000\n")
        client.upload_file_from_bytes("a", bytes(300_000))
        assert len(client.download_file_to_bytes("a")) == 300_000
        process = client.processes.start("cat", stdin_open=True)
        with process.attach() as channel:
            channel.send("over TLS")
            assert channel.receive(10).data == b"over TLS"
        process.kill()
        client.cleanup()
    with SandboxClient(server_url=url) as stranger, pytest.raises(UnreachableError, match="certif"):
        stranger.create_session()

    async def go():
        async with AsyncSandboxClient(server_url=url, ssl_context=trusting(certificates)) as client:
            await client.create_session()
            return (await client.execute("echo hi"))["stdout"]
    assert asyncio.run(go()) == "hi\n"


def test_what_has_ended_has_a_good_bye(https):
    plain = socket.create_connection(("127.0.0.1", https.port), timeout=10)
    # An end without close_notify is an error with this flag off.
    with https.tls.wrap_socket(plain, server_hostname="127.0.0.1",
                               suppress_ragged_eofs=False) as secured:
        secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b""
        while part := secured.recv(65536):
            text += part
    assert text.startswith(b"HTTP/1.1 200 ")


# ---- its files ----

@pytest.fixture
def renewable(start_server, certificates, tmp_path):
    """A server whose files are the test's own, readable by it after it has given root up."""
    os.chmod(tmp_path, 0o755)
    for parent in list(tmp_path.parents)[:2]:
        os.chmod(parent, 0o755)
    renew(tmp_path, certificates)
    return start_server(tls=trusting(certificates), TLS_CERT_FILE=tmp_path / "cert.pem",
                        TLS_KEY_FILE=tmp_path / "key.pem")


def renew(place, certificates, only=("cert.pem", "key.pem")):
    for source, name in zip(certificates.make(NAMES), ("cert.pem", "key.pem")):
        if name in only:
            new = place / f"{name}.new"
            shutil.copy(source, new)
            os.chmod(new, 0o644)
            new.rename(place / name)


def test_a_renewed_certificate_is_noticed(renewable, certificates, tmp_path):
    first = serial_of(renewable)
    kept = renewable.connect()
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    renew(tmp_path, certificates)
    wait_until(lambda: "tls_reloaded" in renewable.log(), "it was read")
    assert serial_of(renewable) != first
    kept.request("GET", "/healthz")  # on the connection of before
    assert kept.getresponse().status == 200
    kept.close()


def test_a_hangup_reads_it_at_once_and_a_broken_one_is_kept_out(renewable, certificates, tmp_path):
    first = serial_of(renewable)
    renew(tmp_path, certificates, only=("cert.pem",))
    renewable.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "tls_not_reloaded" in renewable.log(), "it was refused")
    assert "the key does not belong to the certificate" in renewable.log()
    assert serial_of(renewable) == first
    (tmp_path / "cert.pem").write_text("nonsense")
    wait_until(lambda: "no certificate in it" in renewable.log(), "that was seen, too")
    assert serial_of(renewable) == first
    (tmp_path / "cert.pem").unlink()
    wait_until(lambda: renewable.log().count("tls_not_reloaded") == 3, "and that it is gone")
    assert serial_of(renewable) == first
    renew(tmp_path, certificates)
    wait_until(lambda: "tls_reloaded" in renewable.log(), "all is well again")
    assert serial_of(renewable) != first
    assert "registry_reloaded" in renewable.log()


def test_a_key_that_is_roots_alone_is_read_at_the_start_and_said(start_server, certificates):
    certificate, key = certificates.make(NAMES)  # in a directory of root's
    os.chmod(key, 0o600)
    server = start_server(tls=trusting(certificates), TLS_CERT_FILE=certificate, TLS_KEY_FILE=key)
    assert server.get("/healthz").status == 200
    assert f"tls_file_unreadable path={key}" in server.log()


@pytest.mark.parametrize("change, words", [
    ({"TLS_KEY_FILE": ""}, "TLS_CERT_FILE and TLS_KEY_FILE need each other"),
    ({"TLS_KEY_FILE": "/nowhere"}, "TLS_KEY_FILE=/nowhere: "),
    ({"TLS_KEY_FILE": "ca.key"}, "the key does not belong to the certificate"),
    ({"TLS_CLIENT_CA_FILE": "ca.key"}, "the authorities of clients: there is no certificate"),
    ({"TLS_CLIENT_CERTS": "optional"}, "TLS_CLIENT_CERTS=optional needs TLS_CLIENT_CA_FILE"),
    ({"TLS_CLIENT_CERTS": "maybe"}, "must be required or optional"),
    ({"TLS_HSTS_SECONDS": "-1"}, "TLS_HSTS_SECONDS=-1: must be a whole number"),
])
def test_wrong_files_are_said_at_the_start(binary, certificates, tmp_path, change, words):
    certificate, key = certificates.make(NAMES)
    change = {name: str(certificates.place / value) if value == "ca.key" else value
              for name, value in change.items()}
    settings = {"STATE_DIR": str(tmp_path / "state"), "PORT": "0", "TLS_CERT_FILE": certificate,
                "TLS_KEY_FILE": key, **change}
    done = subprocess.run([binary, "serve"], env={**os.environ, **settings}, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "wrong settings" in done.stderr and words in done.stderr, done
    subprocess.run([binary, "stop"], env={**os.environ, "STATE_DIR": settings["STATE_DIR"]},
                   capture_output=True, timeout=60)


# ---- certificates of clients ----

def test_clients_show_who_they_are(start_server, certificates):
    certificate, key = certificates.make(NAMES)
    client = trusting(certificates)
    client.load_cert_chain(*certificates.make("DNS:client"))
    server = start_server(tls=client, TLS_CERT_FILE=certificate, TLS_KEY_FILE=key,
                          TLS_CLIENT_CA_FILE=certificates.authority, TLS_HSTS_SECONDS=0)
    reply = server.get("/healthz")
    assert reply.status == 200 and reply.headers["Strict-Transport-Security"] is None
    server.tls = trusting(certificates)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.get("/healthz")
    server.tls = client
    metrics = server.get("/metrics").body.decode()
    failed = [line for line in metrics.splitlines() if 'handshakes_total{result="failed"}' in line]
    assert failed and int(failed[0].split()[-1]) == 1, failed
    assert "threadbox_tls_certificate_expires_timestamp_seconds 4102" in metrics
    assert "peer did not return a certificate" in server.log()
