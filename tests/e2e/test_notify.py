# SPDX-License-Identifier: Apache-2.0
"""Callbacks: the end of a process reaches whom its notify_url names, signed, whatever dies."""
import json
import os
import re
import subprocess
import time

import pytest

from live import attach_new, start, try_start
from receiver import KEY, LOOPBACK, NameServer, Receiver, deliveries, verify, wait_state
from server import Server, wait_until


@pytest.fixture(scope="module")
def notifier(binary):
    """A server that may call loopback, for all tests that don't kill it."""
    shared = Server(**LOOPBACK)
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture
def receiver():
    with Receiver() as one:
        yield one


# ---- what is sent ----

def test_the_end_of_a_process_is_told_and_signed(notifier, receiver):
    session = notifier.create("notify thread")
    process = start(notifier, session, "echo out; echo err >&2; exit 3", tag="my tag",
                    notify_url=f"{receiver.base}/hook?x=1")
    one = receiver.wait()[0]
    assert one.path == "/hook?x=1"
    assert one.headers["Content-Type"] == "application/json"
    assert one.headers["User-Agent"].startswith("threadbox/")
    assert one.headers["Host"] == f"127.0.0.1:{receiver.port}"
    assert abs(int(one.headers["webhook-timestamp"]) - time.time()) < 60
    assert verify(KEY, one.headers, one.body)
    assert not verify(KEY, one.headers, one.body + b" ")
    body = json.loads(one.body)
    assert body["type"] == "process.ended" and body["timestamp"].endswith("Z")
    data = body["data"]
    told = {"session_id": session, "thread_id": "notify thread", "process_id": process.number,
            "tag": "my tag", "command": "echo out; echo err >&2; exit 3", "exit_code": 3,
            "cause": "exited", "signal": None, "timed_out": False, "state": "exited",
            "stdout": "out\n", "stderr": "err\n", "stdout_bytes": 4, "stderr_bytes": 4,
            "stdout_truncated": False, "stderr_truncated": False}
    assert {name: data[name] for name in told} == told
    shown = process.show()
    for name in ("execution_time_ms", "cpu_time_ms", "peak_memory_bytes", "started_at"):
        assert data[name] == shown[name]
    row = wait_state(notifier, "done", session)
    assert (row["id"], row["attempts"], row["last_status"]) == (receiver.ids()[0], 1, 200)
    assert row["last_error"] is None and row["next_attempt_at"] is None


def test_only_the_tail_of_much_output_is_told(notifier, receiver):
    session = notifier.create()
    start(notifier, session, "seq 1000000; head -c 70000 /dev/zero | tr '\\0' e >&2",
          notify_url=receiver.base)
    receiver.wait(seconds=30)
    data = receiver.data()
    assert len(data["stdout"]) == 65536 and data["stdout"].endswith("\n999999\n1000000\n")
    assert data["stdout_bytes"] == 6888896 and data["stdout_truncated"]
    assert data["stderr"] == "e" * 65536 and data["stderr_truncated"]


def test_a_kill_and_a_timeout_are_told_as_such(notifier, receiver):
    session = notifier.create()
    killed = start(notifier, session, "sleep 1000", notify_url=f"{receiver.base}/killed")
    start(notifier, session, "sleep 1000", timeout=0.2, notify_url=f"{receiver.base}/late")
    killed.delete()
    receiver.wait(2)
    told = {one.path: json.loads(one.body)["data"] for one in receiver.got}
    assert (told["/killed"]["cause"], told["/killed"]["signal"]) == ("killed", 9)
    assert (told["/late"]["cause"], told["/late"]["exit_code"]) == ("timeout", 124)


def test_execute_streamed_or_not_and_attach_tell_too(notifier, receiver):
    session = notifier.create()
    url = f"{receiver.base}/execute"
    assert notifier.execute(session, "echo 1", notify_url=url)["stdout"] == "1\n"
    reply = notifier.try_execute(session, "echo 2", stream=True, notify_url=url)
    assert reply.status == 200
    fields = {"command": "echo 3", "notify_url": url}
    with attach_new(notifier, session, fields) as socket_:
        socket_.drain()
    receiver.wait(3)
    assert sorted(receiver.data(i)["stdout"] for i in range(3)) == ["1\n", "2\n", "3\n"]
    assert len(set(receiver.ids())) == 3


def test_the_end_with_its_session_is_told(notifier, receiver):
    session = notifier.create()
    start(notifier, session, "sleep 1000", notify_url=receiver.base)
    notifier.cleanup(session)
    receiver.wait()
    assert receiver.data()["cause"] in ("lost", "killed")


# ---- when it does not work at once ----

def test_failures_are_tried_again_under_the_same_id(notifier, receiver):
    receiver.answers = [500, "drop", (302, {"Location": "/elsewhere"}), 404]
    session = notifier.create()
    start(notifier, session, "true", notify_url=receiver.base)
    receiver.wait(5, 30)
    assert len(set(receiver.ids())) == 1
    assert {one.path for one in receiver.got} == {"/"}
    assert all(verify(KEY, one.headers, one.body) for one in receiver.got)
    row = wait_state(notifier, "done", session)
    assert row["attempts"] == 5


def test_retry_after_is_waited_for(notifier, receiver):
    receiver.answers = [(503, {"Retry-After": "600"})]
    session = notifier.create()
    start(notifier, session, "true", notify_url=receiver.base)
    row = wait_until(lambda: next((row for row in deliveries(notifier, "pending")
                                   if row["session_id"] == session and row["attempts"]), None),
                     "it failed once")
    assert row["last_status"] == 503
    later = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 300))
    assert row["next_attempt_at"] > later
    assert notifier.request("DELETE", f"/api/webhooks/deliveries/{row['id']}").status == 200
    assert row["id"] not in [one["id"] for one in deliveries(notifier)]
    assert notifier.request("DELETE", f"/api/webhooks/deliveries/{row['id']}").status == 404


def test_who_is_gone_is_not_asked_again_until_a_replay(notifier, receiver):
    receiver.answers = [410]
    session = notifier.create()
    start(notifier, session, "echo text", notify_url=receiver.base)
    row = wait_state(notifier, "dead", session)
    assert (row["attempts"], row["last_status"]) == (1, 410)
    reply = notifier.post(f"/api/webhooks/deliveries/{row['id']}/replay")
    assert reply.status == 200 and reply.json["state"] == "pending"
    receiver.wait(2)
    assert receiver.ids() == [row["id"]] * 2 and receiver.data(1)["stdout"] == "text\n"
    wait_state(notifier, "done", session)
    assert notifier.post(f"/api/webhooks/deliveries/{row['id']}/replay").status == 200
    receiver.wait(3)
    assert notifier.post("/api/webhooks/deliveries/msg_none/replay").status == 404


def test_one_that_hangs_keeps_no_other_one_waiting(notifier, receiver):
    receiver.answers = ["hang"] * 30
    session = notifier.create()
    for _ in range(8):
        start(notifier, session, "true", notify_url=receiver.base)
    receiver.wait(4)
    with Receiver(host="127.0.0.2") as other:
        start(notifier, session, "true", notify_url=f"http://127.0.0.2:{other.port}/")
        other.wait()
        assert len(receiver.got) == 4  # so many at a time for one host


def test_a_replay_of_a_process_that_runs_is_refused(notifier, receiver):
    session = notifier.create()
    start(notifier, session, "sleep 1000", notify_url=receiver.base)
    row = wait_state(notifier, "waiting", session)
    assert notifier.post(f"/api/webhooks/deliveries/{row['id']}/replay").status == 409
    assert notifier.get("/api/webhooks/deliveries?state=no").status == 400
    assert notifier.get("/api/webhooks/deliveries?limit=0").status == 400


def test_deliveries_are_counted(start_server, receiver):
    notifier = start_server(**LOOPBACK)

    def counted(result):
        text = notifier.get("/metrics").body.decode()
        name = f'threadbox_webhook_deliveries_total{{result="{result}"}}'
        return int(re.search(re.escape(name) + r" (\d+)", text)[1])
    before = counted("delivered"), counted("retried")
    receiver.answers = [500]
    session = notifier.create()
    start(notifier, session, "true", notify_url=receiver.base)
    wait_state(notifier, "done", session)
    assert (counted("delivered"), counted("retried")) == (before[0] + 1, before[1] + 1)
    assert "threadbox_webhook_pending " in notifier.get("/metrics").body.decode()


# ---- redirects ----

def test_only_307_and_308_are_followed_and_not_for_ever(notifier, receiver):
    receiver.answers = [(307, {"Location": "/second"}),
                        (308, {"Location": f"{receiver.base}/third"})]
    session = notifier.create()
    start(notifier, session, "true", notify_url=f"{receiver.base}/first")
    wait_state(notifier, "done", session)
    assert [one.path for one in receiver.got] == ["/first", "/second", "/third"]
    assert len({one.body for one in receiver.got}) == 1
    receiver.got.clear()
    receiver.answers = [(307, {"Location": "/again"})] * 4 + [410]
    again = notifier.create()
    start(notifier, again, "true", notify_url=receiver.base)
    row = wait_state(notifier, "dead", again)
    assert len(receiver.got) == 5 and row["attempts"] == 2


def test_a_redirect_to_another_scheme_is_not_followed(notifier, receiver):
    receiver.answers = [(307, {"Location": f"https://127.0.0.1:{receiver.port}/"})]
    session = notifier.create()
    start(notifier, session, "true", notify_url=receiver.base)
    row = wait_state(notifier, "dead", session)
    assert "another scheme" in row["last_error"] and len(receiver.got) == 1


# ---- names ----

def test_a_name_is_looked_up_over_tcp_too(start_server, receiver):
    with NameServer("127.0.0.1", talkative=True) as names:
        server = start_server(**LOOPBACK, WEBHOOK_DNS_SERVERS=names.name)
        session = server.create()
        start(server, session, "true", notify_url=f"http://receiver.test:{receiver.port}/")
        assert receiver.wait()[0].headers["Host"] == f"receiver.test:{receiver.port}"
        assert "tcp" in names.asked


def test_a_name_that_nobody_knows_is_tried_again(start_server):
    with NameServer("127.0.0.1") as names:
        names.reply = lambda query, *_: query[:2] + b"\x81\x83" + query[4:]
        server = start_server(**LOOPBACK, WEBHOOK_DNS_SERVERS=names.name)
        session = server.create()
        start(server, session, "true", notify_url="http://receiver.test/")
        row = wait_until(lambda: next((row for row in deliveries(server, "pending")
                                       if row["attempts"]), None), "it failed once", 20)
        assert "receiver.test can't be looked up: Domain name not found" in row["last_error"]


# ---- https ----

@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and a certificate of it for localhost and 127.0.0.1."""
    place = tmp_path_factory.mktemp("tls")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=Test CA", "-days", "2")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem",
            "-subj", "/CN=receiver")
    (place / "names").write_text("subjectAltName=DNS:receiver.test,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-extfile", "names", "-days", "2", "-out", "cert.pem")
    os.chmod(place / "ca.pem", 0o600)  # read while the server is still root
    return place


def test_https_trusts_its_ca_and_checks_the_host(start_server, certificates):
    pair = (certificates / "cert.pem", certificates / "key.pem")
    with Receiver(tls=pair) as receiver, NameServer("127.0.0.1") as names:
        server = start_server(**LOOPBACK, WEBHOOK_CA_FILE=certificates / "ca.pem",
                              WEBHOOK_DNS_SERVERS=names.name)
        good = server.create()
        start(server, good, "true", notify_url=f"https://receiver.test:{receiver.port}/name")
        start(server, good, "true", notify_url=f"{receiver.base}/address")
        receiver.wait(2)
        assert {one.path for one in receiver.got} == {"/name", "/address"}
        assert all(verify(KEY, one.headers, one.body) for one in receiver.got)
        bad = server.create()
        start(server, bad, "true", notify_url=f"https://other.test:{receiver.port}/other")
        row = wait_until(lambda: next((row for row in deliveries(server, "pending")
                                       if row["session_id"] == bad and row["attempts"]), None),
                         "it failed once")
        assert "hostname mismatch" in row["last_error"].lower()
        assert len(receiver.got) == 2


def test_https_of_somebody_unknown_is_refused(notifier, certificates):
    with Receiver(tls=(certificates / "cert.pem", certificates / "key.pem")) as receiver:
        session = notifier.create()
        start(notifier, session, "true", notify_url=receiver.base)
        row = wait_until(lambda: next((row for row in deliveries(notifier, "pending")
                                       if row["session_id"] == session and row["attempts"]), None),
                         "it failed once")
        assert "TLS: unable to get local issuer certificate" in row["last_error"]
        assert not receiver.got
        notifier.request("DELETE", f"/api/webhooks/deliveries/{row['id']}")


def test_a_malformed_url_is_refused_before_anything_starts(notifier):
    session = notifier.create()
    for url in ("ftp://example.org/", "example.org", "http://", "http://user@example.org/",
                "http://example.org/#x", "http://[fe80::1%25eth0]/", "http://2130706433/",
                "http://0x7f.1/", "http://0177.0.0.1/", "http://a b/", "http://example.org:0/",
                "http://é.example/", "http://x/" + "y" * 2048):
        reply = try_start(notifier, session, "true", notify_url=url)
        assert reply.status == 400 and '"notify_url": ' in reply.json["error"], (url, reply)
    assert try_start(notifier, session, "true", notify_url=5).status == 400
    assert notifier.processes(session) == []
