# SPDX-License-Identifier: Apache-2.0
"""/healthz and /readyz: whether a server lives, and whether work can be sent to it."""
import concurrent.futures
import os
import signal

from server import wait_until


def test_a_server_that_can_work_says_so(server):
    assert server.get("/healthz").json == {"status": "ok"}
    assert server.get("/readyz").json == {"status": "ready"}


def test_it_is_not_ready_while_the_keeper_does_not_answer(start_server):
    server = start_server()
    keeper = server.keeper_pid()
    os.kill(keeper, signal.SIGSTOP)
    try:
        # However many ask, one question is on its way.
        with concurrent.futures.ThreadPoolExecutor() as many:
            replies = list(many.map(server.get, ["/readyz"] * 3))
        for reply in replies:
            assert reply.status == 503 and reply.headers["Retry-After"], reply
            assert reply.json["error"] == "not ready: the keeper does not answer"
        assert server.get("/healthz").status == 200, "it lives all the same"
    finally:
        os.kill(keeper, signal.SIGCONT)
    wait_until(lambda: server.get("/readyz").status == 200, "it is ready again")
