# SPDX-License-Identifier: Apache-2.0
"""Many connections that do little, beside those that work. `threadbox bench --only connections` has
the figures with ten thousand of them."""
import contextlib
import resource
import socket

import pytest

from server import wait_until

IDLE, SLOW = 1500, 40


@pytest.fixture
def descriptors():
    """Enough for both ends' tests."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def ask(one):
    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    return one.recv(4096)


def count(server):
    text = server.get("/metrics").body.decode()
    return int(float(text.split("\nthreadbox_http_connections ")[1].split()[0]))


def test_idle_and_slow_connections_are_held_and_others_work(start_server, descriptors):
    server = start_server(POOL_SIZE=1)
    session = server.create()
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(IDLE)]
        for one in idle:
            assert ask(one).startswith(b"HTTP/1.1 200")
        slow = [stack.enter_context(connect(server)) for _ in range(SLOW)]
        for one in slow:
            one.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(20):
            for one in slow:
                one.sendall(b" " * 64)
            assert server.stdout(session, "echo fine") == "fine\n"
        wait_until(lambda: count(server) > IDLE + SLOW, "all are there")
        assert all(ask(one).startswith(b"HTTP/1.1 200") for one in idle[::100])
    wait_until(lambda: count(server) == 1, "all have gone but the one that asks")


def test_beyond_the_most_a_503_and_then_again_not(start_server):
    server = start_server(MAX_CONNECTIONS=16)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(server)) for _ in range(16)]
        assert ask(held[-1]).startswith(b"HTTP/1.1 200")
        with connect(server) as late:
            assert late.recv(4096).startswith(b"HTTP/1.1 503")
    wait_until(lambda: server.get("/healthz").status == 200, "there is room again")


def test_one_address_has_its_share(start_server):
    server = start_server(MAX_CONNECTIONS_PER_ADDRESS=2)
    with connect(server) as first, connect(server) as second:
        assert ask(first) and ask(second)
        with connect(server) as third:
            assert third.recv(4096).startswith(b"HTTP/1.1 503")
        other = socket.create_connection(("127.0.0.1", server.port), 30, ("127.0.0.9", 0))
        with other:
            assert ask(other).startswith(b"HTTP/1.1 200")


def test_too_few_descriptors_are_said(binary):
    import server as lib

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
    made = lib.Server(preexec=few, POOL_SIZE=0)
    try:
        made.start()
        # Root gets what it needs; without that right it would say so.
        limits = lib.read_text(f"/proc/{made.process.pid}/limits")
        row = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        soft = int(row.split()[3])
        assert soft >= 16384 or "connections_limited" in made.log()
        made.close()
    finally:
        made.remove()
