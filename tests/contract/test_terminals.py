# SPDX-License-Identifier: Apache-2.0
"""Terminals: a size, a line discipline, an end."""
from live import start

BASH = ["bash", "--norc", "--noprofile", "-i"]


def test_a_terminal_has_a_size_that_changes(server, session):
    live = start(server, session, "tty; stty size; read x; stty size", pty={"rows": 30, "cols": 99})
    live.wait_said(b"30 99")
    assert live.show()["pty"] is True
    assert live.post("resize", {"rows": 40, "cols": 120}).status == 200
    assert live.write(b"\n").status == 200
    live.wait_exited()
    assert live.output().startswith(b"/dev/pts/") and b"40 120" in live.output()


def test_a_shell_is_talked_to(server, session):
    live = start(server, session, argv=BASH, pty=True, env={"PS1": "ready> "})
    live.wait_said(b"ready> ")
    live.write(b"echo $((6 * 7))\n")
    live.wait_said(b"42\r\n")
    # Its own words say that it is at work; what was typed is echoed before.
    live.write(b"bash -c 'echo be''gun; exec sleep 1000'\n")
    live.wait_said(b"begun\r\n")
    live.write(b"\x03")
    live.write(b"echo code $?\n")
    live.wait_said(b"code 130")
    live.write(b"exit 7\n")
    assert live.wait_exited()["exit_code"] == 7


def test_all_that_was_printed_before_the_end_is_there(server, session):
    live = start(server, session, "seq 1 20000", pty=True)
    assert live.wait_exited(60)["exit_code"] == 0
    assert live.output() == "".join(f"{n}\r\n" for n in range(1, 20001)).encode()


def test_an_end_of_file_is_typed(server, session):
    live = start(server, session, "cat; echo over", pty=True)
    live.write(b"line\n")
    live.wait_said(b"line\r\nline\r\n")
    assert live.post("stdin/close").status == 200
    assert live.wait_exited()["exit_code"] == 0
    assert live.output().endswith(b"over\r\n")


def test_a_terminal_is_attached_to(server, session):
    live = start(server, session, argv=BASH, pty={"rows": 10, "cols": 70}, env={"PS1": "ready> "})
    live.wait_said(b"ready> ")
    with live.attach() as attached:
        attached.send_binary(b"stty size\n")
        attached.expect(b"10 70")
        attached.tell(type="resize", rows=11, cols=71)
        attached.send_binary(b"stty size\n")
        attached.expect(b"11 71")
    live.delete()
