# SPDX-License-Identifier: Apache-2.0
"""Webhooks when receivers are down and servers die: each event arrives at least once, and counts.
"""
import contextlib
import http.client
import json
import os
import signal
import socket
import threading

from receiver import LOOPBACK, Receiver, verify
from server import wait_until

# Long enough for a receiver that is down while servers come and go.
SETTINGS = {**LOOPBACK, "WEBHOOK_RETRY_SECONDS": "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}


def free_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]


def told(receiver):
    return [json.loads(one.body) for one in list(receiver.got)]


class Client(threading.Thread):
    """Runs commands one after another until the server is gone; knows which were answered."""

    def __init__(self, server, session, name):
        super().__init__()
        self.server, self.session, self.name, self.answered = server, session, name, []

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            for number in range(10_000):
                command = f"true {self.name}-{number}"
                if self.server.try_execute(self.session, command).status != 200:
                    return
                self.answered.append(command)


def test_a_receiver_that_is_down_and_a_server_that_is_killed_meanwhile(start_server):
    """Killed at any moment: whatever a client was answered is told, each under one name."""
    server = start_server(**SETTINGS)
    port = free_port()
    body = {"url": f"http://127.0.0.1:{port}/", "events": ["command.finished", "session.created"]}
    mine = server.post("/api/webhooks", body).json
    sessions = [server.create(f"t{i}") for i in range(3)]
    answered = []
    for turn in range(3):
        clients = [Client(server, session, f"{turn}-{i}") for i, session in enumerate(sessions)]
        for client in clients:
            client.start()
        wait_until(lambda: all(len(client.answered) > 15 for client in clients), "they work", 60)
        server.kill9()
        for client in clients:
            client.join()
            answered += client.answered
        server.start()
    with Receiver(port=port) as receiver:
        def missing():
            commands = {one["data"].get("command") for one in told(receiver)}
            return set(answered) - commands
        wait_until(lambda: not missing(), lambda: f"{len(missing())} of {len(answered)}", 60)
        created = {one["data"]["session_id"] for one in told(receiver)
                   if one["type"] == "session.created"}
        assert created == set(sessions)
        assert all(verify(mine["secret"], one.headers, one.body) for one in receiver.got)
        # The same event has the same name, however often and by whichever server it is told.
        names = {}
        for one in receiver.got:
            event = json.loads(one.body)
            key = (event["type"], event["data"]["session_id"], event["data"].get("command"))
            assert names.setdefault(key, one.headers["webhook-id"]) == one.headers["webhook-id"]


def test_what_ends_without_a_server_is_told_by_the_next_one_and_not_again(start_server):
    server = start_server(**SETTINGS)
    with Receiver() as receiver:
        body = {"url": receiver.base, "events": ["command.failed"]}
        mine = server.post("/api/webhooks", body).json
        session = server.create("t")
        path = f"/api/sessions/{session}/processes"
        for _ in range(3):
            assert server.post(path, {"command": "sleep 1000"}).status == 201
        server.execute(session, "true")
        guest = server.guest_pid(session)
        # The shell of `true` may be there for a moment after its end was told.
        wait_until(lambda: len(server.sandbox_pids(session)) == 4, "only those three are left")
        pids = [pid for pid in server.sandbox_pids(session) if pid != guest]
        server.kill9()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: set(server.sandbox_pids(session)) == {guest}, "all have ended")
        assert not receiver.got
        server.start()
        receiver.wait(3)
        assert sorted(one["data"]["process_id"] for one in told(receiver)) == [1, 2, 3]
        assert len(set(receiver.ids())) == 3
        query = f"/api/webhooks/deliveries?state=done&webhook_id={mine['id']}"
        wait_until(lambda: len(server.get(query).json["deliveries"]) == 3, "all are done")
        server.execute(session, "false")
        receiver.wait(4)
        server.restart()
        server.execute(session, "false")
        receiver.wait(5)
        assert len(set(receiver.ids())) == len(receiver.got) == 5


def test_webhooks_and_their_numbers_outlive_the_server(start_server):
    server = start_server(**SETTINGS)
    with Receiver() as receiver:
        body = {"url": receiver.base, "events": ["session.created"], "description": "d"}
        mine = server.post("/api/webhooks", body).json
        server.create()
        receiver.wait()
        server.restart()
        shown = server.get("/api/webhooks").json["webhooks"]
        assert shown == [{name: mine[name] for name in mine if name != "secret"}]
        server.create()
        # The first one may come again: it was killed before it had written down that it was told.
        wait_until(lambda: len(set(receiver.ids())) == 2, "both are told")
        numbers = {one.headers["webhook-id"]: json.loads(one.body)["sequence"]
                   for one in list(receiver.got)}
        first, second = numbers.values()
        assert first == 1 and second > 1
        assert all(verify(mine["secret"], one.headers, one.body) for one in receiver.got)
