# SPDX-License-Identifier: Apache-2.0
"""The settings of callbacks: their secret, and what is wrong with others."""
import os
import stat

import pytest

from live import start
from receiver import KEY, Receiver, verify
from server import Server


@pytest.fixture
def receiver():
    with Receiver() as one:
        yield one


def test_a_secret_is_made_once_and_kept_to_its_owner(start_server, receiver):
    server = start_server(WEBHOOK_ALLOW_PRIVATE="true")
    path = os.path.join(server.state_dir, "webhook.secret")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    shown = server.command("secret")
    assert shown.returncode == 0 and shown.stdout.startswith("whsec_"), shown
    secret = shown.stdout.strip()
    assert "webhook_secret_made" in server.log() and secret not in server.log()
    start(server, server.create(), "true", notify_url=receiver.base)
    server.restart()
    start(server, server.create(), "true", notify_url=receiver.base)
    receiver.wait(2)
    assert all(verify(secret, one.headers, one.body) for one in receiver.got)


def test_a_secret_of_a_file_and_bad_settings(start_server, receiver, tmp_path):
    place = tmp_path / "secret"
    place.write_text(KEY + "\n")
    server = start_server(WEBHOOK_ALLOW_PRIVATE="true", WEBHOOK_SECRET_FILE=place)
    assert server.command("secret").stdout == KEY + "\n"
    start(server, server.create(), "true", notify_url=receiver.base)
    assert verify(KEY, receiver.wait()[0].headers, receiver.got[0].body)
    bad = Server(WEBHOOK_SECRET="whsec_c2hvcnQ=", WEBHOOK_ALLOW_NETWORKS="10.0.0.0/33",
                     WEBHOOK_DNS_SERVERS="nobody.example", WEBHOOK_RETRY_SECONDS="5,0")
    done = bad.command("serve")
    assert done.returncode == 1
    for name in ("WEBHOOK_SECRET=…", "WEBHOOK_ALLOW_NETWORKS=10.0.0.0/33", "WEBHOOK_DNS_SERVERS=",
                 "WEBHOOK_RETRY_SECONDS=5,0"):
        assert name in done.stderr, done.stderr
    assert "c2hvcnQ" not in done.stderr
    bad.settings = {"WEBHOOK_CA_FILE": str(tmp_path / "none.pem")}
    done = bad.command("serve")
    bad.remove()
    assert done.returncode == 1 and "WEBHOOK_CA_FILE=" in done.stderr, done
