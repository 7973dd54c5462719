# SPDX-License-Identifier: Apache-2.0
"""The clients' command lines, the shells and the load tests, as programs."""
import shutil
import subprocess
import sys

import pytest

import enhanced_client

CLIENTS = ["flask_client.py", "enhanced_client.py", "head_client.py"]


@pytest.fixture(params=CLIENTS)
def cli(request, program, url):
    def run(*arguments):
        mode = [] if request.param == "flask_client.py" else ["--mode", "remote"]
        return program(request.param, *mode, "--url", url, *arguments)
    run.name = request.param
    return run


def test_self_test(cli):
    done = cli("--test")
    assert done.returncode == 0, done
    for line in ("sandboxuser\n", "/workspace\n", "Hello from sandbox!\n", "Python 3."):
        assert line in done.stdout, done


@pytest.mark.parametrize("command,code", [("true", 0), ("false", 1), ("grep", 2),
                                          ("python3 -c 'import sys; sys.exit(42)'", 42)])
def test_a_single_command_exits_with_its_code(cli, command, code):
    assert cli(command).returncode == code


def test_a_single_command_prints_what_it_printed(cli):
    done = cli("echo out; echo err >&2")
    assert done.returncode == 0
    if cli.name == "flask_client.py":
        assert sorted(done.stdout.split()) == ["err", "out"]
    else:
        assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_a_refused_command_tells_why(cli):
    done = cli("rm x")
    assert done.returncode == 1
    assert r"400 Client Error: " in done.stderr
    assert r"Command contains forbidden pattern: \brm\b" in done.stderr


def test_a_batch_runs_to_its_end(cli):
    done = cli("--batch", "echo 1 > f", "sudo ls", "false", "cat f")
    assert done.returncode == 0
    assert done.stdout.count("$ ") == 4
    assert "(exit -1" in done.stdout and "(exit 1" in done.stdout
    assert "$ cat f\n1\n(exit 0" in done.stdout


@pytest.mark.parametrize("name", CLIENTS)
def test_without_arguments_it_says_how(program, name):
    done = program(name)
    assert done.returncode == 1 and "Usage" in done.stdout


@pytest.mark.parametrize("name", CLIENTS[1:])
def test_wrong_arguments_exit_1(program, name):
    assert program(name, "--mode", "neither", "ls").returncode == 1
    assert program(name, "--mode", "remote").returncode == 1


def test_local_is_the_default_and_wants_a_server_beside_the_client(tmp_path):
    """Alone in a directory: nothing to import."""
    here = shutil.copy(enhanced_client.__file__, tmp_path)
    done = subprocess.run([sys.executable, "-B", here, "ls"], text=True, capture_output=True)
    assert done.returncode == 1
    assert "Failed to import server for local mode" in done.stderr


@pytest.mark.parametrize("name,arguments", [
    ("v1_shell.py", []), ("shell.py", ["--mode", "remote", "--url"])])
def test_shells_remember_the_directory(program, url, name, arguments):
    lines = ["pwd", "mkdir -p sub/deep", "cd sub/deep", "pwd", "touch here", "cd missing", "ls",
             "cd ..", "ls", "false", "sudo ls", "cd", "pwd", "cd /tmp", "pwd", "exit"]
    done = program(name, *arguments, url, stdin="\n".join(lines) + "\n")
    assert done.returncode == 0, done
    prompts = [part.partition("$ ")[0] for part in done.stdout.split("sandbox:")[1:]]
    assert prompts == ["/workspace"] * 3 + ["/workspace/sub/deep"] * 5 + \
        ["/workspace/sub"] * 4 + ["/workspace"] * 2 + ["/tmp"] * 2
    told = [part.partition("$ ")[2] for part in done.stdout.split("sandbox:")[1:]]
    assert told[0] == "/workspace\n"
    assert told[3] == "/workspace/sub/deep\n"
    assert "[exit code: 1]" in told[5]
    assert told[6] == "here\n"
    assert told[8] == "deep\n"
    assert told[9] == "[exit code: 1]\n"
    assert told[10].startswith("Error: 400 Client Error: ")
    assert r"forbidden pattern: \bsudo\b" in told[10]
    assert told[12] == "/workspace\n"
    assert told[14] == "/tmp\n"


@pytest.mark.parametrize("name,count", [("load_test_old.py", "--requests"),
                                        ("load_test_new.py", "--num-requests")])
def test_load_tests_succeed(program, url, name, count):
    done = program(name, "--url", url, "--workers", "4", count, "12")
    assert done.returncode == 0, done
    assert "Successful: 12, failed: 0" in done.stdout, done.stdout
