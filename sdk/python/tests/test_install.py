# SPDX-License-Identifier: Apache-2.0
"""As a newcomer does it: an empty virtual environment, `pip install ./sdk/python`, and the first
program of each README."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
URL = "http://localhost:5000"


def first_program(readme):
    """The first Python block of a README, as it stands there."""
    text = (REPOSITORY / readme).read_text()
    return re.search(r"```python\n(.*?)```", text, re.S)[1]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment in which nothing but the SDK was installed."""
    place = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    pip = [place / "bin" / "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, "./sdk/python"], cwd=REPOSITORY, check=True)
    return place / "bin" / "python"


def run(python, program, place):
    """Away from the repository, so that nothing but the installed package can be found."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([python, "-c", program], cwd=place, env=clean, text=True, check=False,
                          capture_output=True, timeout=120)


@pytest.mark.parametrize("readme, printed", [("README.md", "hello\n"),
                                             ("sdk/python/README.md", "6\n")])
def test_the_first_program_of_the_readme_runs_over_http(python, server, tmp_path, readme, printed):
    program = first_program(readme)
    assert URL in program
    here = f"http://127.0.0.1:{server.port}"
    ran = run(python, program.replace(URL, here), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(printed)


def test_it_runs_without_a_server_when_the_mode_is_local(python, binary, tmp_path):
    program = first_program("sdk/python/README.md")
    remote = f'SandboxClient(server_url="{URL}")'
    assert remote in program
    local = f'SandboxClient(mode="local", state_dir="{tmp_path}/state")'
    ran = run(python, program.replace(remote, local), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("6\n")
