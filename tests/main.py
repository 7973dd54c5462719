"""Runs the stages of ./test in order and adds their counts up; see docs/hacking.md.

The last line is `N passed, N failed, N skipped`. Exit code 1 when anything failed."""
import argparse
import re
import subprocess
import sys
import threading
import time
import tomllib

from running import (ROOT, Result, gtest, junit, pytest, pytest_by_three, pytest_side_by_side,
                     script, sh, side_by_side, total_of)

ASAN = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def build(preset, *targets, nice=0):
    script = f'. ./setup.sh && build {preset} {" ".join(targets)}'
    log = ROOT / "build" / f"{preset}.log"
    with open(log, "w") as out:
        code = subprocess.run(["nice", "-n", str(nice), "bash", "-c", script], cwd=ROOT,
                              stdout=out, stderr=subprocess.STDOUT).returncode
    if code != 0:
        print("\n".join(log.read_text().splitlines()[-40:]))
    return Result(int(code == 0), int(code != 0))


def build_release():
    result = build("release", "threadbox", "policy_check")
    link = ROOT / "build" / "threadbox"
    if not link.is_symlink():
        link.symlink_to("release/threadbox")
    return result


class AsanBuild:
    """The second build goes on behind the stages that mostly wait."""

    def __init__(self):
        self.thread = None
        self.result = None

    def begin(self):
        def work():
            self.result = build("asan", "threadbox", "unit_tests", nice=19)
        if not self.thread:
            self.thread = threading.Thread(target=work)
            self.thread.start()

    def finish(self):
        self.begin()
        self.thread.join()
        return self.result


ASAN_BUILD = AsanBuild()


def build_all():
    result = build_release()
    if not result.failed:
        ASAN_BUILD.begin()
    return result


def unit_release():
    result = build("release", "unit_tests")
    return result if result.failed else gtest("release")


def vm():
    run = subprocess.run(["/usr/bin/python3", "tests/vm/run.py"], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE)
    print(run.stdout, end="")
    found = re.findall(r"(\d+) passed, (\d+) failed, (\d+) skipped", run.stdout)
    if not found:
        return Result(failed=1)
    result = Result(*map(int, found[-1]))
    if run.returncode != 0 and result.failed == 0:
        result.failed = 1
    return result


def asan():
    result = ASAN_BUILD.finish()
    if result.failed:
        return result
    results = [result]
    whole = {"THREADBOX_BINARY": "build/asan/threadbox",
             "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=8"}
    side_by_side([lambda: results.append(gtest("asan", ASAN)),
                  lambda: results.append(pytest_by_three("tests/e2e", whole))])
    return total_of(results)


def environment(name, wanted):
    """A virtual environment with these packages, made anew when they change; None without an
    index."""
    place = ROOT / "build" / name
    stamp = place / "wanted"
    if not stamp.exists() or stamp.read_text() != "\n".join(wanted):
        if sh(["/usr/bin/python3", "-m", "venv", "--clear", str(place)]) != 0:
            return None
        if sh([place / "bin" / "pip", "install", "-q", "--no-compile", *wanted]) != 0:
            return None
        stamp.write_text("\n".join(wanted))
    return place / "bin"


def checks(folder, *commands):
    """Programs that look at a package of the SDK; each of them counts."""
    codes = [subprocess.run(command, cwd=ROOT / folder).returncode for command in commands]
    return [Result(int(code == 0), int(code != 0)) for code in codes]


def sdk():
    """The Python SDK as its users get it: installed, typed, and against the real server."""
    project, compat = (tomllib.loads((ROOT / "sdk" / name / "pyproject.toml").read_text())
                       for name in ("python", "compat"))
    tools = environment("sdk-venv", [*project["build-system"]["requires"],
                                     *compat["build-system"]["requires"],
                                     *project["project"]["dependencies"],
                                     *project["project"]["optional-dependencies"]["dev"]])
    if not tools:
        print("sdk: its tools can't be installed here (python3-venv, a package index)")
        return Result(skipped=1)
    results = []
    for folder, formatted in (("sdk/python", ["src", "tools", "../../examples"]),
                              ("sdk/compat", ["src"])):
        if sh([tools / "pip", "install", "-q", "--no-build-isolation", "--no-deps",
               "--force-reinstall", "./" + folder]) != 0:
            return total_of([*results, Result(failed=1)])
        results += checks(folder, [tools / "mypy"], [tools / "ruff", "check"],
                          [tools / "ruff", "format", "--check", *formatted])
        report = ROOT / "build" / f"{folder.replace('/', '-')}.xml"
        report.unlink(missing_ok=True)
        code = sh([tools / "python", "-m", "pytest", "-c", f"{folder}/pyproject.toml",
                   f"{folder}/tests", "--ignore-glob=*/test_integrations_*",
                   f"--junitxml={report}"])
        results.append(junit(report, code))
    return total_of(results)


def agents():
    """The SDK inside agent frameworks, and the examples: what these need takes its time to install,
    so that it has an environment of its own, which finds the SDK that the stage `sdk` installed."""
    project = tomllib.loads((ROOT / "sdk" / "python" / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["langchain"], *extras["deepagents"],
              *extras["dev-agents"]]
    tools = environment("agents-venv", wanted)
    if not tools:
        print("agents: the frameworks can't be installed here (a package index)")
        return Result(skipped=1)
    installed = next(ROOT.glob("build/sdk-venv/lib/python3*/site-packages"), None)
    if not installed:
        print("agents: ./test sdk installs what this needs")
        return Result(failed=1)
    (packages,) = tools.parent.glob("lib/python3*/site-packages")
    (packages / "sdk.pth").write_text(f"{installed}\n")
    results = checks("sdk/python", [tools / "mypy", "--python-version", "3.11",
                                    "src/threadbox/integrations"])
    for name, place, options in (
            ("integrations", sorted(ROOT.glob("sdk/python/tests/test_integrations_*.py")),
             ["-c", "sdk/python/pyproject.toml", "-o", "asyncio_mode=auto"]),
            ("examples", ["tests/examples"], ["-q", "-p", "no:cacheprovider"])):
        report = ROOT / "build" / f"sdk-{name}.xml"
        report.unlink(missing_ok=True)
        code = sh([tools / "python", "-W", "ignore::DeprecationWarning", "-m", "pytest", *options,
                   *place, f"--junitxml={report}"])
        results.append(junit(report, code))
    return total_of(results)


FIRST = [
    ("tidy", lambda: script("/usr/bin/python3", "tests/tidy/check.py")),
    ("format", lambda: script("tests/tidy/format.sh")),
    ("tidy-tests", lambda: pytest("tests/tidy")),
    ("build", build_all),
]
# Two of them at a time, each in a process of its own: they mostly wait. The longest begin.
BESIDE = [
    ("security", lambda: pytest("tests/security", strict=True)),
    ("sdk", sdk),
    ("faults", lambda: pytest("tests/faults")),
    ("contract", lambda: pytest("tests/contract")),
    ("compat", lambda: pytest("tests/compat")),
    ("deploy", lambda: pytest("tests/deploy")),
    ("docker", lambda: pytest("tests/docker")),
    ("e2b", lambda: pytest("tests/e2b")),
    ("policy", lambda: pytest("tests/policy", strict=True)),
    ("cluster", lambda: pytest_side_by_side("tests/cluster", ["test_faults.py"],
                                               ["test_troubles.py"])),
    ("vm", vm),
]
LAST = [("asan", asan)]
STAGES = FIRST + BESIDE + LAST
LONG = [
    ("unit", unit_release),
    ("e2e", lambda: pytest("tests/e2e")),  # of asan, too
    ("agents", agents),
    ("headers", lambda: script("tests/tidy/headers.sh", "build/release")),
    ("fuzz", lambda: script("tests/fuzz/run.sh", "60")),
    ("soak", lambda: pytest("tests/faults", "--long")),
    ("e2b-files", lambda: pytest("tests/e2b/test_file_operations.py", "--long")),
    ("deploy-long", lambda: pytest("tests/deploy", "--long", "-m", "long")),
    ("schemathesis", lambda: pytest("tests/schemathesis")),
    ("cluster-long", lambda: pytest("tests/cluster", "--long", "-m", "long")),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", help="only these")
    parser.add_argument("--long", action="store_true", help="also what takes minutes by nature")
    parser.add_argument("--soak", nargs="?", type=float, const=1800, metavar="SECONDS",
                        help="only the build, and half an hour of mixed load, or so many seconds")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    stages = STAGES + (LONG if options.long or options.stages else [])
    if options.list:
        print("\n".join(name for name, _ in STAGES + LONG))
        return 0
    unknown = set(options.stages) - {name for name, _ in stages}
    if unknown:
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")
    if options.soak:
        total = soak(options.soak)
    elif options.stages:
        total = total_of(run(stage) for stage in stages if stage[0] in options.stages)
    else:
        total = whole(LONG if options.long else [])
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


def soak(seconds):
    built = run(("build", build_release))
    if built.failed:
        return built
    words = ["tests/faults/test_soak.py", "--soak", str(seconds), "-s"]
    return total_of([built, run(("soak", lambda: pytest(*words, strict=True)))])


def run(named):
    name, stage = named
    began = time.monotonic()
    print(f"== {name}", flush=True)
    result = stage()
    print(f"== {name}: {result.passed} passed, {result.failed} failed, "
          f"{result.skipped} skipped ({time.monotonic() - began:.0f} s)", flush=True)
    return result


def beside(stages):
    """What two workers make of these; each stage's words come in one piece, at its end."""
    waiting, results, lock = list(stages), [], threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                name, _ = waiting.pop(0)
            done = subprocess.run([sys.executable, __file__, name], cwd=ROOT, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            *words, counts = done.stdout.splitlines() or [""]
            found = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", counts)
            with lock:
                print("\n".join(words if found else [*words, counts]), flush=True)
                results.append(Result(*map(int, found.groups())) if found else Result(failed=1))

    side_by_side([work, work])
    return total_of(results)


def whole(more):
    results = [run(stage) for stage in FIRST]
    if results[-1].failed:
        return total_of(results)  # what is not built can't be tested
    return total_of([*results, beside(BESIDE), *(run(stage) for stage in LAST + more)])


if __name__ == "__main__":
    sys.exit(main())
