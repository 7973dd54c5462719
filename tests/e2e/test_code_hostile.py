# SPDX-License-Identifier: Apache-2.0
"""Code that means no good to its interpreter: the call has an answer, and so has the next."""
import pytest

from cells import run, stream, try_run


@pytest.fixture
def py(server, session):
    return lambda text, **fields: run(server, session, text, **fields)


# What a context survives with its state.
HARMLESS = {
    "writes to every descriptor": "import os\nfor fd in range(64):\n    try: os.write(fd, b'x')\n"
                                  "    except OSError: pass",
    "prints what looks like a frame": "import sys\nsys.stdout.buffer.write(b'TBe' + bytes(8))",
    "closes its streams": "import os, sys\nsys.stdout.close()\nos.close(1); os.close(2)",
    "opens files in place of its streams": "import os\nos.close(1)\nf = open('/tmp/f', 'w')",
    "puts something else there": "import sys\nsys.stdout = sys.stderr = None",
    "deletes its builtins": "del __builtins__",
    "replaces builtins": "import builtins\nfor n in ('len', 'str', 'print', 'isinstance', 'repr',"
                         " 'exec', 'compile', 'open'): setattr(builtins, n, None)",
    "replaces modules": "import json, os, sys, linecache, traceback\n"
                        "json.dumps = json.loads = traceback.TracebackException = None\n"
                        "linecache.cache = 1\n"
                        "for m in ('os', 'json', 'io', 'select'): sys.modules[m] = None",
    "forgets its variables": "globals().clear()",
    "recurses": "def f(): f()\nf()",
    "raises something unspeakable": "class E(BaseException):\n    def __str__(self): raise self\n"
                                    "    __repr__ = __str__\nraise E",
    "raises with surrogates": "raise ValueError('\\udcff\\ud800')",
    "has a representation that raises": "class R:\n    def __repr__(self): 1 / 0\nR()",
    "represents itself as no text": "class R:\n    def _repr_html_(self): return 5\n"
                                    "    def _repr_png_(self): return 7\nR()",
    "is represented by a strange string": "class S(str):\n    def __len__(self): return -1\n"
                                          "    def encode(self, *a): raise KeyError\n"
                                          "class R:\n    def __repr__(self): return S('x')\nR()",
    "forks": "import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0)",
    "leaves handlers behind": "import atexit, signal, sys\natexit.register(lambda: 1 / 0)\n"
                              "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                              "sys.settrace(lambda *a: None)\nsys.excepthook = None",
    "raises the wrong things": "raise KeyboardInterrupt",
    "blocks signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "exits strangely": "class C:\n    def __str__(self): return 1\nraise SystemExit(C())",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=list(HARMLESS))
def test_a_context_goes_on_after_code_that(py, text):
    py("kept = 1")
    answer = py(text)
    assert not answer["state_lost"], answer
    after = py("kept = globals().get('kept', 1)\nkept")
    assert (after["text"], after["restarted"], after["error"]) == ("1", False, None), after
    assert py("import sys; _ = sys.__stdout__.write('w')")["stdout"].endswith("w")
    stopped = py("while True: pass", timeout=0.3)
    assert stopped["timed_out"] and not stopped["state_lost"], stopped


# What it does not, and what the answer says then.
DEADLY = {
    "os._exit": ("import os; os._exit(3)", "code 3"),
    "a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
    "a crash": ("import ctypes; ctypes.string_at(0)", "signal 11"),
    "closing everything": ("import os; os.closerange(3, 4096)", ""),
    "memory": ("x = [bytearray(1 << 20) for _ in range(4096)]", ""),
    "frames of its own": ("import os\nfor fd in range(3, 1000):\n"
                          "    try: os.write(fd, b'no frame at all, whatever it may be')\n"
                          "    except OSError: pass", ""),
}


@pytest.mark.parametrize("text,why", DEADLY.values(), ids=list(DEADLY))
def test_an_end_of_the_interpreter_is_told_by(py, text, why):
    py("kept = 1")
    answer = py(text)
    if text.startswith("x = [") and answer["error"]["name"] == "MemoryError":
        return  # the limit was met by the allocator, politely
    assert answer["state_lost"] and answer["error"]["name"] == "InterpreterLost", answer
    assert why in answer["error"]["value"], answer
    after = py("'kept' in globals()")
    assert (after["text"], after["restarted"], after["execution_count"]) == ("False", True, 1)
    assert not py("1")["restarted"]


def test_an_interpreter_that_died_between_calls_is_told(server, session, py):
    py("import os, threading\nkept = 1\nt = threading.Timer(0.05, lambda: os._exit(0)); t.start()")
    number = [one for one in server.processes(session) if one["tag"] == "threadbox.code python"][0]
    server.wait_exited(session, number["process_id"])
    after = py("'kept' in globals()")
    assert (after["text"], after["restarted"]) == ("False", True)


def test_who_ignores_an_interrupt_is_killed(py):
    py("kept = 1")
    answer = py("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                timeout=0.3)
    assert answer["timed_out"] and answer["state_lost"], answer
    assert answer["error"]["name"] == "TimeoutError" and "killed" in answer["error"]["value"]
    assert py("'kept' in globals()")["restarted"]


def test_representations_that_hang_are_interrupted(py):
    py("class R:\n    def __repr__(self):\n        while True: pass\n"
       "class E(Exception):\n    def __str__(self):\n        while True: pass\n")
    for text in ("R()", "raise E"):
        answer = py(text, timeout=0.3)
        assert answer["timed_out"] and not answer["state_lost"], (text, answer)


def test_what_is_printed_after_a_call_comes_with_the_next(py):
    py("import os, sys, threading\ngo = threading.Event(); done = threading.Event()\n"
       "def late():\n    go.wait(); print('late'); done.set()\n"
       "threading.Thread(target=late).start()")
    assert py("go.set(); done.wait(); None")["stdout"] == "late\n"
    first = py("import os, time\nif os.fork() == 0:\n"
               "    time.sleep(.2); os.write(1, b'child'); os._exit(0)")
    assert first["stdout"] == ""
    assert py("os.wait()[1]")["stdout"] == "child"


def test_a_gigabyte_is_printed_and_forgotten(py):
    answer = py("import os\nchunk = b'x' * (1 << 20)\nfor _ in range(256): os.write(1, chunk)\n"
                "'done'", timeout=60)
    assert (answer["text"], answer["error"]) == ("done", None)
    assert len(answer["stdout"]) < 1_100_000 and "bytes left out" in answer["stdout"]


def test_a_reader_who_is_slow_stops_nobody_else(server, session, py):
    other = server.create()
    try:
        with stream(server, session, "for i in range(100000): print('x' * 50)") as messages:
            next(messages)
            assert run(server, other, "6 * 7")["text"] == "42"
            kinds = {kind for kind, _ in messages}
        assert kinds == {"stdout", "end_of_execution"}
    finally:
        server.cleanup(other)


def test_a_session_that_ends_under_its_code_is_told(server):
    session = server.create()
    with stream(server, session, "print('begun')\nwhile True: pass", timeout=60) as messages:
        while next(messages)[0] != "stdout":
            pass
        server.cleanup(session)
        rest = dict(messages)
    assert rest["end_of_execution"]["state_lost"], rest
    assert try_run(server, session, "1").status == 404


# Frames of the right form, on the descriptors that lead to the server: those that are written to
# only, and are no pipe of which the driver has both ends.
FORGE = """
import collections, fcntl, os, struct
named = {}
for name in os.listdir('/proc/self/fd'):
    try: named[int(name)] = os.readlink(f'/proc/self/fd/{name}')
    except OSError: pass
times = collections.Counter(place for fd, place in named.items() if fd >= 20)
ways = [fd for fd, place in named.items() if fd >= 20 and times[place] == 1
        and place.startswith(('pipe', 'socket')) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE]
for fd in ways:
    for _ in range(COUNT):
        os.write(fd, b'TBKIND' + struct.pack('<II', 2, 60000) + b'x' * 60000)
len(ways)
"""


def forge(kind, count):
    return FORGE.replace("KIND", kind).replace("COUNT", str(count))


def test_forged_output_is_kept_no_longer_than_any(py):
    py("kept = 1")
    answer = py(forge("1", 300))
    assert answer["text"] in ("1", "2") and 60000 < len(answer["stdout"]) < 3 << 20
    assert py("kept")["text"] == "1"


def test_a_forged_result_without_an_end_ends_the_interpreter(py):
    py("kept = 1")
    answer = py(forge("p", 200))
    assert answer["state_lost"] and answer["error"]["name"] == "InterpreterLost", answer
    assert "more than it may" in answer["error"]["value"], answer
    assert py("1")["text"] == "1"


def test_a_context_that_ends_under_its_call_is_told(server, session, py):
    path = f"/api/sessions/{session}/contexts/python"
    for method, place in (("POST", f"{path}/restart"), ("DELETE", path)):
        with stream(server, session, "print('begun')\nwhile True: pass", timeout=60) as messages:
            while next(messages)[0] != "stdout":
                pass
            assert server.request(method, place).status == 200
            rest = dict(messages)
        assert rest["end_of_execution"]["state_lost"] or rest["end_of_execution"]["interrupted"]
        assert py("1")["text"] == "1"
