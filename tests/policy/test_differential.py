# SPDX-License-Identifier: Apache-2.0
"""The policy's parser against shfmt, `bash -n` and bash itself, over random command lines.

What must hold for a text that the strict policy accepts:
  * `bash -n` finds no error in it: what bash would not read must not be called fine. (The other way
    round is no error: the policy refuses more than bash does.)
  * every command word that shfmt sees is one that the policy listed;
  * when bash runs it, no program starts that the policy did not list.
"""
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess

import pytest

from grammar import FORBIDDEN, Grammar, cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("POLICY_CHECK", str(ROOT / "build" / "release" / "policy_check"))
SEED = int(os.environ.get("POLICY_SEED", "20240501"))
NOBODY = 65534
REAL = ["env", "xargs", "timeout", "nice", "nohup", "find"]  # They must really start things.


def ask(commands, policy="strict"):
    lines = "".join(json.dumps({"cmd": c, "policy": policy}) + "\n" for c in commands)
    run = subprocess.run([BINARY], input=lines, capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(commands), f"died on {commands[len(answers)]!r}: {run.stderr}"
    return answers


def accepted(count, seed):
    grammar = Grammar(random.Random(seed))
    commands = [grammar.line() for _ in range(count)]
    found = [(c, a["words"]) for c, a in zip(commands, ask(commands)) if a["ok"]]
    assert len(found) > count / 20, "a grammar whose lines are all refused shows nothing"
    return found


def static_text(parts):
    """The value of a word of shfmt's tree, or None when it has expansions or escapes."""
    text = ""
    for part in parts:
        kind = part["Type"]
        if kind == "DblQuoted":
            inner = static_text(part.get("Parts", []))
            if inner is None:
                return None
            text += inner
        elif kind in ("Lit", "SglQuoted") and not part.get("Dollar"):
            value = part.get("Value", "")
            if kind == "Lit" and "\\" in value:
                return None
            text += value
        else:
            return None
    return text


def command_words(node):
    if isinstance(node, list):
        for item in node:
            yield from command_words(item)
    elif isinstance(node, dict):
        if node.get("Type") == "CallExpr" and node.get("Args"):
            word = static_text(node["Args"][0].get("Parts", []))
            if word is not None:
                yield word
        for value in node.values():
            if isinstance(value, (dict, list)):
                yield from command_words(value)


@pytest.fixture
def count(request):
    return 20 if request.config.getoption("--long") else 1


def test_what_is_accepted_is_bash(count):
    for command, _ in accepted(3000 * count, SEED):
        check = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
        assert check.returncode == 0 and not check.stderr, f"{command!r}: {check.stderr}"


@pytest.mark.skipif(not shutil.which("shfmt"), reason="shfmt is not installed")
def test_every_word_that_shfmt_sees_is_listed(count):
    seen = 0
    for command, words in accepted(3000 * count, SEED + 1):
        if "coproc" in command:
            continue  # shfmt takes the word after it for a name more often than bash does.
        run = subprocess.run(["shfmt", "-ln", "bash", "--to-json"], input=command,
                             capture_output=True, text=True)
        if run.returncode != 0:
            continue  # It knows less of bash in places; `bash -n` judged the text above.
        for word in command_words(json.loads(run.stdout)):
            seen += 1
            assert word in words, f"{command!r}: {word!r} is not in {words}"
    assert seen > 300


def make_stubs(folder):
    """Programs that only write their names into the log beside the bin/ they are called in."""
    stubs = folder / "stubs"
    stubs.mkdir()
    strict = (ROOT / "registry" / "policies" / "strict.yaml").read_text()
    names = set(strict.replace(",", " ").replace('"', " ").split()) | set(FORBIDDEN) | {"perl"}
    for name in sorted(n for n in names if n.isalnum() and n not in REAL):
        stub = stubs / name
        stub.write_text(f'#!/bin/dash\necho {name} >> "${{0%/bin/*}}/log"\necho 1\n')
        stub.chmod(0o755)
    for name in REAL:
        (stubs / name).symlink_to(shutil.which(name))
    return stubs


def limits():
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


RUNS = itertools.count()


def run_bash(command, folder, stubs):
    """Names of the programs that `command` started, with stubs for all."""
    # Each run has a log of its own: what another one left behind may still be running.
    run = folder / str(next(RUNS))
    work, log = run / "work", run / "log"
    work.mkdir(parents=True)
    (run / "bin").symlink_to(stubs)
    (work / "f").write_text("a[$(rm v)]\n")
    (work / "rm").write_text("")
    log.write_text("")
    for path in (folder, run, work, log):
        path.chmod(0o777)
    process = subprocess.Popen(["/bin/bash", "-c", command], cwd=work, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={"PATH": str(run / "bin"), "HOME": str(work)}, preexec_fn=limits)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()
    return set(log.read_text().split())


@pytest.fixture
def bench(tmp_path):
    if not shutil.which("dash"):
        pytest.skip("the stubs need dash")
    folder = tmp_path / "policy"
    folder.mkdir()
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    return folder, make_stubs(folder)


def test_no_program_starts_that_is_not_listed(bench, count):
    started = 0
    for command, words in accepted(1500 * count, SEED + 2):
        if "/" in command or "~" in command:
            continue
        names = run_bash(command, *bench)
        started += len(names)
        listed = {word.rsplit("/", 1)[-1] for word in words} | {"echo"}  # xargs without a command
        assert names <= listed, f"{command!r}: started {names - listed}, listed {words}"
        assert not names & set(FORBIDDEN), command
    assert started > 100


def test_the_refused_cases_are_worth_refusing(bench):
    """The oracle itself can see a hidden command: some of the known tricks really start rm."""
    tricks = [c for c in cases("refused.txt") if "/" not in c and "~" not in c]
    assert sum("rm" in run_bash(command, *bench) for command in tricks) > 50
