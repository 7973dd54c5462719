# SPDX-License-Identifier: Apache-2.0
"""Terminals that PID 1 opens for a command: what its programs can do with them, and to whom."""
import json
import signal

import pytest

from conftest import PRELUDE
from keeper import Box, Keeper

REFUSED = {"EPERM", "EACCES", "ENOSYS", "ESRCH"}


@pytest.fixture
def box(server):
    keeper = Keeper(server.state_dir)
    one = Box(keeper, "with-terminals")
    yield one
    one.close()
    keeper.close()


def on_terminal(box, code):
    live = box.live(argv=("python3", "-c", PRELUDE + code), terminal=(24, 80))
    told = json.loads(live.rest())
    assert live.wait() == (0, 0, 0)
    return told


def test_K24_one_s_own_terminal_cannot_be_typed_into(box):
    told = on_terminal(box, """
answers = []
for number in (0x5412, 0x541c, 0x541d, 0x5423):
    for high in (0, 1 << 32, 0xdead << 32):
        answers.append(call(16, 0, number | high, ctypes.c_char_p(b'x')))
tell([answers, os.ttyname(0), os.tcgetpgrp(0) == os.getpgrp(), os.getsid(0) == os.getpid()])
""")
    assert set(told[0]) == {"EPERM"}
    assert told[1:] == ["/dev/pts/0", True, True]


def test_K24_what_a_terminal_needs_is_allowed(box):
    told = on_terminal(box, """
import fcntl, termios
size = bytearray(8)
words = bytearray(64)
tell({name: attempt(fcntl.ioctl, 0, number, argument) for name, number, argument in (
    ('TIOCGWINSZ', termios.TIOCGWINSZ, size), ('TIOCSWINSZ', termios.TIOCSWINSZ, bytes(8)),
    ('TCGETS', termios.TCGETS, words), ('TIOCGPGRP', termios.TIOCGPGRP, bytearray(4)),
    ('TIOCGSID', 0x5429, bytearray(4)), ('FIONREAD', termios.FIONREAD, bytearray(4)))})
""")
    assert set(told.values()) == {"OK"}, told


def test_K30_a_terminal_brings_no_other_descriptor_in(box):
    box.live("sleep 600", keep_open=True)
    box.live("sleep 600", terminal=(24, 80))
    told = on_terminal(box, """
tell([sorted(fd for fd in range(4096) if attempt(os.fstat, fd) == 'OK'),
      sorted(os.listdir('/dev/pts'))])
""")
    assert told == [[0, 1, 2], ["0", "1", "ptmx"]]


def test_K26_PID_1_cannot_be_touched_after_it_opened_a_terminal(box):
    """It acts with the tenant's rights over files for a moment, which makes the kernel forget
    some of what protects it."""
    told = on_terminal(box, """
tell({'seize': call(101, 0x4206, 1, 0, 0), 'vm': call(310, 1, 0, 0, 0, 0, 0),
 'getfd': call(438, 0, 3, 0), 'kill': attempt(os.kill, 1, 9),
 'fd': attempt(os.listdir, '/proc/1/fd'), 'mem': attempt(lambda: open('/proc/1/mem', 'rb')),
 'environ': attempt(lambda: open('/proc/1/environ', 'rb').read(1))})
""")
    assert set(told.values()) <= REFUSED, told
    _, status, _ = box.run("grep -E '^(Uid|Gid|CapEff)' /proc/1/status")
    uid, gid, caps = (line.split()[1:] for line in status.splitlines())
    assert (set(uid), set(gid)) == ({"0"}, {"0"})
    assert int(caps[0], 16) == 1 << 5 | 1 << 6 | 1 << 7


def test_a_terminal_set_to_anything_does_not_stop_PID_1(box):
    live = box.live("stty raw -echo; kill -STOP $$; sleep 600", terminal=(24, 80))
    script = ("stty -F /dev/pts/0 stop ^A ixon -icanon min 255 time 255; "
              "timeout 0.2 head -c 100000 /dev/zero > /dev/pts/0; echo here")
    for _ in range(3):
        assert box.run(script)[1] == "here\n"
    live.signal(signal.SIGKILL)
    assert live.wait()[2] == 4
