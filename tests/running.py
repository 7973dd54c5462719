# SPDX-License-Identifier: Apache-2.0
"""Runs programs that test, and counts what they say."""
import functools
import os
import pathlib
import subprocess
import threading
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
SECOND_LOOKS = 2  # at most, of a stage


class Result:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped


def sh(command, **kwargs):
    return subprocess.run(command, cwd=ROOT, **kwargs).returncode


def total_of(results):
    results = list(results)
    return Result(sum(one.passed for one in results), sum(one.failed for one in results),
                  sum(one.skipped for one in results))


def junit(path, code):
    """Counts from a JUnit file; a run that left none has failed."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return Result(failed=1)
    suites = [root] if root.get("tests") else list(root)
    count = {key: sum(int(s.get(key) or 0) for s in suites)
             for key in ("tests", "failures", "errors", "skipped", "disabled")}
    failed = count["failures"] + count["errors"]
    skipped = count["skipped"] + count["disabled"]
    if code != 0 and failed == 0:
        failed = 1
    return Result(count["tests"] - count["failures"] - count["errors"] - skipped, failed, skipped)


def gtest(preset, env=None):
    report = ROOT / "build" / f"unit-{preset}.xml"
    report.unlink(missing_ok=True)
    code = sh([f"build/{preset}/unit_tests", f"--gtest_output=xml:{report}", "--gtest_brief=1"],
              env=env and {**os.environ, **env})
    return junit(report, code)


def failed_in(report):
    """The ids of the tests that failed by a JUnit file of pytest, which names them from tests/ on.
    Once each: one may fail, and then fail to clear up as well."""
    cases = [case for case in xml.etree.ElementTree.parse(report).iter("testcase")
             if case.find("failure") is not None or case.find("error") is not None]
    return list(dict.fromkeys(f"tests/{case.get('classname').replace('.', '/')}.py::"
                              f"{case.get('name')}" for case in cases))


def second_look(command, report, env, result):
    """A test of a busy machine that failed among the others runs once more, by itself: what fails
    twice is broken. What fails once is named, for it has a race to be found; more than
    SECOND_LOOKS of them in a stage are no accident."""
    failed = failed_in(report) if result.failed and report.exists() else []
    if not 0 < len(failed) <= SECOND_LOOKS:
        return result
    again = report.with_suffix(".again.xml")
    again.unlink(missing_ok=True)
    code = sh([*command, *failed, f"--junitxml={again}"], env=env)
    if code != 0 or junit(again, code).passed != len(failed):
        return result
    for one in failed:
        print(f"== passed only at the second look: {one}")
    return Result(result.passed + len(failed), 0, result.skipped)


def pytest(folder, *more, env=None, strict=False):
    report = ROOT / "build" / f"{folder.replace('/', '-')}.xml"
    report.unlink(missing_ok=True)
    env = env and {**os.environ, **env}
    code = sh(PYTEST + [folder, f"--junitxml={report}", *more], env=env)
    result = junit(report, code)
    return result if strict else second_look(PYTEST + list(more), report, env, result)


def side_by_side(works):
    failures = []

    def guarded(work):
        try:
            work()
        except Exception as failure:  # of ours, not of a test: nothing was counted
            failures.append(failure)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def pytest_side_by_side(folder, *groups, env=None):
    """Groups of files, each in a process of its own: for tests that mostly wait. What no group
    names is one more."""
    files = sorted(path.name for path in (ROOT / folder).glob("test_*.py"))
    named = [name for group in groups for name in group]
    parts = [*groups, [name for name in files if name not in named]]
    results, whole = {}, {**os.environ, **(env or {})}

    def work(part):
        report = ROOT / "build" / f"{folder.replace('/', '-')}-{part}.xml"
        report.unlink(missing_ok=True)
        code = sh(PYTEST + [*(f"{folder}/{name}" for name in parts[part]), f"--junitxml={report}"],
                  env=whole)
        results[part] = second_look(PYTEST, report, whole, junit(report, code))
    side_by_side([functools.partial(work, part) for part in range(len(parts))])
    return total_of(results.values())


def pytest_by_three(folder, env):
    """Three parts, on a machine with nothing else to do."""
    files = sorted(path.name for path in (ROOT / folder).glob("test_*.py"))
    return pytest_side_by_side(folder, files[::3], files[1::3], env=env)


def script(*command):
    code = sh(list(command))
    return Result(int(code == 0), int(code != 0))
