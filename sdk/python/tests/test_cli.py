# SPDX-License-Identifier: Apache-2.0
"""python -m threadbox."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from server import PATIENCE, wait_until


def run(*arguments, typed="", **environment):
    return subprocess.run([sys.executable, "-m", "threadbox", *arguments], input=typed, text=True,
                          capture_output=True, timeout=60, check=False,
                          env={**os.environ, **environment})


def test_one_command_passes_on_its_output_and_exit_code(url):
    done = run("--mode", "remote", "--url", url, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_a_url_alone_is_enough(url):
    assert run("echo hi", "--url", url).stdout == "hi\n"
    assert run("echo hi", SANDBOX_URL=url).stdout == "hi\n"
    assert run("echo hi", SANDBOX_URL=url, SANDBOX_MODE="remote").stdout == "hi\n"


def test_the_tour_succeeds(url):
    done = run("--test", "--mode", "remote", "--url", url)
    assert done.returncode == 0, done.stderr
    assert "Hello from sandbox!" in done.stdout and "sandboxuser" in done.stdout
    assert "1 file(s): test.txt" in done.stdout


def test_a_batch_runs_in_one_session(url):
    done = run("--batch", "echo kept > f", "cat f", "--url", url)
    assert done.returncode == 0 and "kept\n[exit code 0" in done.stdout
    assert run("--batch", "false", "true", "--url", url).returncode == 1


@pytest.mark.parametrize("arguments", [[], ["--batch"], ["--mode", "cloud", "true"],
                                       ["--nonsense"]])
def test_what_makes_no_sense_is_explained(arguments):
    done = run(*arguments)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("usage:")


def test_errors_are_one_line(url):
    done = run("true", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "can't be reached" in done.stderr
    done = run("curl x", "--url", url)
    assert done.returncode == 1 and "forbidden pattern" in done.stderr


def test_a_shell_by_lines_remembers_its_directory(server, url):
    before = server.health()["active_sessions"]
    done = run("--shell", "--url", url, typed="mkdir d\ncd d\npwd\nprintf abc\necho e >&2\nfalse\n")
    assert done.stdout == "/workspace/d\nabc" and done.stderr == "e\n"
    assert done.returncode == 1
    assert server.health()["active_sessions"] == before
    done = run("--shell", "--url", url, typed="curl x\necho on\nexit\necho never\n")
    assert done.stdout == "on\n" and "forbidden" in done.stderr and done.returncode == 0


class Terminal:
    """`--shell` on a terminal of ours."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "threadbox", *arguments])
        self.seen = b""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        deadline = time.monotonic() + 3 * PATIENCE
        while text.encode() not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], (text, self.seen)
            self.seen += os.read(self.fd, 65536)
        self.seen = self.seen.partition(text.encode())[2]

    def end(self):
        with contextlib.suppress(OSError):
            while os.read(self.fd, 65536):
                pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return code


def test_a_shell_on_a_terminal_is_a_terminal(url):
    shell = Terminal("--shell", "--url", url, "--policy", "open")
    shell.expect("$ ")
    shell.type("echo $((6 * 7))\n")
    shell.expect("42\r")
    fcntl.ioctl(shell.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    os.kill(shell.pid, signal.SIGWINCH)
    shell.type("sh -c 'echo ready; exec sleep 1000'\n")  # from then on it is in the foreground
    shell.expect("ready\r")
    shell.type("\x03")
    shell.expect("^C")
    shell.type("stty size\n")
    shell.expect("33 99")
    shell.type("exit 9\n")
    assert shell.end() == 9


def test_an_interrupt_ends_the_line_not_the_shell(server, url):
    before = server.health()["active_sessions"]
    shell = Terminal("--shell", "--url", url, "--policy", "strict")
    shell.expect("no terminal")
    shell.expect("$ ")
    shell.type("echo begun; sleep 1000\n")
    shell.expect("begun\r")
    shell.type("\x03")
    shell.expect("^C")
    shell.expect("$ ")
    shell.type("echo on\n")
    shell.expect("\non\r")
    shell.type("\x04")
    shell.end()
    wait_until(lambda: server.health()["active_sessions"] == before, "the session is closed")
