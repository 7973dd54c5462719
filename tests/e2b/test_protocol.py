# SPDX-License-Identifier: Apache-2.0
"""Sessions whose sandboxes are those of an E2B cloud, as long as nothing goes wrong."""
import concurrent.futures
import hashlib
import os
import uuid

import pytest

from live import Live, start, try_start
from server import wait_until

MIB = 1 << 20


def test_a_command_has_streams_an_exit_code_and_a_cause(server, session):
    answer = server.execute(session, "pwd; id -un; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"]) == ("/workspace\nuser\n", "err\n")
    assert (answer["exit_code"], answer["cause"]) == (3, "exited")
    answer = server.execute(session, "kill -11 $$")
    assert (answer["exit_code"], answer["signal"], answer["cause"]) == (139, 11, "signal")


def test_it_is_made_from_the_template_and_ended_with_its_session(cloud, server):
    session = server.create()
    facts = cloud.facts[server.machines()[session]]
    assert facts["templateID"] == "base" and facts["timeout"] > 30 * 60
    server.cleanup(session)
    assert session not in server.machines()


def test_another_template_is_named_by_the_session(cloud, server):
    reply = server.post("/api/sessions", {"provider": "e2b", "environment": "code-interpreter-v1"})
    assert reply.status in (200, 201), reply
    session = reply.json["session_id"]
    assert cloud.facts[server.machines()[session]]["templateID"] == "code-interpreter-v1"
    server.cleanup(session)
    reply = server.post("/api/sessions", {"provider": "e2b", "environment": "no-such-template"})
    assert reply.status == 400 and "E2B_TEMPLATE" in reply.json["error"], reply


def test_names_of_earlier_templates_lead_to_the_usual_one(cloud, server):
    reply = server.post("/api/sessions", {"provider": "e2b"})  # environment is Python3 then
    assert reply.status in (200, 201), reply
    session = reply.json["session_id"]
    assert cloud.facts[server.machines()[session]]["templateID"] == "base"
    server.cleanup(session)


def test_stdin_arrives_whole_and_in_order(server, session):
    text = "".join(f"{n}\n" for n in range(200_000))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert server.stdout(session, "sha256sum", stdin=text).split()[0] == digest
    live = start(server, session, "read a; echo got $a; cat", stdin_open=True)
    assert live.write("one\n").status == 200
    live.wait_said(b"got one\n")
    assert live.write("two\n").status == 200 and live.post("stdin/close").status == 200
    assert live.wait_exited()["exit_code"] == 0
    assert live.output() == b"got one\ntwo\n"
    assert live.write("three\n").status == 409


def test_a_script_longer_than_an_argument_and_one_that_is_no_program(server, session):
    assert server.stdout(session, "x='" + "a" * 200_000 + "'; echo ${#x} $#") == "200000 0\n"
    reply = try_start(server, session, argv=["/nowhere/program"])
    assert reply.status == 400 and "can't be executed" in reply.json["error"], reply
    reply = try_start(server, session, "true", cwd="/nowhere")
    assert reply.status == 400 and "cwd" in reply.json["error"], reply


def test_a_timeout_ends_all_that_the_command_started(server, session):
    answer = server.execute(session, "setsid sleep 1000 & (nohup sleep 1000 &); sleep 1000",
                            timeout=1)
    assert (answer["exit_code"], answer["cause"]) == (124, "timeout")
    gone = "ps -eo args | grep '[s]leep 1000'"
    wait_until(lambda: server.execute(session, gone)["exit_code"] == 1, "all are gone")


def test_a_kill_and_signals(server, session):
    live = start(server, session, "trap 'echo caught; exit 5' USR1; echo up; "
                                  "while :; do sleep 0.05; done")
    live.wait_said(b"up\n")
    assert live.signal("USR1", tree=False).status == 200
    live.wait_said(b"caught\n")
    assert live.wait_exited()["exit_code"] == 5
    live = start(server, session, "echo up; sleep 1000")
    live.wait_said(b"up\n")
    assert live.delete().status == 200
    assert live.show()["cause"] == "killed"


def test_a_terminal_is_talked_to_and_resized(server, session):
    live = start(server, session, argv=["bash", "--norc", "--noprofile", "-i"],
                 pty={"rows": 30, "cols": 99}, env={"PS1": "ready> "})
    live.wait_said(b"ready> ")
    live.write(b"stty size\n")
    live.wait_said(b"30 99")
    assert live.post("resize", {"rows": 40, "cols": 120}).status == 200
    live.write(b"stty size\n")
    live.wait_said(b"40 120")
    live.write(b"exit 7\n")
    assert live.wait_exited()["exit_code"] == 7


@pytest.mark.parametrize("size", [0, 65537, 3 * MIB + 7])
def test_bytes_of_files_come_back_as_they_went(server, session, size):
    content = os.urandom(size)
    assert server.upload(session, "a/b/f", content).status == 200
    assert server.stdout(session, "stat -c '%s %u %a' a/b/f") == f"{size} 1000 644\n"
    assert server.download(session, "a/b/f").body == content


def test_a_tree_goes_down_and_up_again_and_is_searched(server, session):
    base = f"/api/sessions/{session}/files"
    server.stdout(session, "mkdir -p d/e; echo alpha > d/one; printf 'beta two\\r\\n' > d/e/two;"
                           " mkfifo d/pipe; ln -s one d/link; chmod 750 d/e/two")
    found = server.post(f"{base}/search", {"pattern": "^b.ta two$", "regex": True}).json
    assert [(one["path"], one["line"]) for one in found["matches"]] == [("d/e/two", 1)]
    data = server.get(f"{base}/archive?path=d&format=tgz").body
    assert data.startswith(b"\x1f\x8b")
    reply = server.request("PUT", f"{base}/archive?path=copy", data)
    assert reply.status == 200 and reply.json["files"] == 3, reply
    told = server.stdout(session, "rm d/pipe; diff -r d copy && stat -c %a copy/e/two")
    assert told == "750\n"


def test_links_lead_nowhere(server, session):
    server.stdout(session, "ln -s / l; ln -s /etc/passwd p")
    for name in ("l/etc/passwd", "p", "nothing"):
        assert server.download(session, name).status in (400, 403, 404), name
    assert server.upload(session, "l/tmp/x", b"x").status in (400, 403)


def test_a_session_idle_for_too_long_is_ended_there_too(cloud, server):
    session = server.create(f"thread-{uuid.uuid4()}", timeout_minutes=0.02)
    server.wait_gone(session)
    wait_until(lambda: session not in server.machines(), "it is ended at E2B")


def test_connections_are_used_again(cloud, server, session):
    server.stdout(session, "true")
    before = cloud.connections
    for _ in range(10):
        server.stdout(session, "true")
    assert cloud.connections <= before + 2


def test_processes_outlive_the_server(start_cloud_server):
    server = start_cloud_server()
    session = server.create("t")
    live = start(server, session, "echo before; read x; echo after $x; read y; exit 5",
                 stdin_open=True, tag="mine")
    live.wait_said(b"before\n")
    done = start(server, session, "echo done; exit 4")
    done.wait_exited()
    server.restart()
    live, done = Live(server, session, live.number), Live(server, session, done.number)
    assert live.show()["state"] == "running" and live.show()["tag"] == "mine"
    assert done.show()["exit_code"] == 4 and done.output() == b"done\n"
    assert live.write(b"one\n").status == 200
    live.wait_said(b"after one\n")
    assert live.write(b"two\n").status == 200
    assert live.wait_exited()["exit_code"] == 5
    assert live.output() == b"before\nafter one\n"
    assert b"was lost here" in live.output("stderr")


def test_input_waits_until_what_it_calls_forth_is_heard(cloud, start_cloud_server):
    server = start_cloud_server()
    session = server.create("t")
    live = start(server, session, "echo before; read x; echo after $x", stdin_open=True)
    live.wait_said(b"before\n")
    slow = cloud.fail("slow", "process.Process/Connect")
    server.restart()
    live = Live(server, session, live.number)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        written = pool.submit(live.write, b"one\n")
        wait_until(lambda: cloud.count("POST", "Process/Connect"), "the stream is being opened")
        assert server.stdout(session, "echo others go on") == "others go on\n"
        slow.go.set()
        assert written.result().status == 200
    live.wait_exited()
    assert live.output() == b"before\nafter one\n"


def test_what_no_session_has_is_ended_by_the_next_server(cloud, start_cloud_server):
    server = start_cloud_server()
    session = server.create("t")
    stray = cloud.create({"templateID": "base", "timeout": 60,
                          "metadata": {"threadbox": server.tag(), "threadbox_session": "x"}})
    other = cloud.create({"templateID": "base", "timeout": 60,
                          "metadata": {"threadbox": "another server"}})
    server.restart()
    assert stray["sandboxID"] not in cloud.boxes and other["sandboxID"] in cloud.boxes
    assert server.stdout(session, "echo fine") == "fine\n"
    cloud.end(other["sandboxID"])
