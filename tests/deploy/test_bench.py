# SPDX-License-Identifier: Apache-2.0
"""bench/run.py, a few rounds of it: what it measures is all there. No test looks at the times."""
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

RUN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "run.py"
GROUPS = {
    "request": ["execute-true-p50-shells-ahead", "execute-cat-p50-prestart_seconds",
                "execute-true-p99-default-cpu_quota", "engine-true", "engine-true-fresh",
                "execute-back-to-back"],
    "transfer": ["upload", "download", "transfer-memory"],
    "leak": ["leak-memory", "leak-keeper", "leak-left"],
}


@pytest.fixture(scope="module")
def result(binary, tmp_path_factory):
    if not shutil.which("nginx"):
        pytest.skip("there is no nginx: install nginx-light (setup.sh: need deploy)")
    out = tmp_path_factory.mktemp("bench")
    words = [sys.executable, RUN, "--quick", "--rounds", "3", "--out", out]
    for group in GROUPS:
        words += ["--only", group]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((out / "run.json").read_text()), (out / "run.html").read_text()


def test_every_row_of_a_group_is_measured(result):
    _, run, _ = result
    assert run["skipped"] == []
    rows = {row["id"]: row for row in run["rows"]}
    for names in GROUPS.values():
        for name in names:
            row = rows[name]
            assert row["kind"] == "limit" or row["measure"] > 0, row
    assert rows["leak-left"]["measure"] == 0, run["details"]


def test_the_json_has_the_samples(result):
    _, run, _ = result
    assert run["format"] == 1 and run["machine"]["cores"] > 0
    for row in run["rows"]:
        for name in filter(None, (row["ours"], row["theirs"])):
            told = run["series"][name]
            assert len(told["samples"]) == told["count"] > 0 and told["unit"], name
    ours = run["series"]["/execute true, shells ahead"]
    assert ours["count"] == 3 and ours["unit"] == "us"
    assert ours["p50"] == pytest.approx(sorted(ours["samples"])[1], rel=1e-4)


def test_the_table_and_the_page_show_every_row(result):
    text, run, page = result
    for row in run["rows"]:
        assert row["title"] in text
    # The other rows have series of their own, so that each of them has a picture.
    assert page.count("<section") == len({(row["ours"], row["theirs"]) for row in run["rows"]})
