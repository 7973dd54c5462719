# SPDX-License-Identifier: Apache-2.0
"""Sessions and their sandboxes over time: idle times, deaths of servers, the way back."""
import uuid

from live import Live, start
from server import wait_until


def thread():
    return f"thread-{uuid.uuid4()}"


def test_the_same_thread_finds_its_files(server):
    name = thread()
    first = server.create(name)
    server.stdout(first, "echo mine > f")
    again = server.create(name)
    assert again == first and server.stdout(again, "cat f") == "mine\n"
    server.cleanup(first)
    assert server.try_execute(first, "true").status == 404


def test_an_idle_session_goes(server):
    session = server.create(thread(), timeout_minutes=0.02)
    server.wait_gone(session)
    assert server.try_execute(session, "true").status == 404


def test_a_command_outlives_the_server(own_server):
    server = own_server(POOL_SIZE=0)
    session = server.create("t")
    live = start(server, session, "echo before; read x; echo after $x; read y; exit 5",
                 stdin_open=True, tag="mine")
    live.wait_said(b"before\n")
    server.restart()
    live = Live(server, session, live.number)
    assert live.show()["state"] == "running" and live.show()["tag"] == "mine"
    assert live.output() == b"before\n"
    assert live.write(b"one\n").status == 200
    live.wait_said(b"after one\n")
    server.restart()
    live = Live(server, session, live.number)
    assert live.write(b"two\n").status == 200
    assert live.wait_exited()["exit_code"] == 5
    assert live.output() == b"before\nafter one\n"


def test_what_is_printed_while_no_server_is_there_is_not_lost(own_server):
    server = own_server(POOL_SIZE=0)
    session = server.create("t")
    command = "echo go; read x < start; for i in $(seq 3000); do echo line $i; done; exit 3"
    server.execute(session, "mkfifo start")
    live = start(server, session, command)
    live.wait_said(b"go\n")
    # A second one writes while nobody listens: it waits for the file, not for us.
    opener = start(server, session, "while [ ! -e now ]; do sleep 0.05; done; echo > start")
    server.upload(session, "now", b"")
    server.kill9()
    server.start()
    live = Live(server, session, live.number)
    assert live.wait_exited(60)["exit_code"] == 3
    text = "go\n" + "".join(f"line {i}\n" for i in range(1, 3001))
    assert live.output() == text.encode()
    assert Live(server, session, opener.number).wait_exited()["exit_code"] == 0


def test_a_torrent_of_output_survives_a_server_that_dies_in_it(own_server):
    server = own_server(POOL_SIZE=0)
    session = server.create("t")
    live = start(server, session, "seq 1 300000; exit 4")
    for _ in range(3):
        wait_until(lambda: live.show()["stdout_bytes"] > 0, "it prints")
        server.restart()
        live = Live(server, session, live.number)
    assert live.wait_exited(60)["exit_code"] == 4
    assert live.output() == "".join(f"{n}\n" for n in range(1, 300001)).encode()


def test_an_end_that_no_server_saw_is_known_to_the_next(own_server):
    server = own_server(POOL_SIZE=0)
    session = server.create("t")
    live = start(server, session, "while [ ! -e now ]; do sleep 0.02; done; exit 9")
    server.upload(session, "now", b"")
    server.kill9()
    server.start()
    assert Live(server, session, live.number).wait_exited()["exit_code"] == 9


def test_a_terminal_outlives_the_server(own_server):
    server = own_server(POOL_SIZE=0)
    session = server.create("t")
    live = start(server, session, argv=["bash", "--norc", "--noprofile", "-i"], pty=True,
                 env={"PS1": "ready> "})
    live.wait_said(b"ready> ")
    live.write(b'x=41; echo s""et\n')
    live.wait_said(b"set\r\n")
    server.restart()
    live = Live(server, session, live.number)
    live.write(b"echo $((x + 1))\n")
    live.wait_said(b"42\r\n")
    assert live.post("resize", {"rows": 33, "cols": 44}).status == 200
    live.write(b"stty size\n")
    live.wait_said(b"33 44")


def test_a_stop_ends_what_runs_and_keeps_the_files(own_server):
    server = own_server(POOL_SIZE=0)
    session = server.create("t")
    server.stdout(session, "echo kept > f; sleep 5000 > /dev/null 2>&1 &")
    server.stop()
    server.start()
    assert server.stdout(session, "cat f") == "kept\n"
    assert server.execute(session, "ps -eo args | grep '[s]leep 5000'")["exit_code"] == 1


def test_status_tells_what_a_sandbox_takes(server, session):
    server.stdout(session, "true")
    reply = server.get(f"/status/{session}")
    assert reply.status == 200, reply
