#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemathesis against a server of its own: whatever it sends, no 5xx and no answer that the
description does not have.

    run.py --tools DIR [--seconds 600] [--seed N] [-- more options for schemathesis]

DIR is the bin of an environment with schemathesis; `./test schemathesis` makes one."""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from server import Server  # noqa: E402

CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_headers_conformance,response_schema_conformance")
# WebSockets are no requests with an answer; the others follow what may never end.
LEFT_OUT = "attach,startAndAttach"
SETTINGS = {"POOL_SIZE": "4", "MAX_POOL_SIZE": "400", "SESSION_TIMEOUT_MINUTES": "1",
            "LOG_LEVEL": "warning", "AUDIT_MAX_BYTES": "1m", "MAX_VOLUMES_PER_USER": "1000"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int)
    parser.add_argument("more", nargs="*")
    options = parser.parse_args()
    server = Server(**SETTINGS).start()
    try:
        command = [str(options.tools / "schemathesis"), "run", "--no-color",
                   f"http://127.0.0.1:{server.port}/openapi.json", "--checks", CHECKS,
                   "--phases", "examples,coverage,fuzzing", "--max-time", str(options.seconds),
                   "--suppress-health-check", "all", "--request-timeout", "60",
                   "--continue-on-failure", "--generation-database", "none"]
        for name in LEFT_OUT.split(","):
            command += ["--exclude-operation-id", name]
        if options.seed is not None:
            command += ["--seed", str(options.seed)]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE),
                       "THREADBOX_URL": f"http://127.0.0.1:{server.port}"}
        code = subprocess.run(command + options.more, env=environment, cwd="/tmp").returncode
        died = server.process.poll() is not None
        print(server.log()[-2000:] if died or code else "the server lives")
    finally:
        server.remove()
    return 1 if code or died else 0


if __name__ == "__main__":
    sys.exit(main())
