# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/migrating.md: they are run as they stand there."""

import re

import pytest
from conftest import ROOT

TEXT = (ROOT / "docs" / "migrating.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_there_are_examples_for_all():
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[0])
def test_an_example_runs(example, url, made_server, program, tmp_path, monkeypatch):
    monkeypatch.setenv("SANDBOX_URL", url)
    before = made_server.health()["active_sessions"]
    (tmp_path / "example.py").write_text(example.replace("http://localhost:5000", url))
    done = program("example.py", cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr, done
    assert made_server.health()["active_sessions"] == before
