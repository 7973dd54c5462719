# SPDX-License-Identifier: Apache-2.0
"""API keys: made, shown once, listed, revoked, and what a server makes of them while it runs."""
import json
import os
import stat

import pytest

from keys import make_key
from server import Server, wait_until


@pytest.fixture
def idle(binary):
    box = Server()
    try:
        yield box
    finally:
        box.remove()


def status(server, key, path="/api/sessions"):
    return server.get(path, headers={"Authorization": f"Bearer {key}"}).status


def test_a_key_is_shown_once_and_listed_without_its_secret(idle):
    made = idle.command("keys", "create", "--tenant", "acme", "--role", "readonly", "--name",
                        "for ci", "--expires", "30d", "--scope", "sessions,volumes", "--json")
    key = json.loads(made.stdout)
    assert key["key"].startswith(f"tb_{key['id']}_") and len(key["key"]) == 59
    assert (key["tenant"], key["role"], key["name"]) == ("acme", "readonly", "for ci")
    listed = idle.command("keys", "list")
    assert key["id"] in listed.stdout and key["key"][16:] not in listed.stdout
    rows = json.loads(idle.command("keys", "list", "--json").stdout)
    assert [row["id"] for row in rows] == [key["id"]] and rows[0]["state"] == "active"
    assert "key" not in rows[0] and rows[0]["scopes"] == "sessions,volumes"
    place = os.path.join(idle.state_dir, "auth")
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(place, "keys.db")).st_mode) == 0o600


@pytest.mark.parametrize("words", [
    ["--role", "root"], ["--tenant", "a b"], ["--expires", "soon"], ["--expires", "0d"],
    ["--expires", "99999999999999999999d"], ["--scope", "everything"], ["--name", "x" * 201]])
def test_what_is_wrong_makes_no_key(idle, words):
    done = idle.command("keys", "create", *words)
    assert done.returncode == 1 and done.stderr.startswith("threadbox: ") and not done.stdout
    assert json.loads(idle.command("keys", "list", "--json").stdout) == []


def test_revoking_what_is_not_there_is_an_error(idle):
    done = idle.command("keys", "revoke", "000000000000")
    assert done.returncode == 1 and "keys list" in done.stderr


def test_a_running_server_sees_keys_come_and_go(start_server):
    server = start_server()
    session = server.create("t")
    first, second = make_key(server, role="user"), make_key(server, role="user")
    wait_until(lambda: server.get("/api/sessions").status == 401, "a key is asked for")
    assert status(server, first) == status(server, second) == 200
    server.key = first
    assert server.stdout(session, "echo still here") == "still here\n"
    assert server.command("keys", "revoke", first).returncode == 0
    wait_until(lambda: status(server, first) == 401, "it is revoked")
    reply = server.get("/api/sessions")
    assert "revoked" in reply.json["error"] and first not in reply.body.decode()
    assert status(server, second) == 200
    assert server.command("keys", "revoke", second).returncode == 0
    wait_until(lambda: status(server, second) == 401, "the last one is revoked")
    server.key = None
    assert server.get("/api/sessions").status == 401
    assert server.get("/health").status == 200


def test_sessions_of_tenants_outlive_the_server_and_stay_theirs(start_server):
    server = start_server()
    keys = {tenant: make_key(server, tenant=tenant) for tenant in ("one", "two")}
    sessions = {}
    for tenant, server.key in keys.items():
        wait_until(lambda: server.get("/api/sessions").status == 200, "the key counts")
        sessions[tenant] = server.create("same")
        server.stdout(sessions[tenant], f"echo {tenant} > who")
    server.restart()
    for tenant, server.key in keys.items():
        assert server.create("same") == sessions[tenant]
        assert server.stdout(sessions[tenant], "cat who") == tenant + "\n"
    # What the store forgot, the labels of the sandboxes still know.
    server.terminate()
    os.unlink(server.state_dir + "/store/threadbox.db")
    server.start()
    for tenant, server.key in keys.items():
        assert server.create("same") == sessions[tenant]
        assert server.try_execute(sessions["one"], "true").status == (
            200 if tenant == "one" else 404)


def test_with_keys_a_server_may_listen_for_everybody(binary):
    server = Server(HOST="0.0.0.0")
    try:
        key = make_key(server)
        server.start()
        assert server.lines[2].startswith("access: with one of 1 API keys")
        assert (server.get("/api/sessions").status, status(server, key)) == (401, 200)
        server.close()
    finally:
        server.remove()


def test_an_expired_key_says_so(start_server):
    server = start_server()
    key = make_key(server, expires="1s")
    wait_until(lambda: status(server, key) == 401, "it has expired")
    reply = server.get("/api/sessions", headers={"Authorization": f"Bearer {key}"})
    assert "expired" in reply.json["error"]
    assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]


def test_a_damaged_file_of_keys_lets_no_server_start(idle):
    make_key(idle)
    with open(idle.state_dir + "/auth/keys.db", "r+b") as file:
        file.write(b"no database any more")
    done = idle.command("serve")
    assert done.returncode == 1 and "keys.db" in done.stderr
    idle.command("stop")
