# SPDX-License-Identifier: Apache-2.0
"""An engine that is not there, too old, forbidden, or without the image: the cause is told, and
what to do; and the server is up all the same."""
import contextlib
import http.server
import os
import signal
import socket
import socketserver
import tempfile
import threading

import pytest

from engine import DockerServer, Engine
from server import wait_until


def try_create(server):
    return server.post("/create_session", {"thread_id": "t"})


@pytest.fixture
def elsewhere(binary, tmp_path):
    """A server for a socket of the test's own."""
    made = []

    def start(path, **settings):
        one = Engine()
        os.rmdir(one.dir)
        one.dir, one.socket = str(tmp_path), str(path)
        for place in (tmp_path, *tmp_path.parents):
            os.chmod(place, os.stat(place).st_mode | 0o011)
        made.append(DockerServer(one, POOL_SIZE=0, **settings))
        return made[-1].start()

    yield start
    for one in made:
        one.remove()


def test_no_engine(elsewhere, tmp_path):
    server = elsewhere(tmp_path / "nothing")
    reply = try_create(server)
    assert reply.status == 503
    assert "docker" in reply.json["error"]
    assert "no socket" in reply.json["error"] and "DOCKER_HOST" in reply.json["error"], reply
    assert server.health()["status"]
    assert "docker_unusable" in server.log()


def test_a_socket_that_may_not_be_used(elsewhere, tmp_path, engine):
    os.symlink(engine.socket, tmp_path / "s")
    before = os.stat(engine.socket)
    os.chmod(engine.socket, 0o600)
    try:
        reply = try_create(elsewhere(tmp_path / "s"))
    finally:
        os.chmod(engine.socket, before.st_mode & 0o777)
    assert reply.status == 503 and "group" in reply.json["error"], reply


def test_an_image_that_is_not_there(start_server):
    server = start_server(CONTAINER_IMAGE="no-such-image:latest")
    reply = try_create(server)
    assert reply.status == 503, reply
    assert "no-such-image:latest" in reply.json["error"]
    assert "CONTAINER_IMAGE" in reply.json["error"]


def test_an_image_of_the_request_that_is_not_there(server):
    for name in ("no-such-image:1", "../containers/json", "a b"):
        reply = server.post("/api/sessions", {"provider": "docker", "environment": name})
        assert reply.status == 400 and name in reply.json["error"], reply


def test_the_others_go_on_working(elsewhere, tmp_path):
    server = elsewhere(tmp_path / "nothing")
    assert try_create(server).status == 503
    made = server.post("/api/sessions", {"provider": "native"})
    assert made.status in (200, 201), made
    session = made.json["session_id"]
    assert server.stdout(session, "echo fine") == "fine\n"
    server.cleanup(session)


class OldEngine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = b'{"ApiVersion":"1.24","Version":"1.12"}' if self.path == "/version" else b"[]"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass


def test_an_engine_that_is_too_old(elsewhere, tmp_path):
    path = tmp_path / "old"
    with OldEngine(str(path), OldEngine.Handler) as old:
        os.chmod(path, 0o666)
        threading.Thread(target=old.serve_forever, daemon=True).start()
        reply = try_create(elsewhere(path))
        old.shutdown()
    assert reply.status == 503 and "1.24" in reply.json["error"], reply
    assert "19.03" in reply.json["error"]


def test_an_engine_that_comes_later_is_used(elsewhere, tmp_path, engine):
    server = elsewhere(tmp_path / "later")
    assert try_create(server).status == 503
    os.symlink(engine.socket, tmp_path / "later")
    server.engine = engine
    # The server keeps the group of the socket that was there at its start: for the test, anybody.
    os.chmod(engine.socket, 0o666)
    try:
        wait_until(lambda: try_create(server).status in (200, 409), "the engine is used")
    finally:
        os.chmod(engine.socket, 0o660)


class Way:
    """Between a server and its engine, and closed on demand."""

    def __init__(self, path, engine):
        outer = self
        self.open, self.path = True, path

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                if outer.open:
                    there = socket.socket(socket.AF_UNIX)
                    there.connect(engine.socket)
                    back = threading.Thread(target=outer.copy, args=(there, self.request))
                    back.start()
                    outer.copy(self.request, there)
                    back.join()

        class Listener(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.listener = Listener(str(path), Handler)
        os.chmod(path, 0o666)
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def way(engine):
    with tempfile.TemporaryDirectory(prefix="tb-way-") as place:
        os.chmod(place, 0o711)
        one = Way(f"{place}/s", engine)
        yield one
        one.listener.shutdown()


def test_a_start_that_was_answered_with_a_failure_does_not_happen_later(way, start_server):
    server = start_server(DOCKER_HOST=f"unix://{way.path}")
    session = server.create("t")
    server.stdout(session, "echo begun > f")
    carrier = server.carrier_pid(session)
    way.open = False
    os.kill(carrier, signal.SIGKILL)
    wait_until(lambda: server.try_execute(session, "echo late >> f").status == 503, "it fails")
    way.open = True
    wait_until(lambda: server.try_execute(session, "echo last >> f").status == 200, "it is back")
    assert "late" not in server.stdout(session, "cat f")


@pytest.mark.parametrize("value", ["tcp://127.0.0.1:2375", "unix://relative", "/run/docker.sock"])
def test_a_docker_host_that_is_no_socket_is_refused_at_the_start(binary, engine, value):
    server = DockerServer(engine, DOCKER_HOST=value)
    done = server.command("serve")
    assert done.returncode != 0 and "DOCKER_HOST" in done.stderr
    server.remove()


def test_an_unknown_provider_is_refused_at_the_start(binary, engine):
    server = DockerServer(engine, SANDBOX_PROVIDER="podman")
    done = server.command("serve")
    assert done.returncode != 0 and "docker, native" in done.stderr
    server.remove()
