# SPDX-License-Identifier: Apache-2.0
"""The man page and the completions are made from the program's own words, and work."""
import pathlib
import shutil
import subprocess
import sys

import pytest

from server import BINARY

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASH = ROOT / "deploy" / "completions" / "threadbox.bash"
ZSH = ROOT / "deploy" / "completions" / "_threadbox"
PAGE = ROOT / "docs" / "man" / "threadbox.1"


def run(*command, **options):
    return subprocess.run(command, text=True, capture_output=True, timeout=60, **options)


def test_all_three_are_up_to_date(binary):
    done = run(sys.executable, ROOT / "deploy" / "generate.py", "--check", BINARY)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_is_one_that_man_can_show():
    if not shutil.which("man"):
        pytest.skip("there is no man (man-db)")
    done = run("man", "--warnings", "-E", "UTF-8", "-l", PAGE,
               env={"MANWIDTH": "100", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and not done.stderr, done.stderr
    for part in ("NAME", "SETTINGS", "SIGNALS", "EXIT STATUS", "MAX_POOL_SIZE [80]", "--rounds",
                 "doctor"):
        assert part in done.stdout, part


def complete(*words):
    """What bash offers for the last word."""
    script = (f'. {BASH}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _threadbox; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = run("bash", "-c", script, "bash", *words, cwd=ROOT)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_values():
    assert {"serve", "stop", "doctor", "config"} <= complete("threadbox", "")
    assert complete("threadbox", "do") == {"doctor"}
    assert complete("threadbox", "serve", "--pool-s") == {"--pool-size"}
    assert complete("threadbox", "bench", "--ro") == {"--rounds"}
    assert complete("threadbox", "serve", "--log-level", "w") == {"warning"}
    assert "deploy" in complete("threadbox", "serve", "--config", "de")
    assert complete("threadbox", "serve", "--webhook-secret") == {"--webhook-secret-file"}
    assert complete("threadbox", "version", "--p") == set()


# zsh in a terminal of its own; what it lists after the tab is between the marks.
ZSH_TALK = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u"
zpty -w shell "LISTMAX=1000; COLUMNS=200; LINES=200; echo re''ady"
zpty -r shell text '*ready*'
zpty -w -n shell "$2"$'\t'
zpty -r -m shell text "*$3*" && print -r -- "$text"
zpty -d shell
"""


@pytest.mark.parametrize("line,wanted", [
    ("threadbox doc", "threadbox doctor"), ("threadbox serve --pool-si", "--pool-size"),
    ("threadbox serve --log-level=warn", "--log-level=warning")])
def test_zsh_completes_too(line, wanted):
    if not shutil.which("zsh"):
        pytest.skip("there is no zsh")
    assert run("zsh", "-n", ZSH).returncode == 0
    done = run("zsh", "-f", "-c", ZSH_TALK, "zsh", str(ZSH.parent), line, wanted)
    assert wanted in done.stdout, done
