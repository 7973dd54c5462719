# SPDX-License-Identifier: Apache-2.0
"""Servers as their users start them, and clients that don't know what they talk to."""
import pathlib
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import requests

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = HERE / "clients"
sys.path.insert(0, str(CLIENTS))

import answers  # noqa: E402
import recorder as recording  # noqa: E402
import server as lib  # noqa: E402

# Of the settings of other tests only these: whatever decides about commands stays at its default.
KEPT = ("PORT", "POOL_SIZE", "MAX_POOL_SIZE", "CPU_QUOTA", "LOG_LEVEL")


def make_server(**settings):
    made = lib.Server()
    made.settings = {n: value for n, value in made.settings.items() if n in KEPT}
    made.settings.update({name: str(value) for name, value in settings.items()})
    return made


@pytest.fixture(scope="session")
def server(binary):
    """One server for all; hides the one of tests/conftest.py."""
    shared = make_server()
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture
def start_server(binary):
    """Starts servers with settings of their own, and answers their URLs."""
    servers = []

    def start(**settings):
        servers.append(make_server(**settings))
        return f"http://127.0.0.1:{servers[-1].start().port}"

    try:
        yield start
        for one in servers:
            one.close()
    finally:
        for one in servers:
            one.remove()


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def session(url):
    """A session without a thread, as the older clients have it."""
    name = answers.create(url)
    yield name
    answers.cleanup(url, name)


@pytest.fixture
def recorder():
    made = recording.Recorder()
    yield made
    made.close()


@pytest.fixture
def calls(monkeypatch):
    """What clients ask through `requests`, and what came back: (method, path, status) each;
    `calls.timeouts` are the time limits they set."""
    class Calls(list):
        timeouts = {}

    made = Calls()
    original = requests.sessions.Session.request

    def request(self, method, url, **options):
        path = urlsplit(url).path
        made.timeouts = {**made.timeouts, path: options.get("timeout")}
        response = original(self, method, url, **options)
        made.append((method.upper(), path, response.status_code))
        return response

    monkeypatch.setattr(requests.sessions.Session, "request", request)
    return made


@pytest.fixture
def program():
    """Runs a client as its users do: a program of its own."""
    def run(name, *arguments, stdin=""):
        return subprocess.run([sys.executable, "-B", str(CLIENTS / name), *arguments],
                              input=stdin, text=True, capture_output=True, timeout=120)
    return run
