# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of docs/integration.md run as written; its prompts are the package's."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("deepagents")

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "integration.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTS = ["0 3", "", "42", "copied 4 bytes", "persistent sandbox session"]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs(server, number):
    env = {**os.environ, "SANDBOX_URL": f"http://127.0.0.1:{server.port}"}
    run = subprocess.run([sys.executable, "-c", BLOCKS[number]], env=env, capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert PRINTS[number] in run.stdout


def test_prompts_are_quoted_to_the_letter():
    from threadbox.integrations import prompts

    for name in ("SYSTEM_PROMPT_BEFORE", "FILES_PROMPT_BEFORE", "SYSTEM_PROMPT", "FILES_PROMPT"):
        assert f"```text\n{getattr(prompts, name)}```" in PAGE, name
