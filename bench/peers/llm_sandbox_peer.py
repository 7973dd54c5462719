# SPDX-License-Identifier: Apache-2.0
"""llm-sandbox of PyPI on Docker: does one thing for each line of stdin, and answers `done`."""
import os
import sys

from llm_sandbox import SandboxBackend, SandboxSession

# Ends at once when it is told to: the engine would wait ten seconds for a PID 1 that is not.
WAITS = "trap 'exit 0' TERM; sleep infinity & wait"


def opened():
    session = SandboxSession(backend=SandboxBackend.DOCKER, lang="python",
                             image=os.environ["CONTAINER_IMAGE"], skip_environment_setup=True,
                             keep_template=True, workdir="/workspace",
                             runtime_configs={"network_mode": "none", "mem_limit": "256m",
                                              "command": ["bash", "-c", WAITS]})
    session.open()
    return session


def execute(session):
    told = session.execute_command("true")
    if told.exit_code != 0:
        raise RuntimeError(f"true ended with {told}")


def main():
    kept = None
    for line in sys.stdin:
        word = line.strip()
        if word == "open":
            kept = opened()
        elif word == "exec":
            execute(kept)
        elif word == "run":
            session = opened()
            execute(session)
            session.close()
        elif word == "close":
            kept.close()
        print("done", flush=True)


if __name__ == "__main__":
    main()
