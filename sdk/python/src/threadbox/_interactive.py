# SPDX-License-Identifier: Apache-2.0
"""A shell in a sandbox: a real terminal where the policy has them, or else line by line."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
import termios
import threading
import tty
from types import FrameType

from ._engine import Exited, Output
from ._errors import CommandRefusedError, SandboxError
from ._processes import Attachment
from ._sync import SandboxClient

MARK = "\x1ethreadbox-cwd:"  # begins with what no text begins with


def run_shell(client: SandboxClient) -> int:
    """Returns the exit code of the shell."""
    if os.isatty(0) and os.isatty(1):
        try:
            rows, cols = _size()
            process = client.processes.start(
                "exec bash -i", pty=True, rows=rows, cols=cols,
                env={"TERM": os.environ.get("TERM", "xterm")},
            )  # fmt: skip
        except (CommandRefusedError, NotImplementedError) as problem:
            print(f"no terminal: {problem}", file=sys.stderr)
        else:
            with process.attach() as terminal:
                return _on_terminal(terminal)
    return _by_lines(client)


def _on_terminal(terminal: Attachment) -> int:
    """What is typed goes there, what comes is shown, byte for byte; Ctrl-C too."""
    before = termios.tcgetattr(0)
    done_read, done_write = os.pipe()

    def resize(number: int = 0, frame: FrameType | None = None) -> None:
        terminal.resize(*_size())

    def type_on() -> None:
        while True:
            ready, _, _ = select.select([0, done_read], [], [])
            if done_read in ready:
                return
            typed = os.read(0, 4096)
            try:
                terminal.send(typed) if typed else terminal.close_stdin()
            except (SandboxError, OSError):
                return
            if not typed:
                return

    resized = signal.signal(signal.SIGWINCH, resize)
    typist = threading.Thread(target=type_on, daemon=True)
    try:
        tty.setraw(0)
        typist.start()
        while (event := terminal.receive()) is not None:
            if isinstance(event, Exited):
                return event.exit_code
            _write_all(event.data)
        return 0
    finally:
        os.write(done_write, b"x")
        typist.join()
        signal.signal(signal.SIGWINCH, resized)
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.close(done_read)
        os.close(done_write)


def _size() -> tuple[int, int]:
    """Of our terminal; a new one may not know its size yet."""
    size = os.get_terminal_size(1)
    return size.lines or 24, size.columns or 80


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _by_lines(client: SandboxClient) -> int:
    """Each line is a command; the directory is carried from one to the next."""
    directory, code = "/workspace", 0
    while True:
        try:
            line = input(f"{directory}$ " if os.isatty(0) else "")
        except EOFError:
            return code
        except KeyboardInterrupt:
            print()
            continue
        if line.strip() in ("exit", "quit"):
            return code
        if line.strip():
            directory, code = _run_line(client, line, directory)


def _run_line(client: SandboxClient, line: str, directory: str) -> tuple[str, int]:
    # Where the line ends up is asked for behind it; what it exits with is passed on.
    mark = MARK.replace("\x1e", "\\036")
    after = f"code=$?\nprintf '{mark}%s' \"$PWD\"\nexit $code"
    command = f"cd {shlex.quote(directory)} || exit\n{line}\n{after}"
    held = ""  # what may be the beginning of the mark
    code = 1
    try:
        for event in client.stream(command, timeout=3600):
            if isinstance(event, Output) and event.stream == "stderr":
                sys.stderr.write(event.text)
                sys.stderr.flush()
            elif isinstance(event, Output):
                held = _show(held + event.text)
            elif isinstance(event, Exited):
                code = event.exit_code
    except KeyboardInterrupt:
        print("^C")
        code = 130
    except (SandboxError, ValueError) as problem:
        print(f"threadbox: {problem}", file=sys.stderr)
    shown, found, where = held.partition(MARK)
    sys.stdout.write(shown)
    sys.stdout.flush()
    return (where.strip() or directory) if found else directory, code


def _show(text: str) -> str:
    """Prints what is surely no part of the mark, and returns the rest."""
    cut = text.find(MARK)
    if cut < 0:
        cut = next(
            (len(text) - n for n in range(min(len(MARK), len(text)), 0, -1)
             if MARK.startswith(text[-n:])), len(text),
        )  # fmt: skip
    sys.stdout.write(text[:cut])
    sys.stdout.flush()
    return text[cut:]
