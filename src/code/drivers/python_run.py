# SPDX-License-Identifier: Apache-2.0
"""Runs cells: the last part of the text that begins with python_channel.py."""


def no_input(prompt=""):
    raise EOFError("input() has nothing to read: the code runs on its own, put the answer into it")


def remember(name, text):
    """For tracebacks and inspect."""
    if len(text) > CELL_TEXT:
        return
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    state.cells.append(name)
    if len(state.cells) > CELLS:
        linecache.cache.pop(state.cells.pop(0), None)


def run_cell(text, name):
    """Runs it; the value of its last expression, if it ends with one, is its result."""
    try:
        remember(name, text)
    except Exception:
        pass  # the code has its way with linecache
    tree = compile_code(text, name, "exec", ONLY_AST | TOP_LEVEL_AWAIT, True)
    last = tree.body[-1] if tree.body else None
    shown = type(last).__name__ == "Expr"
    if shown:
        tree.body.pop()
    if tree.body:
        run_part(compile_code(tree, name, "exec", TOP_LEVEL_AWAIT, True))
    if not shown:
        return
    value = run_part(compile_code(EXPRESSION(last.value), name, "eval", TOP_LEVEL_AWAIT, True))
    if value is not None:
        space["_"] = value
        if not text.rstrip().endswith(";"):
            show(value, True)


def run_part(code):
    result = eval_code(code, space)
    if not code.co_flags & COROUTINE:
        return result
    import asyncio
    if state.loop is None or state.loop.is_closed():
        state.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(state.loop)
    task = state.loop.create_task(result)
    try:
        return state.loop.run_until_complete(task)
    except (KeyboardInterrupt, SystemExit):
        if not task.done():
            task.cancel()
            try:
                state.loop.run_until_complete(task)
            except BaseException:
                pass
        raise


def describe(error):
    """Its name, its words, and where it came from: whatever is wrong with it."""
    name, value, trace = "Exception", "", ""
    try:
        name = text_of(type(error).__name__)
    except BaseException:
        pass
    try:
        value = text_of(str(error))
    except BaseException:
        value = "<its text can't be had>"
    try:
        where = error.__traceback__
        while where is not None and where.tb_frame.f_code.co_filename == HERE:
            where = where.tb_next
        lines = format_error(type(error), error, where, compact=True).format() if COMPACT else \
            format_error(type(error), error, where).format()
        trace = text_of("".join(line for line in lines if HERE not in line))
    except BaseException:
        trace = name + ": " + value
    return name, value[:1 << 16], trace[-(1 << 18):]


def set_variables(pairs, before):
    """Notes what was there before."""
    for at in range(0, len(pairs), 2):
        name, value = pairs[at].decode(), pairs[at + 1].decode("utf-8", "surrogateescape")
        before[name] = environ.get(name)
        environ[name] = value


def unset_variables(before):
    for name, value in before.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value


def flush():
    """Of those that the code has put there instead, too."""
    for name, stream in zip(("stdout", "stderr"), streams):
        stream.file.flush()
        current = getattr(sys, name, None)
        if current is not None and current is not stream.file:
            current.flush()


def guarded(work):
    """What it raised, if it did. Interrupts hit `work` and nothing else."""
    try:
        try:
            state.running = True
            if state.pending:
                raise KeyboardInterrupt
            work()
        finally:
            state.running = False
    except SystemExit as error:
        return error if error.code not in (None, 0) else None
    except BaseException as error:
        return error
    return None


def written(found):
    """Files that were written since the call began: those in the working directory, and those in
    directories there, if names came or went in them."""
    told, left = {}, NAMES
    places = [(working_directory(), 0)]
    if not (places[0][0] + "/").startswith("/workspace/"):
        return
    for place, depth in places:
        with list_names(place) as entries:
            for entry in entries:
                left -= 1
                if left < 0 or len(found) >= FILES:
                    return
                facts = entry.stat(follow_symlinks=False)
                hidden = entry.name[0] == "." or entry.name == "__pycache__"
                if facts.st_ctime_ns < state.began or hidden or not entry.path.isprintable():
                    continue
                if facts.st_mode & 0o170000 == 0o040000 and depth < 2:
                    places.append((entry.path, depth + 1))
                elif facts.st_mode & 0o170000 == 0o100000:
                    told[entry.path] = facts.st_ctime_ns
                    if state.written.get(entry.path) != facts.st_ctime_ns:
                        found.append(entry.path)
    state.written = told  # the next call may begin within the same tick


def begin(call, limit, results):
    state.call, state.pending = call, False
    state.began = clock(FILES_CLOCK)
    state.results, state.cut = results, 0
    state.count += 1
    for stream in streams:
        stream.restore()
        stream.reset(limit)
    set_signal(interrupt_signal, on_interrupt)
    with lock:
        state.active = True
        if not state.late:
            return
        frames = []
        for stream, data in state.late:
            stream.take(data, frames)
        if state.late_dropped:
            text = "\n[... %d bytes left out ...]\n" % state.late_dropped
            streams[0].take(text.encode(), frames)
        state.late, state.late_bytes, state.late_dropped = [], 0, 0
        if frames:
            send(b"".join(frames))


def finish(error, files):
    """Tells the end: what was printed, what went wrong."""
    told = []
    if error is not None:
        guarded(lambda: told.append(describe(error)))
        parts = told[0] if told else ("Exception", "its text can't be had", "")
        told = ['{"name":%s,"value":%s,"traceback":%s}' % tuple(map(quote, parts))]
    text = '{"count":%d,"cut":%d,"error":%s,"files":[%s]}' % (
        state.count, state.cut, (told or ["null"])[0], ",".join(map(quote, files)))
    with lock:
        frames = []
        drain(frames)
        for stream in streams:
            stream.finish(frames)
        message(b"e", text.encode("utf-8"), frames)
        state.active = False
        send(b"".join(frames))


def execute(fields):
    call, limit, results = map(int, fields[1:4])
    text = fields[4].decode("utf-8", "replace")
    begin(call, limit, results)
    before = {}
    name = "<cell %d>" % state.count

    def work():
        set_variables(fields[5:], before)
        run_cell(text, name)
    error = guarded(work)
    if getpid() == state.pid:
        failed = guarded(show_figures)
        error = error or failed
    guarded(flush)
    if getpid() != state.pid:  # a copy of us that the code made
        leave(0 if error is None else 1)
    guarded(lambda: unset_variables(before))
    files = []
    guarded(lambda: written(files))
    finish(error, files)


def set_up(fields):
    """For whom we work from now on, where, and with which variables."""
    state.context = fields[1]
    failed = b""
    try:
        os.chdir(fields[2].decode("utf-8", "surrogateescape"))
    except OSError as error:
        failed = str(error).encode()
    had = environ.get("PYTHONPATH")
    set_variables(fields[3:], {})
    added = environ.get("PYTHONPATH")
    if added and added != had:  # we run already
        at = 1 if sys.path and sys.path[0] == "" else 0
        sys.path[at:at] = [one for one in added.split(":") if one not in sys.path]
    with lock:
        send(frame(b"s", failed))


def on_fork():
    global lock
    lock = _thread.allocate_lock()
    for fd in (source, target):
        try:
            os.close(fd)
        except OSError:
            pass
    state.active = False


def serve():
    while True:
        fields = receive()
        if fields[0] == b"exec":
            execute(fields)
        elif fields[0] == b"setup":
            set_up(fields)
        else:
            note(fields)
        if state.synced is not None:  # also while code ran
            with lock:
                put(frame(b"y", state.synced + state.context))
                state.synced = None


HERE = "<threadbox>"
COMPACT = sys.version_info >= (3, 10)
EXPRESSION = type(compile_code("0", HERE, "eval", ONLY_AST))
state = State()
source, target, complaints = keep(0), keep(1), keep(2)
nothing = os.open("/dev/null", os.O_RDONLY)
dup2(nothing, 0)
os.close(nothing)
lock = _thread.allocate_lock()
streams = (Stream(1, b"1"), Stream(2, b"2"))
poller, watcher = select.poll(), select.poll()  # one for each thread
for one in streams:
    poller.register(one.end, poll_in)
    watcher.register(one.end, poll_in)
sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
sys.stdout = sys.__stdout__ = streams[0].file
sys.stderr = sys.__stderr__ = streams[1].file
builtins.input = no_input
environ.setdefault("MPLBACKEND", "agg")
sys.meta_path.insert(0, PlotFinder)
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
sys.argv = [""]
main = types.ModuleType("__main__")
space = main.__dict__
space.update(__builtins__=builtins, display=display, __name__="__main__")
sys.modules["__main__"] = main
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=on_fork)
set_signal(interrupt_signal, on_interrupt)
_thread.start_new_thread(pump, ())
try:
    serve()
except Gone:
    leave(0)
except BaseException as problem:
    write(complaints, ascii(problem).encode()[:4096])
    leave(70)
