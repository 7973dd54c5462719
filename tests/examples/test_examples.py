# SPDX-License-Identifier: Apache-2.0
"""Each example runs as it is, against a real server, and prints what it should."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("deepagents")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SAYS = {
    "bash_tool": [
        "persistent sandbox session",
        "[0] coffee 4\ntea 8\n",
        "[1] cat: missing.csv: No such file",
        "refused: ",
        "another conversation sees ''",
    ],
    "langchain_agent": ["agent: The amounts are in amounts.txt.", "agent: The sum is 142."],
    "langgraph_agent": ["ada: It says: hello-from-ada", "bob: It says: hello-from-bob"],
    "deep_agent": ["execute: total 45", "/workspace/src/sum.py", "Now it prints: total 55"],
    "composite_backend": [
        "copied 34 bytes from /store/sales.csv to /workspace/sales.csv",
        "the workspace is gone: []",
        "the store has: ['coffee,75', 'cocoa,41']",
    ],
}


@pytest.fixture(scope="module")
def strict(binary):
    """With the policy that sessions have unless told."""
    import server as lib

    made = lib.Server(DEFAULT_POLICY="strict")
    try:
        yield made.start()
        made.close()
    finally:
        made.remove()


@pytest.mark.parametrize("name", SAYS)
def test_example(strict, name):
    env = {**os.environ, "SANDBOX_URL": f"http://127.0.0.1:{strict.port}"}
    env.pop("SANDBOX_MODE", None)
    run = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], env=env, capture_output=True, text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    place = 0
    for text in SAYS[name]:
        assert text in run.stdout[place:], run.stdout
        place = run.stdout.index(text, place)


def test_every_example_is_tested():
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"scripted_model"}
    assert programs == set(SAYS)
