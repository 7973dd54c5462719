# SPDX-License-Identifier: Apache-2.0
"""Settings from a file, the environment and flags; `threadbox config`; the log's level while a
server runs."""
import json
import os
import signal

import pytest

from server import Server, wait_until


@pytest.fixture
def idle(binary, tmp_path):
    return Server(state_dir=str(tmp_path / "state"))


def shown(server, *words):
    done = server.command("config", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_config_says_what_holds_and_where_it_was_said(idle, tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("# ours\nPOOL_SIZE=7\nMAX_POOL_SIZE=70\nWORKER_ID='w 1'\n")
    idle.settings = {"MAX_POOL_SIZE": "60", "THREADBOX_CONFIG": str(conf)}
    rows = shown(idle, "--port", "6000", "--memory-limit", "64m")
    assert rows["POOL_SIZE"] == {"value": "7", "origin": f"file {conf}:2"}
    assert rows["WORKER_ID"] == {"value": "w 1", "origin": f"file {conf}:4"}
    assert rows["MAX_POOL_SIZE"] == {"value": "60", "origin": "environment"}
    assert rows["PORT"] == {"value": "6000", "origin": "flag"}
    assert rows["HOST"] == {"value": "127.0.0.1", "origin": "default"}
    assert rows["STATE_DIR"] == {"value": idle.state_dir, "origin": "environment"}
    table = idle.command("config").stdout.splitlines()
    assert len(table) == len(rows)
    assert [line.split() for line in table if line.startswith("POOL_SIZE ")] == [
        ["POOL_SIZE", "7", "file", f"{conf}:2"]]
    assert not os.path.exists(idle.state_dir), "nothing is begun"


def test_a_secret_is_neither_shown_nor_a_flag(idle):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    idle.settings = {"WEBHOOK_SECRET": secret, "REDIS_PASSWORD": "hunter2"}
    text = idle.command("config").stdout + idle.command("config", "--json").stdout
    assert secret not in text and "hunter2" not in text
    refused = idle.command("config", "--webhook-secret", secret)
    assert refused.returncode != 0


@pytest.mark.parametrize("text,sentence", [
    ("PORTS=1\n", 'conf:1: "PORTS" is no setting'), ("\nPORT\n", "conf:2: must be NAME=VALUE"),
    ("PORT=99999\n", "PORT=99999: must be"), ("PORT=1\nPORT=2\n", "conf:2: PORT is given twice")])
def test_a_wrong_file_starts_nothing(idle, tmp_path, text, sentence):
    conf = tmp_path / "conf"
    conf.write_text(text)
    idle.settings = {}
    done = idle.command("serve", "--config", str(conf), seconds=20)
    assert done.returncode == 1 and sentence in done.stderr
    assert not os.path.exists(idle.state_dir)
    missing = idle.command("serve", "--config", str(tmp_path / "none"), seconds=20)
    assert missing.returncode == 1 and "none" in missing.stderr


def test_every_program_takes_the_settings(start_server, tmp_path):
    """A server that was told by flags is stopped by flags."""
    server = start_server()
    environment = server.settings
    server.settings = {"STATE_DIR": "/nonexistent"}
    try:
        done = server.command("stop", "--state-dir", server.state_dir)
        assert done.returncode == 0 and "nothing runs" not in done.stdout, done
        assert server.wait() == 0
    finally:
        server.settings = environment


def test_the_log_can_be_made_to_tell_all_while_the_server_runs(start_server):
    server = start_server(LOG_LEVEL="warning")
    server.create("quiet")
    assert "session_created" not in server.log()
    server.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: "event=log_level_changed to=debug" in server.log(), "it is told")
    server.create("loud")
    assert "session_created" in server.log()
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "event=log_level_changed to=LOG_LEVEL" in server.log(), "it is told")
    server.create("quiet again")
    assert server.log().count("session_created") == 1
