# SPDX-License-Identifier: Apache-2.0
"""Stdin that stays open, and terminals, as PID 1 provides them: without a server in between."""
import hashlib
import os
import signal
import subprocess
import uuid

import pytest

from keeper import Box, Keeper, Live
from server import Server, wait_until

NOBODY = 65534
BASH = ("bash", "--norc", "--noprofile", "--noediting", "-i")
PROMPT = ("PS1=ready> ",)


@pytest.fixture(scope="module", params=["root", "rootless"])
def keeper(request, binary):
    """Without root a minder stands in for cgroups, and there is one uid."""
    def drop():
        if request.param == "rootless":
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

    server = Server(preexec=drop, POOL_SIZE=0)
    if request.param == "rootless":
        os.chown(server.state_dir, NOBODY, NOBODY)
    try:
        client = Keeper(server.start().state_dir)
        yield client
        client.close()
    finally:
        subprocess.run([server.binary, "stop"], env=server.environment(), preexec_fn=drop,
                       check=False)
        server.remove()


@pytest.fixture
def box(keeper):
    one = Box(keeper, f"live-{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


@pytest.fixture
def shell(box):
    """An interactive bash on a terminal, at its first prompt."""
    live = box.live(argv=BASH, env=(*PROMPT, "TERM=xterm-256color"), terminal=(24, 80))
    live.expect("ready> ")
    return live


def ask(shell, command):
    """What a command prints in a shell on a terminal, its echo left out."""
    shell.write(command + "\n")
    text = shell.expect("ready> ")[0].decode().replace("\r\n", "\n")
    return text.split("\n", 1)[1]


# ---- stdin ----

def test_cat_gives_back_what_is_written_in_pieces(box):
    live = box.live(argv=("cat",), keep_open=True)
    for piece in (b"one\n", b"two", b"\0\xff", b" three\n"):
        live.write(piece)
        while not live.seen.endswith(piece):
            assert live.read()
    live.close_stdin()
    assert live.rest() == b"one\ntwo\0\xff three\n"
    assert live.wait() == (0, 0, 0)


def test_stdin_that_stays_open_does_not_end(box):
    live = box.live("read -t 0.2 line; echo $?; read line; echo got $line", keep_open=True)
    live.expect(r"142\n")  # a timeout, not the end of the file, which would be 1
    live.write("hello\n")
    live.expect("got hello\n")
    assert live.wait() == (0, 0, 0)


def test_ten_megabytes_arrive_whole(box):
    data = os.urandom(10 << 20)
    live = box.live(argv=("sha256sum",), keep_open=True)
    live.write(data)
    live.close_stdin()
    assert live.rest() == hashlib.sha256(data).hexdigest().encode() + b"  -\n"


def test_who_writes_to_a_program_that_closed_its_stdin_is_told(box):
    live = box.live("exec 0<&-; echo closed; sleep 600", keep_open=True)
    live.expect("closed\n")
    with pytest.raises(BrokenPipeError):
        live.write("too late")
    live.signal(signal.SIGKILL)
    assert live.wait() == (0, signal.SIGKILL, 4)


def test_stdin_is_closed_with_the_end_of_its_command(box):
    live = box.live("sleep 600 & exit 3", keep_open=True)
    assert live.wait() == (3, 0, 0)
    told = box.replace_server()[live.number]
    assert told.streams == Live.OUTPUT


def test_what_waits_in_stdin_outlives_the_server(box):
    live = box.live("until [ -e go ]; do sleep 0.02; done; cat", keep_open=True, note=b"mine")
    live.write("from the first, ")
    live.close()
    told = box.replace_server()[live.number]
    assert (told.streams, told.note, told.pid) == (Live.OPEN, b"mine", live.pid)
    told.write("from the second")
    box.start("touch go")
    Live(box).close()
    told.close_stdin()
    assert told.rest() == b"from the first, from the second"


def test_a_closed_stdin_stays_closed_for_the_next_server(box):
    live = box.live("cat; until [ -e go ]; do sleep 0.02; done", keep_open=True)
    live.write("all")
    live.close_stdin()
    live.expect("all")
    assert box.replace_server()[live.number].streams == Live.OUTPUT


def test_other_commands_do_not_keep_a_stdin_open(box):
    live = box.live(argv=("cat",), keep_open=True)
    other = box.live("sleep 600", keep_open=True)
    live.close_stdin()
    assert live.rest() == b""
    assert live.wait() == (0, 0, 0)
    other.signal(signal.SIGKILL)
    other.wait()


def test_PID_1_answers_while_a_stdin_is_full(box):
    live = box.live("sleep 600", keep_open=True)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(live.stdin, bytes(65536))
    assert box.run("echo here") == (0, "here\n", "")


# ---- terminals ----

def test_a_terminal_is_one(box):
    live = box.live("tty; test -t 0 -a -t 1 -a -t 2 && echo all; stat -c '%U %a' $(tty); "
                    "stty size; echo to stderr >&2; echo x > /dev/tty", terminal=(11, 222))
    assert live.rest().decode() == ("/dev/pts/0\r\nall\r\nsandboxuser 620\r\n11 222\r\n"
                                    "to stderr\r\nx\r\n")
    assert live.wait() == (0, 0, 0)


def test_python_talks_on_a_terminal(box):
    live = box.live(argv=("python3", "-q"), terminal=(24, 80))
    live.expect(">>> ")
    live.write("6 * 7\n")
    live.expect(r"42\r\n")
    live.write("import sys; sys.stdout.isatty(), __import__('os').get_terminal_size()\n")
    live.expect(r"True, os.terminal_size\(columns=80, lines=24\)")
    live.expect(">>> ")
    live.write("\4")
    live.rest()
    assert live.wait() == (0, 0, 0)


def test_a_new_size_reaches_the_foreground(shell):
    assert ask(shell, "stty size") == "24 80\n"
    shell.write("bash -c 'trap \"stty size\" WINCH; echo up; while :; do sleep 0.05; done'\n")
    shell.expect("up\r\n")
    shell.resize(50, 132)
    shell.expect("50 132\r\n")


def test_ctrl_c_interrupts_and_the_shell_stays(shell):
    shell.write("sleep 600\n")
    shell.expect("sleep 600\r\n")
    wait_until(lambda: b"sleep" in foreground(shell), "it runs")
    shell.write("\3")
    shell.expect("ready> ")
    assert ask(shell, "echo $?") == "130\n"


def foreground(shell):
    """The name of the program in the foreground of a shell's terminal, as another sees it."""
    _, out, _ = shell.box.run(
        f"cat /proc/$(ps -o tpgid= -p {shell.pid} | tr -d ' ')/comm")
    return out.encode()


def test_jobs_go_to_the_background_and_come_back(shell):
    shell.write("sleep 600 &\n")
    shell.expect(r"\[1\] \d+\r\n")
    shell.expect("ready> ")
    assert "Running" in ask(shell, "jobs")
    shell.write("fg\n")
    shell.expect("sleep 600\r\n")
    wait_until(lambda: b"sleep" in foreground(shell), "it is in the foreground")
    shell.write("\x1a")
    shell.expect("Stopped.*ready> ")
    assert "Stopped" in ask(shell, "jobs")
    ask(shell, "kill -9 %1; wait")
    assert ask(shell, "cat <<<fine").startswith("fine\n")


def test_colours(box):
    live = box.live("ls --color=auto -d /tmp; tput colors", terminal=(24, 80),
                    env=("TERM=xterm-256color", "LS_COLORS=di=01;34:tw=30;42"))
    assert b"\x1b[" in live.rest()
    assert b"256" in live.seen


def test_a_terminal_outlives_the_server(shell):
    box = shell.box
    ask(shell, "x=kept")
    shell.write("sleep 0.3; seq 5\n")
    shell.close()
    told = box.replace_server()[shell.number]
    assert told.streams == Live.TERMINAL
    # The echo may have been read by the one before; what came after it was not.
    assert told.expect("ready> ")[0].replace(b"\r\n", b" ").endswith(b"1 2 3 4 5 ")
    assert ask(told, "echo $x; stty size") == "kept\n24 80\n"
    told.write("exit 5\n")
    told.rest()
    assert told.wait() == (5, 0, 0)


def test_what_a_command_printed_before_its_end_is_all_there(box):
    live = box.live("seq 1500", terminal=(24, 80))  # what a terminal holds when nobody reads
    assert live.wait() == (0, 0, 0)
    assert live.rest() == b"".join(b"%d\r\n" % n for n in range(1, 1501))


def test_a_background_job_does_not_keep_a_terminal_after_its_leader(box):
    live = box.live("trap '' HUP; sleep 600 & echo done", terminal=(24, 80))
    assert live.wait() == (0, 0, 0)
    live.expect("done\r\n")
    wait_until(lambda: box.run("pgrep -c sleep")[1] == "1\n", "the job has become what it is")


def test_a_timeout_ends_all_on_a_terminal(box):
    live = box.live("setsid sleep 600 & sleep 600", terminal=(24, 80), timeout=0.3)
    assert live.wait()[2] == 2
    assert box.run("pgrep -c sleep")[1] == "0\n"


def test_a_signal_to_the_leader_leaves_the_others(box):
    live = box.live("setsid sleep 600 & until pgrep -x sleep >&2; do :; done; "
                    "echo up; exec sleep 601", keep_open=True)
    live.expect("up\n")
    live.signal(signal.SIGTERM, tree=False)
    assert live.wait() == (0, signal.SIGTERM, 1)
    assert box.run("pgrep -c sleep")[1] == "1\n"


def test_terminals_run_out_with_a_reason(box):
    lives = [box.live("sleep 600", terminal=(24, 80)) for _ in range(64)]
    assert box.run("true", terminal=(24, 80)) == (126, "", os.strerror(28))
    for live in lives:
        live.signal(signal.SIGKILL)
    for _ in lives:
        assert box.hear()[0][0] == Box.EXITED
    for live in lives:
        live.release()
    last = box.live("tty", terminal=(24, 80))
    assert last.rest().startswith(b"/dev/pts/")
