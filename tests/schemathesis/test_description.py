# SPDX-License-Identifier: Apache-2.0
"""schemathesis against a server of its own: whatever it sends, no 5xx and no answer that the
description does not have. SECONDS_OF_IT and SEED of the environment say how long and which way."""
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / "build" / "schemathesis-venv" / "bin"
WANTED = "schemathesis>=4,<5"
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_headers_conformance,response_schema_conformance")
# WebSockets are no requests with an answer.
LEFT_OUT = ("attach", "startAndAttach")
SETTINGS = {"POOL_SIZE": "4", "MAX_POOL_SIZE": "400", "SESSION_TIMEOUT_MINUTES": "1",
            "LOG_LEVEL": "warning", "AUDIT_MAX_BYTES": "1m", "MAX_VOLUMES_PER_USER": "1000"}


@pytest.fixture(scope="module")
def tool():
    program = TOOLS / "schemathesis"
    if not program.exists():
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(TOOLS.parent)])
        if made.returncode or subprocess.run([TOOLS / "pip", "install", "-q", WANTED]).returncode:
            pytest.skip("schemathesis can't be installed here (python3-venv, a package index)")
    return str(program)


def test_every_answer_is_as_described(tool, start_server):
    server = start_server(**SETTINGS)
    url = f"http://127.0.0.1:{server.port}"
    command = [tool, "run", "--no-color", f"{url}/openapi.json", "--checks", CHECKS,
               "--phases", "examples,coverage,fuzzing", "--continue-on-failure",
               "--max-time", os.environ.get("SECONDS_OF_IT", "600"), "--request-timeout", "60",
               "--suppress-health-check", "all", "--generation-database", "none",
               "--warnings", "off", "--mode", "all"]
    for name in LEFT_OUT:
        command += ["--exclude-operation-id", name]
    if "SEED" in os.environ:
        command += ["--seed", os.environ["SEED"]]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE),
                   "THREADBOX_URL": url}
    code = subprocess.run(command, env=environment, cwd="/tmp").returncode
    assert server.process.poll() is None, server.log()[-3000:]
    assert code == 0, "what it found is above"
