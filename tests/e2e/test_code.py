# SPDX-License-Identifier: Apache-2.0
"""Code in contexts that keep their state: what it answers, and what stays."""
import base64
import concurrent.futures
import shutil

import pytest

from cells import run, stream, try_run

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="this machine has no node")


@pytest.fixture
def py(server, session):
    return lambda text, **fields: run(server, session, text, **fields)


@pytest.fixture
def js(server):
    session = server.create(policy="open")
    yield lambda text, **fields: run(server, session, text, language="javascript", **fields)
    server.cleanup(session)


@pytest.fixture
def sh(server, session):
    return lambda text, **fields: run(server, session, text, language="bash", **fields)


def main(answer):
    """The main result of a call that went well."""
    assert answer["error"] is None, answer
    found = [one for one in answer["results"] if one["is_main_result"]]
    assert len(found) == 1, answer
    return found[0]


# ---- Python ----

def test_state_lives_on_and_the_last_expression_is_the_result(py):
    first = py("import math\nx = 41\ndef f(n): return n + 1\nprint('hello')")
    assert (first["stdout"], first["results"], first["text"]) == ("hello\n", [], None)
    second = py("f(x)")
    assert (second["text"], main(second)["text"]) == ("42", "42")
    assert (first["execution_count"], second["execution_count"]) == (1, 2)
    assert py("math.pi > 3 and _")["text"] == "42"
    assert second["artifacts"] == [] and not second["restarted"] and not second["state_lost"]


@pytest.mark.parametrize("text,shown", [
    ("'a string'", "a string"), ("[1, 'x']", "[1, 'x']"), ("1.5", "1.5"), ("None", None),
    ("x = 1", None), ("7;", None), ("", None), ("# nothing", None), ("'\\ud800'", "\\ud800"),
    ("await __import__('asyncio').sleep(0, 'awaited')", "awaited"),
    ("if True:\n    5", None), ("__name__", "__main__"), ("'é€😀'", "é€😀")])
def test_what_is_shown(py, text, shown):
    answer = py(text)
    assert (answer["error"], answer["text"]) == (None, shown), answer


def test_an_error_has_name_value_and_traceback(py):
    error = py("def f():\n    return 1 / 0\n\nf()")["error"]
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    assert 'File "<cell 1>", line 4' in error["traceback"]
    assert "return 1 / 0" in error["traceback"] and "threadbox" not in error["traceback"]
    assert py("x = ")["error"]["name"] == "SyntaxError"
    assert py("1")["text"] == "1"


@pytest.mark.parametrize("text,value", [
    ("import sys; sys.exit(3)", "3"), ("exit('why')", "why"), ("raise SystemExit(2)", "2")])
def test_an_exit_ends_the_call_and_not_the_context(py, text, value):
    py("kept = 1")
    error = py(text)["error"]
    assert (error["name"], error["value"]) == ("SystemExit", value)
    assert py("import sys; sys.exit(0)")["error"] is None
    assert py("kept")["text"] == "1"


def test_input_says_that_there_is_none(py):
    error = py("input('name? ')")["error"]
    assert error["name"] == "EOFError" and "nothing to read" in error["value"]
    assert py("import sys; sys.stdin.read()")["text"] == ""


RICH = """
class Rich:
    def _repr_html_(self): return '<b>x</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_svg_(self): return '<svg/>'
    def _repr_markdown_(self): return '# x'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_javascript_(self): return 'x()'
    def _repr_pdf_(self): return b'%PDF'
    def _repr_jpeg_(self): return b'JFIF'
    def __repr__(self): return 'Rich'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'plain', 'text/html': '<i>', 'application/x-own': {'k': 1}}, {}
class Everything:
    def __getattr__(self, name): return lambda *a: 'wrong'
"""


def test_rich_results(py):
    def coded(data):
        return base64.b64encode(data).decode()

    py(RICH)
    assert main(py("Rich()")) == {
        "is_main_result": True, "text": "Rich", "html": "<b>x</b>", "png": coded(b"\x89PNG"),
        "svg": "<svg/>", "markdown": "# x", "latex": "$x$", "json": {"a": [1, None]},
        "javascript": "x()", "pdf": coded(b"%PDF"), "jpeg": coded(b"JFIF")}
    assert main(py("Bundle()")) == {"is_main_result": True, "text": "plain", "html": "<i>",
                                    "extra": {"application/x-own": {"k": 1}}}
    assert set(main(py("Everything()"))) == {"is_main_result", "text"}
    assert set(main(py("Rich"))) == {"is_main_result", "text"}


def test_display_comes_between_what_is_printed(server, session):
    text = "print('a'); display(1, 'two'); print('b'); 3"
    with stream(server, session, text) as events:
        seen = [(kind, message.get("text")) for kind, message in events]
    assert seen == [("number_of_executions", None), ("stdout", "a\n"), ("result", "1"),
                    ("result", "two"), ("stdout", "b\n"), ("result", "3"),
                    ("end_of_execution", None)]


# What matplotlib is to us: figures that are open, and can be saved and closed.
PYPLOT = """
class Figure:
    def savefig(self, file, format, **_): file.write(format.encode() + b' of a figure')
_open = {}
def figure(number=None):
    number = number or len(_open) + 1
    return _open.setdefault(number, Figure())
def get_fignums(): return list(_open)
def close(what): _open.clear()
def show(): raise RuntimeError('no display')
"""


def test_figures_that_are_open_are_shown(server, session, py):
    server.execute(session, "mkdir matplotlib; touch matplotlib/__init__.py; "
                            "cat > matplotlib/pyplot.py", stdin=PYPLOT)
    png = base64.b64encode(b"png of a figure").decode()
    answer = py("import matplotlib.pyplot as plt\nplt.figure()\nplt.figure()\n1")
    assert [one.get("png") for one in answer["results"]] == [None, png, png], answer
    assert main(answer)["text"] == "1"
    assert answer["artifacts"] == ["cell-1-1.png", "cell-1-2.png"]
    kept = server.get(f"/api/sessions/{session}/artifacts").json["artifacts"]
    assert {(one["name"], one["origin"], one["size_bytes"]) for one in kept} == {
        (name, "code", 15) for name in answer["artifacts"]}
    assert py("plt.figure(); plt.show(); print('after')")["results"][0]["png"] == png
    assert main(py("plt.Figure()"))["png"] == png
    assert py("2")["results"] == [{"is_main_result": True, "text": "2"}]


def test_a_table_is_also_data(server, session, py):
    server.execute(session, "mkdir pandas; cat > pandas/__init__.py", stdin="""
class DataFrame:
    def __init__(self, columns): self.columns = columns
    def __len__(self): return 2
    def to_dict(self, orient): return self.columns
    def _repr_html_(self): return '<table>'
    def __repr__(self): return 'a  b'
""")
    shown = main(py("import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']})"))
    assert shown == {"is_main_result": True, "text": "a  b", "html": "<table>",
                     "data": {"a": [1, 2], "b": ["x", "y"]}}


def test_programs_that_the_code_starts_print_in_order(py):
    answer = py("import os, subprocess\nprint('a')\nos.system('echo b; echo e >&2')\n"
                "print('c')\nsubprocess.run(['echo', 'd'])\nos.write(1, b'e\\n')\nNone")
    assert (answer["stdout"], answer["stderr"]) == ("a\nb\nc\nd\ne\n", "e\n")


def test_variables_of_one_call(server, session, py):
    look = "import os; os.environ.get('A', 'none')"
    assert py(look, env={"A": "1"})["text"] == "1"
    assert py(look)["text"] == "none"
    py("os.environ['A'] = 'own'")
    assert py(look, env_vars={"A": "2"})["text"] == "2"
    assert py(look)["text"] == "own"
    refused = try_run(server, session, "1", env={"A": 1})
    assert refused.status == 400 and "env" in refused.json["error"]


# ---- JavaScript ----

@needs_node
def test_javascript_keeps_what_is_declared(js):
    js("const x = 1; let y = 2; function f() { return 3 } class A {}")
    assert js("const x = 5; x + y + f() + typeof A")["text"] == "10function"
    assert js("await new Promise((done) => setTimeout(() => done('later'), 5))")["text"] == "later"
    assert js("import { join as j } from 'path'; (await import('fs')).existsSync(j('/', 'tmp'))"
              )["text"] == "true"
    assert js("({ a: [1, 'x'] })")["text"] == "{ a: [ 1, 'x' ] }"
    answer = js("console.log('out'); console.error('err'); undefined")
    assert (answer["stdout"], answer["stderr"], answer["results"]) == ("out\n", "err\n", [])
    error = js("function g() { throw new TypeError('bad') }\ng()")["error"]
    assert (error["name"], error["value"]) == ("TypeError", "bad")
    assert "at g (cell-" in error["traceback"] and "inspector" not in error["traceback"]
    assert js("process.exit(3)")["error"]["name"] == "SystemExit"
    shown = js("display({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<b>' }) }); x")
    assert shown["results"] == [{"is_main_result": False, "html": "<b>"},
                                {"is_main_result": True, "text": "5"}]
    assert js("process.env.K", env={"K": "v"})["text"] == "v" and not js("process.env.K")["results"]


@needs_node
def test_javascript_is_interrupted_and_goes_on(js):
    js("const kept = 7")
    for text in ("while (true) {}", "await new Promise(() => {})"):
        answer = js(text, timeout=0.5)
        assert answer["timed_out"] and not answer["state_lost"], answer
        assert answer["error"]["name"] == "TimeoutError"
    assert js("kept")["text"] == "7"


# ---- bash ----

def test_bash_keeps_directory_variables_and_functions(sh):
    sh("cd /tmp; a=1; f() { echo \"f $1 $a\"; }")
    answer = sh("pwd; f x")
    assert (answer["stdout"], answer["exit_code"], answer["error"]) == ("/tmp\nf x 1\n", 0, None)
    failed = sh("echo out; echo err >&2; false")
    assert (failed["stdout"], failed["stderr"], failed["exit_code"]) == ("out\n", "err\n", 1)
    assert failed["error"] == {"name": "ExitError", "value": "exit status 1", "traceback": ""}
    assert sh("echo $K", env={"K": "it's"})["stdout"] == "it's\n"
    assert sh("echo ${K-none}")["stdout"] == "none\n"
    sh("K=own")
    assert sh("echo $K", env={"K": "2"})["stdout"] == "2\n"
    assert sh("echo $K")["stdout"] == "own\n"
    assert sh(" ")["exit_code"] == 0


def test_bash_that_takes_too_long_keeps_its_state(sh):
    sh("a=1")
    answer = sh("sleep 100", timeout=0.5)
    assert answer["timed_out"] and answer["error"]["name"] == "TimeoutError", answer
    assert sh("echo $a")["stdout"] == "1\n"
    assert len(sh("seq 1 1000000")["stdout"]) < 1100000


# ---- contexts ----

def test_contexts_are_apart(server, session):
    path = f"/api/sessions/{session}/contexts"
    made = server.post(path, {"language": "python", "cwd": "/tmp", "env": {"A": "1"}})
    assert made.status == 201, made
    mine = made.json["context_id"]
    assert (made.json["language"], made.json["cwd"]) == ("python", "/tmp")
    look = "import os; (os.getcwd(), os.environ.get('A'))"
    assert run(server, session, look, context_id=mine)["text"] == "('/tmp', '1')"
    assert run(server, session, look)["text"] == "('/workspace', None)"
    run(server, session, "x = 1", context_id=mine)
    assert run(server, session, "x")["error"]["name"] == "NameError"
    assert {one["context_id"] for one in server.get(path).json["contexts"]} == {mine, "python"}
    anew = server.post(f"{path}/{mine}/restart")
    assert (anew.status, anew.json["execution_count"]) == (200, 0)
    answer = run(server, session, "x", context_id=mine)
    assert answer["error"]["name"] == "NameError" and not answer["restarted"]
    assert run(server, session, look, context_id=mine)["text"] == "('/tmp', '1')"
    assert server.request("DELETE", f"{path}/{mine}").status == 200
    assert try_run(server, session, "1", context_id=mine).status == 404
    assert len(server.sandbox_pids(session)) <= 3


def test_what_is_wrong_with_a_request(server, session):
    reply = try_run(server, session, "1", language="cobol")
    assert reply.status == 400
    assert "cobol" in reply.json["error"] and "python, javascript, bash" in reply.json["error"]
    assert try_run(server, "nosuch", "1").status == 404
    assert try_run(server, session, "1", context_id="nosuch").status == 404
    assert try_run(server, session, "1", timeout=0).status == 400
    assert server.post(f"/api/sessions/{session}/code", {}).status == 400
    path = f"/api/sessions/{session}/contexts"
    for fields in ({"language": "r"}, {"cwd": "/nowhere"}, {"env": {"A": 1}}):
        assert server.post(path, fields).status == 400, fields
    assert server.get(path).json["contexts"] == []
    run(server, session, "1")
    reply = try_run(server, session, "1", context_id="python", language="bash")
    assert reply.status == 400 and "runs python" in reply.json["error"]
    assert server.post(f"{path}/python/interrupt").status == 409


def test_calls_wait_for_their_turn(server, session, py):
    py("seen = []")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(py, "import time; seen.append('b'); time.sleep(.05); seen.append('e')")
                 for _ in range(4)]
        counts = sorted(call.result()["execution_count"] for call in calls)
    assert counts == [2, 3, 4, 5]
    assert py("''.join(seen)")["text"] == "be" * 4


def test_the_dialect_of_the_api_system(server):
    session = server.post("/api/sessions", {"environment": "Python3"}).json["session_id"]
    try:
        answer = server.post("/api/e2b/execute", {"session_id": session,
                                                  "code": "print('Hello World'); 6 * 7"})
        assert answer.status == 200, answer
        assert answer.json["stdout"] == "Hello World\n" and answer.json["error"] is None
        assert answer.json["results"] == [{"is_main_result": True, "text": "42"}]
        assert answer.json["artifacts"] == []
        assert server.post("/api/e2b/execute", {"session_id": "no", "code": "1"}).status == 404
        assert server.post("/api/e2b/execute", {"session_id": session}).status == 400
    finally:
        server.cleanup(session)
