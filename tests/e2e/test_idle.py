# SPDX-License-Identifier: Apache-2.0
"""A session is there for as long as it is used, and then all of it goes."""
import concurrent.futures
import contextlib
import datetime
import json
import os
import socket
import sqlite3
import time
import uuid

from server import wait_until


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def status_of(server, session):
    reply = server.get(f"/status/{session}")
    return reply.json if reply.status == 200 else None


def thread():
    return f"thread-{uuid.uuid4()}"


def test_each_session_has_its_own_idle_time(server):
    began = time.monotonic()
    short = server.create(thread(), timeout_minutes=0.01)    # 0.6 s
    longer = server.create(thread(), timeout_minutes=0.05)  # 3 s
    server.wait_gone(short)
    assert server.exists(longer)
    server.wait_gone(longer)
    assert 3 <= time.monotonic() - began < 6


def test_expiry_takes_session_thread_sandbox_files_and_row(start_server):
    server = start_server(POOL_SIZE=0)
    session = server.create("t", timeout_minutes=0.02)
    server.stdout(session, "echo x > f; sleep 99 & echo $!")
    server.wait_gone(session)
    assert server.get("/get_session?thread_id=t").status == 404
    assert status_of(server, session) is None
    assert server.sandbox_pids(session) == []
    assert not any(os.path.exists(f"{top}/{session}") for top in server.cgroups())
    assert os.listdir(f"{server.state_dir}/sandboxes") == []
    assert os.listdir(f"{server.state_dir}/output") == []
    assert server.health()["pool"]["allocated"] == 0
    assert f"event=session_expired user=tester thread=t session={session[:12]}" in server.log()
    server.terminate()
    with contextlib.closing(sqlite3.connect(f"{server.state_dir}/store/threadbox.db")) as rows:
        assert rows.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
        kinds = [kind for kind, in rows.execute("SELECT kind FROM events ORDER BY number")]
    assert kinds == ["session_created", "session_expired"]
    server.start()


USES = {"execute": lambda server, session, _: server.stdout(session, "true"),
        "upload": lambda server, session, _: server.upload(session, "f", b"x"),
        "download": lambda server, session, _: server.download(session, "f")}
LOOKS = {"list_files": lambda server, session, _: server.get(f"/list_files?session_id={session}"),
         "get_session": lambda server, _, name: server.get(f"/get_session?thread_id={name}"),
         "status": lambda server, session, _: server.get(f"/status/{session}"),
         "create_session": lambda server, _, name: server.post("/create_session",
                                                               {"thread_id": name})}


def test_use_renews_the_idle_time(server):
    def use(how):
        name = thread()
        session = server.create(name, timeout_minutes=0.03)  # 1.8 s
        server.upload(session, "f", b"x")
        began = time.monotonic()
        while time.monotonic() - began < 4:
            USES[how](server, session, name)
            time.sleep(0.3)  # the idle time between two uses
        status = status_of(server, session)
        assert seconds_of(status["last_activity"]) - seconds_of(status["created_at"]) >= 3, how
        server.wait_gone(session)

    with concurrent.futures.ThreadPoolExecutor(len(USES)) as pool:
        list(pool.map(use, USES))


def test_looking_does_not_renew_it(server):
    def look(how):
        name = thread()
        session = server.create(name, timeout_minutes=0.03)
        began = time.monotonic()
        activity = status_of(server, session)["last_activity"]
        while server.exists(session):
            status = status_of(server, session)
            assert status is None or status["last_activity"] == activity, how
            if status:
                LOOKS[how](server, session, name)
            time.sleep(0.2)  # somebody who looks again and again
            assert time.monotonic() - began < 6, how

    with concurrent.futures.ThreadPoolExecutor(len(LOOKS)) as pool:
        list(pool.map(look, LOOKS))


def test_a_command_is_not_cut_because_a_later_one_ended(server):
    session = server.create(timeout_minutes=0.02)  # 1.2 s
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.execute, session, "sleep 4; echo done", timeout=60)
        wait_until(lambda: server.processes(session), "it runs")
        assert server.stdout(session, "echo second") == "second\n"
        server.upload(session, "f", b"x")
        assert running.result()["stdout"] == "done\n"
    server.wait_gone(session)


def test_a_command_that_outlives_its_server_is_not_cut_by_one_that_ends(start_server):
    server = start_server()
    session = server.create("t", timeout_minutes=0.02)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(server.execute_and_forget, session, "echo begun; sleep 5; echo done")
        wait_until(lambda: any(row["stdout_bytes"] for row in server.processes(session)), "it runs")
        server.kill9()
    server.start()
    number = server.processes(session)[0]["process_id"]
    assert server.stdout(session, "echo second") == "second\n"
    assert server.wait_exited(session, number)["exit_code"] == 0
    assert server.output(session, number) == b"begun\ndone\n"
    server.wait_gone(session)


def test_a_command_that_could_not_start_does_not_keep_it(server):
    session = server.create(timeout_minutes=0.01)
    assert server.try_execute(session, "true", cwd="/nowhere", timeout=600).status == 400
    server.wait_gone(session)


def upload_slowly(server, minutes):
    session = server.create(timeout_minutes=minutes)
    head = (b"--b\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n%s\r\n--b\r\n"
            b"Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
            % session.encode())
    tail = b"\r\n--b--\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        client.sendall(b"POST /upload_file HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/"
                       b"form-data; boundary=b\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(head) + 4000 + len(tail), head))
        for _ in range(4):
            client.sendall(b"x" * 1000)
            time.sleep(1)  # the slow client
        client.sendall(tail)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert server.stdout(session, "wc -c < f").strip() == "4000"
    server.wait_gone(session)


def download_slowly(server, minutes):
    session = server.create(timeout_minutes=minutes)
    size = 20 << 20
    server.stdout(session, f"truncate -s {size} f")
    body = json.dumps({"session_id": session, "filename": "f"}).encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"POST /download_file HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(body), body))
        assert client.recv(1)
        time.sleep(4)  # the slow client
        assert server.exists(session)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        got = 1
        while got < size:
            part = client.recv(1 << 20)
            assert part, got
            got += len(part)
    server.wait_gone(session)


def test_slow_uploads_and_downloads_keep_their_sessions(server):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(transfer, server, minutes) for minutes in (0.01, 0.03)
                       for transfer in (upload_slowly, download_slowly)]:
            future.result()


def test_work_in_the_background_keeps_its_session_and_sleep_does_not(server):
    busy = server.create(timeout_minutes=0.03)  # 1.8 s
    idle = server.create(timeout_minutes=0.03)
    server.stdout(busy, "(while [ ! -e stop ]; do :; done) > /dev/null 2>&1 & echo")
    server.stdout(idle, "sleep 99 > /dev/null 2>&1 & echo")
    server.wait_gone(idle)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert server.exists(busy)
        time.sleep(0.1)  # nobody uses it
    open(f"/proc/{server.guest_pid(busy)}/root/workspace/stop", "w").close()
    server.wait_gone(busy)
