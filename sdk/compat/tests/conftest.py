# SPDX-License-Identifier: Apache-2.0
"""Drop-in modules against real sandboxes: of a server, and in-process where the SDK can do that.

tests/lib of the repository has a module ``server`` too, so it goes by another name here.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lib = load("threadbox_test_server", ROOT / "tests" / "lib" / "server.py")
time_limit = load("threadbox_time_limit", ROOT / "tests" / "lib" / "time_limit.py")
pytest_runtest_protocol = time_limit.pytest_runtest_protocol
LOCAL = importlib.util.find_spec("threadbox._native") is not None
NO_LOCAL = "local mode is not in this installation of the SDK"


@pytest.fixture(scope="session")
def binary():
    if os.geteuid() != 0:
        pytest.skip("sandboxes with all their barriers need root")
    if not lib.BINARY or not os.path.exists(lib.BINARY):
        pytest.fail("no binary: ./run --build-only, or set THREADBOX_BINARY")
    return lib.BINARY


@pytest.fixture(scope="session")
def made_server(binary):
    """One server for all, with the default policy, as the guides expect it."""
    shared = lib.Server(DEFAULT_POLICY="strict")
    try:
        yield shared.start()
        shared.close()
    finally:
        shared.remove()


@pytest.fixture(scope="session")
def url(made_server):
    return f"http://127.0.0.1:{made_server.port}"


@pytest.fixture(scope="session")
def state_dir(binary):
    """Of sandboxes in-process, which this fixture stops."""
    where = tempfile.mkdtemp(prefix="tb-compat-", dir=lib.PLACE)
    os.chmod(where, 0o711)
    yield where
    environment = {**os.environ, "STATE_DIR": where}
    subprocess.run([binary, "stop"], env=environment, timeout=60, check=True, capture_output=True)
    shutil.rmtree(where, ignore_errors=True)


@pytest.fixture(params=["remote", pytest.param("local", marks=pytest.mark.skipif(
    not LOCAL, reason=NO_LOCAL))])
def mode(request, monkeypatch):
    """Where sandboxes run. `arguments` are those of a client for it; a program that names no mode
    gets it from the environment."""
    for name in ("SANDBOX_MODE", "SANDBOX_URL", "SANDBOX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "remote":
        monkeypatch.setenv("SANDBOX_URL", request.getfixturevalue("url"))
    else:
        monkeypatch.setenv("STATE_DIR", request.getfixturevalue("state_dir"))
        monkeypatch.setenv("POOL_SIZE", "1")
        monkeypatch.setenv("MIN_POOL_SIZE", "1")
        monkeypatch.setenv("CPU_QUOTA", "100000")
    return request.param


@pytest.fixture
def arguments(mode):
    if mode == "local":
        return {"mode": "local"}
    return {"mode": "remote", "server_url": os.environ["SANDBOX_URL"]}


@pytest.fixture
def fresh(mode):
    """Modules that keep a client for the process begin anew: each mode has its own."""
    import orchestrator._boxes
    import sandbox_client
    import server

    def forget():
        server._instance = None
        orchestrator._boxes.client.cache_clear()
        sandbox_client._client.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def thread():
    """The name of a thread that no other test uses."""
    return f"conversation-{uuid.uuid4().hex}"


@pytest.fixture
def program():
    """Runs a Python program as users do: with the modules on its path, and nothing else."""

    def run(*words, **options):
        given = {"text": True, "capture_output": True, "timeout": 120, **options}
        return subprocess.run([sys.executable, "-B", *words], check=False, **given)

    return run
