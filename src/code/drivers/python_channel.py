# SPDX-License-Identifier: Apache-2.0
"""Runs Python code in a process that lives on; code/channel.h is the other end. This is the part
that speaks to it; python_results.py and python_run.py follow in the same text.

Requests come on the stdin that the process was started with, frames go to its stdout. The code
sees neither: its fds 0, 1 and 2 are /dev/null and two pipes, which a thread here empties. What is
used after code has run was taken from its module before: the code may have replaced anything.
"""
import _signal
import _thread
import builtins
import io
import linecache
import os
import select
import sys
import traceback
import types
import warnings
from time import clock_gettime_ns as clock
try:
    from _json import encode_basestring as quote
except ImportError:
    from json.encoder import py_encode_basestring as quote

WINDOW = 192 << 10     # bytes of frames that may be on their way
PIECE = 32 << 10       # of output in one frame
LATE = 64 << 10        # bytes that were printed between calls, and wait for the next
CELLS = 256            # whose text is kept for tracebacks
CELL_TEXT = 1 << 20
NAMES = 512            # that are looked at for files that a call wrote
FILES = 20             # of them that are told
FILES_CLOCK = 5        # the coarse one, which file systems have their times from
ONLY_AST, COROUTINE = 0x400, 0x80
TOP_LEVEL_AWAIT = 0x2000 if sys.version_info >= (3, 8) else 0

read, write, poll_in = os.read, os.write, select.POLLIN
fstat, dup2, getpid, leave = os.fstat, os.dup2, os.getpid, os._exit
set_signal, interrupt_signal = _signal.signal, int(_signal.SIGINT)
format_error = traceback.TracebackException
compile_code, run_code, eval_code = compile, exec, eval
environ = os.environ
list_names, working_directory = os.scandir, os.getcwd


def keep(fd):
    """The same open file where code does not stumble over it, and not in programs it starts."""
    import fcntl
    for low in (200, 20):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, low)
        except OSError:
            continue
    raise OSError("no descriptor is left for the interpreter")


class Stream:
    """fd 1 or 2 of the code: a pipe, of which its beginning and its end are kept."""

    def __init__(self, fd, kind):
        self.fd, self.kind = fd, kind
        end, begin = os.pipe()
        self.end, self.begin = keep(end), keep(begin)
        os.close(end)
        os.close(begin)
        os.set_blocking(self.end, False)
        dup2(self.begin, fd)
        self.inode = fstat(self.begin).st_ino
        self.file = self.open()
        self.reset(0)

    def open(self):
        raw = io.BufferedWriter(io.FileIO(self.fd, "w", closefd=False))
        name = "<stdout>" if self.fd == 1 else "<stderr>"
        raw.raw.name = name
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace",
                                line_buffering=True)
        file.mode = "w"
        return file

    def reset(self, limit):
        self.head, self.tail, self.limit = limit // 2, bytearray(), limit - limit // 2
        self.dropped = 0

    def restore(self):
        """Undoes a close of the call before."""
        try:
            same = fstat(self.fd).st_ino == self.inode
        except OSError:
            same = False
        if not same:
            dup2(self.begin, self.fd)
        name = "stdout" if self.fd == 1 else "stderr"
        if self.file.closed:
            closed, self.file = self.file, self.open()
            setattr(sys, "__%s__" % name, self.file)
            if getattr(sys, name, None) is closed:
                setattr(sys, name, None)
        if getattr(sys, name, None) is None:
            setattr(sys, name, self.file)

    def take(self, data, frames):
        """What is to be sent of it now; beyond the limit its newest bytes wait for the end."""
        if self.head > 0:
            frames.append(frame(self.kind, data[:self.head]))
            data, self.head = data[self.head:], self.head - len(data)
        if data:
            self.tail += data
            if len(self.tail) > 2 * self.limit:
                self.trim()

    def trim(self):
        extra = len(self.tail) - self.limit
        if extra > 0:
            self.dropped += extra
            del self.tail[:extra]

    def finish(self, frames):
        if not self.tail:
            return
        self.trim()
        if self.dropped:
            note = "\n[... %d bytes left out ...]\n" % self.dropped
            frames.append(frame(self.kind, note.encode()))
        for at in range(0, len(self.tail), PIECE):
            frames.append(frame(self.kind, bytes(self.tail[at:at + PIECE])))


def frame(kind, data):
    return b"TB" + kind + state.call.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data


class State:
    call = 0            # the number of the last one
    active = False      # one is at work
    running = False     # its code is: an interrupt may hit it
    pending = False     # an interrupt that came while something of ours was half done
    pid = getpid()
    context = b""       # the server's words on what it uses this for
    sent = 0
    acked = 0
    count = 0
    results = 0         # bytes of results that this call may still send
    cut = 0             # results of which something was left out
    loop = None
    late, late_bytes, late_dropped = [], 0, 0
    cells = []
    synced = None
    began = 0           # when, by the clock of files
    written = {}        # files that the last call wrote, and when


class Gone(BaseException):
    """The server has no use for us any more."""


def receive():
    """The next request: its fields."""
    data = read_exactly(int.from_bytes(read_exactly(4), "little"))
    fields, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "little")
        fields.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return fields


def read_exactly(size):
    data = read(source, size)
    while len(data) < size:
        if not data:
            raise Gone
        more = read(source, size - len(data))
        if not more:
            raise Gone
        data += more
    if size and not data:
        raise Gone
    return data


def note(fields):
    """Of requests that come at any time. False: it is another."""
    if fields[0] == b"ack":
        state.acked = int(fields[1])
    elif fields[0] == b"sync":
        # Another server: what is on its way to the one before is nobody's.
        state.acked = state.sent
        state.synced = fields[1]
    else:
        return False
    return True


def send(data):
    """With the lock. What is more than the server can have in front of it waits for its word; and
    what another one has asked for is over with the one that did."""
    for at in range(0, len(data), PIECE) if len(data) > PIECE else (0,):
        piece = data[at:at + PIECE] if len(data) > PIECE else data
        while state.sent + len(piece) - state.acked > WINDOW and state.synced is None:
            note(receive())
        if state.synced is not None:
            return
        put(piece)


def put(piece):
    state.sent += len(piece)
    while piece:
        piece = piece[write(target, piece):]


def drain(frames):
    """With the lock: what the code and its programs have printed until now."""
    turns = 64
    while turns and poller.poll(0):
        turns -= 1
        for stream in streams:
            try:
                data = read(stream.end, PIECE)
            except BlockingIOError:
                continue
            if state.active:
                stream.take(data, frames)
            elif state.late_bytes < LATE:
                state.late.append((stream, data))
                state.late_bytes += len(data)
            else:
                state.late_dropped += len(data)


def pump():
    while True:
        try:
            watcher.poll()
            with lock:
                frames = []
                drain(frames)
                if frames:
                    send(b"".join(frames))
        except Gone:
            leave(0)


class Held:
    """The lock, and no interrupt while it is ours."""

    def __enter__(self):
        self.was, state.running = state.running, False
        lock.acquire()

    def __exit__(self, *_):
        lock.release()
        state.running = self.was
        if self.was and state.pending:
            state.pending = False
            raise KeyboardInterrupt


def on_interrupt(number, where):
    if state.running:
        raise KeyboardInterrupt
    state.pending = state.active
