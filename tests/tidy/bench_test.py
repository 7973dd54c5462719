# SPDX-License-Identifier: Apache-2.0
"""What bench/ makes of samples: the verdicts, the page, and what compare calls worse."""
import argparse
import html.parser
import json
import pathlib
import random
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import compare  # noqa: E402
import page  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
import series  # noqa: E402
import stats  # noqa: E402

MACHINE = {"processor": "<AMD>", "cores": 2, "memory_gib": 24.0, "kernel": "6.1", "cgroup": 2,
           "distribution": "Debian", "revision": "abc", "load_before": 0.1,
           "date": "2026-01-02T03:04:05Z"}
SIZES = {"rounds": 400, "sessions": 500, "commands": 1000, "churn": 10}
OURS, BARE = "/execute true, shells ahead", "bare true, beside shells ahead"


def run_of(seed, slower=1.0, spread=0.1, left=0, samples=400):
    """A run in which ours takes 0.5 ms and the bare host 1.5 ms, more or less."""
    choose = random.Random(seed)
    measured = series.Measured()
    measured.extend(OURS, [choose.gauss(500, 500 * spread) * slower for _ in range(samples)])
    measured.extend(BARE, [choose.gauss(1500, 1500 * spread) for _ in range(samples)])
    measured.extend("upload 100 MB", [100 / slower] * 3, "MB/s")
    measured.extend("nginx upload 100 MB", [110.0] * 3, "MB/s")
    measured.add("things left", left, "things")
    measured.skip("podman", "not here: <sorry>")
    return report.to_json(measured, argparse.Namespace(**SIZES), MACHINE, 1)


def row_of(run, name):
    return next(row for row in run["rows"] if row["id"] == name)


def verdicts(old, new):
    changes, _ = compare.compared(old, new)
    return {one.id: one.verdict for one in changes}


def test_a_row_is_judged_by_its_ratio():
    row = row_of(run_of(1), "execute-true-p50-shells-ahead")
    assert 0.31 < row["measure"] < 0.36 and row["held"] is True
    assert row["interval"][0] <= row["measure"] <= row["interval"][1]
    assert row_of(run_of(1, slower=2), "execute-true-p50-shells-ahead")["held"] is False
    upload = row_of(run_of(1, slower=2), "upload")
    assert (upload["measure"], upload["held"]) == (pytest.approx(50 / 110), False)


def test_rows_without_samples_are_not_there():
    names = {row["id"] for row in run_of(1)["rows"]}
    assert "docker-exec" not in names and "upload" in names and "download" not in names


def test_a_run_that_is_smaller_than_asked_holds_nothing():
    row = row_of(run_of(1, left=3), "leak-left")
    assert row["held"] is None and row["note"] == "asked for with --commands 1000000"


def test_all_rows_have_names_of_their_own():
    names = [row.id for row in rows.all_rows(argparse.Namespace(**SIZES), 1)]
    assert len(names) == len(set(names))


def test_samples_that_are_kept_are_bounded_and_in_order():
    kept = stats.thinned(range(100_000))
    assert len(kept) == stats.KEPT and kept == sorted(kept) and kept[-1] > 99_900
    many = series.Series("us", range(1, 100_001)).to_json()
    assert many["count"] == 100_000 and len(many["samples"]) == stats.KEPT
    assert many["p99"] == 99_000


def test_the_same_again_is_neither_worse_nor_better():
    assert set(verdicts(run_of(1), run_of(2)).values()) == {"same"}


def test_what_got_slower_is_worse_and_what_got_faster_better():
    name = "execute-true-p50-shells-ahead"
    slow = verdicts(run_of(1), run_of(2, slower=1.3))
    assert (slow[name], slow["upload"]) == ("worse", "worse")
    fast = verdicts(run_of(1, slower=1.3), run_of(2))
    assert (fast[name], fast["upload"]) == ("better", "better")


def test_noise_is_not_called_worse():
    old, new = run_of(1, spread=0.5, samples=20), run_of(2, slower=1.1, spread=0.5, samples=20)
    assert verdicts(old, new)["execute-true-p50-shells-ahead"] == "same"


def test_a_drift_widens_the_interval():
    """Neighbours that are alike count for less than as many samples of their own."""
    choose = random.Random(3)
    steady = [choose.gauss(100, 20) for _ in range(400)]
    drifting = sorted(steady)

    def width(samples):
        low, high = stats.interval([a for a, _ in stats.drawn(samples, None, ("p50", "p50"))])
        return high - low
    assert width(drifting) > 2 * width(steady)


def test_one_thing_more_that_is_left_is_worse():
    assert verdicts(run_of(1), run_of(2, left=1))["leak-left"] == "worse"
    assert verdicts(run_of(1, left=1), run_of(2, left=1))["leak-left"] == "same"


@pytest.mark.parametrize("slower, code", [(1.0, 0), (1.4, 1)])
def test_compare_ends_with_1_when_a_row_got_worse(tmp_path, slower, code):
    for name, run in (("old", run_of(1)), ("new", run_of(2, slower=slower))):
        (tmp_path / name).write_text(json.dumps(run))
    done = subprocess.run([sys.executable, BENCH / "run.py", "compare", tmp_path / "old",
                           tmp_path / "new"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("worse " in done.stdout) == bool(code)


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.all = [], []

    def handle_starttag(self, tag, attributes):
        self.all.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.all.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def held_to_be_a_page(text):
    """Well-formed, with a picture of each pair of series, and nothing that is loaded."""
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    for tag, attributes in tags.all:
        assert tag not in ("script", "link", "img", "iframe"), tag
        assert not {"src", "href", "onload", "onclick"} & set(attributes), attributes
    assert not re.search(r"url\(|@import|https?:", text)
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    for picture in pictures:
        xml.etree.ElementTree.fromstring(picture)
    return pictures


def test_the_page_needs_nothing_else():
    run = run_of(1)
    pictures = held_to_be_a_page(page.to_html(run))
    pairs = {(row["ours"], row["theirs"]) for row in run["rows"]
             if run["series"][row["ours"]]["count"] > 1}
    assert len(pictures) == len(pairs) == 2
    assert pictures[0].count("<polygon") == 2
    assert "&lt;sorry&gt;" in page.to_html(run) and "<sorry>" not in page.to_html(run)


def test_the_table_is_put_between_the_marks(tmp_path):
    path = tmp_path / "performance.md"
    path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    for _ in range(2):
        report.write_docs(run_of(1), path)
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith(f"{report.END}\nafter\n")
    assert "old" not in text and text.count("| row |") == 1 and "| yes |" in text
    documented = (BENCH.parent / "docs" / "performance.md").read_text()
    assert documented.count(report.BEGIN) == documented.count(report.END) == 1
