# SPDX-License-Identifier: Apache-2.0
"""Contexts while they run and while they wait: streams, interrupts, and servers that go."""
import concurrent.futures
import json
import os
import signal

import pytest

from cells import run, show, stream, try_run
from server import wait_until


@pytest.fixture
def py(server, session):
    return lambda text, **fields: run(server, session, text, **fields)


# ---- streams and interrupts ----

@pytest.mark.parametrize("events", [False, True])
def test_a_stream_comes_while_the_code_runs(server, session, events):
    text = "import os\nprint('begun')\nwhile not os.path.exists('go'): pass\nprint('gone')\n1/0"
    with stream(server, session, text, events=events) as messages:
        assert next(messages) == ("number_of_executions", {"execution_count": 1})
        kind, message = next(messages)
        assert (kind, message["text"]) == ("stdout", "begun\n")
        server.stdout(session, "touch go")
        rest = list(messages)
    assert [kind for kind, _ in rest] == ["stdout", "error", "end_of_execution"]
    assert rest[1][1]["name"] == rest[2][1]["error"]["name"] == "ZeroDivisionError"


def test_an_interrupt_keeps_the_state(server, session, py):
    py("x = 1")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for text in ("while True: pass", "import time; time.sleep(100)",
                     "import os; os.system('sleep 100')", "await __import__('asyncio').sleep(99)"):
            call = pool.submit(py, text)
            wait_until(lambda: show(server, session, "python")["state"] == "running", "it runs")
            reply = server.post(f"/api/sessions/{session}/contexts/python/interrupt")
            assert reply.status == 200, reply
            answer = call.result()
            assert answer["interrupted"] and not answer["timed_out"], (text, answer)
            if "system" not in text:
                assert answer["error"]["name"] == "KeyboardInterrupt", (text, answer)
    assert py("x")["text"] == "1"


def test_who_leaves_a_stream_interrupts_its_code(server, session, py):
    with stream(server, session, "import time\nx = 1\nprint('begun')\ntime.sleep(100)") as messages:
        while next(messages)[0] != "stdout":
            pass
    wait_until(lambda: show(server, session, "python")["state"] == "waiting", "it was interrupted")
    assert py("x")["text"] == "1"


def test_a_call_that_takes_too_long_is_interrupted_and_its_state_is_kept(py):
    answer = py("x = 1\nwhile True: x += 1", timeout=0.5)
    assert answer["timed_out"] and not answer["state_lost"] and not answer["interrupted"]
    assert answer["error"]["name"] == "TimeoutError" and "0.5 s" in answer["error"]["value"]
    assert "while True" in answer["error"]["traceback"]
    assert int(py("x")["text"]) > 1


# ---- lives ----

def test_an_interpreter_outlives_the_server(start_server):
    server = start_server()
    session = server.create()
    run(server, session, "x = 1")
    run(server, session, "y=2", language="bash")
    made = server.post(f"/api/sessions/{session}/contexts", {"env": {"A": "1"}}).json["context_id"]
    run(server, session, "x = 3", context_id=made)
    server.kill9()
    server.restart()
    listed = server.get(f"/api/sessions/{session}/contexts").json["contexts"]
    assert {one["context_id"] for one in listed} == {"python", "bash", made}
    for fields, text, shown in (({}, "x", "1"), ({"context_id": made}, "x", "3"),
                                ({"context_id": made}, "import os; os.environ['A']", "1")):
        answer = run(server, session, text, **fields)
        assert (answer["text"], answer["restarted"]) == (shown, False)
    assert run(server, session, "echo $y", language="bash")["stdout"] == "2\n"


def test_a_call_that_lost_its_server_is_interrupted_by_the_next(start_server):
    server = start_server()
    session = server.create()
    run(server, session, "x = 1")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        text = "x = 2\nprint('z' * 3000000)\nwhile True: pass"
        lost = pool.submit(try_run, server, session, text)
        wait_until(lambda: show(server, session, "python")["state"] == "running", "it runs")
        server.kill9()
        assert lost.exception()
    server.restart()
    answer = run(server, session, "x")
    assert (answer["text"], answer["restarted"], answer["stdout"]) == ("2", False, ""), answer


def test_a_context_does_not_keep_its_session_from_idling(start_server):
    server = start_server(CLEANUP_INTERVAL_SECONDS=1)
    reply = server.post("/create_session", {"user_id": "u", "thread_id": "t",
                                            "timeout_minutes": 0.05})
    if reply.status != 200:
        pytest.skip("sessions can't be so short here")
    session = reply.json["session_id"]
    run(server, session, "1")
    server.wait_gone(session)


def test_warm_interpreters_wait_in_the_pool(start_server):
    server = start_server(WARM_LANGUAGES="python", POOL_SIZE=1)
    wait_until(lambda: server.health()["pool_available"] == 1, "the pool is full")
    session = server.create()
    answer = run(server, session, "import os; os.getpid()")
    assert answer["error"] is None and not answer["restarted"]
    tags = [one["tag"] for one in server.processes(session)]
    assert tags == ["threadbox.code python"], tags
    run(server, session, "x = 1")
    server.kill9()
    server.restart()
    assert run(server, session, "x")["text"] == "1"
    assert [one["tag"] for one in server.processes(session)] == tags


def test_a_warm_interpreter_passes_the_policy_too(start_server, tmp_path):
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.yaml").write_text("name: p\nforbidden: [python3]\nunresolved: allow\n"
                                     "confine: false\n")
    for folder in (policies, tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    server = start_server(WARM_LANGUAGES="python", POOL_SIZE=1, DEFAULT_POLICY="p",
                          REGISTRY_DIR=tmp_path)
    wait_until(lambda: server.health()["pool_available"] == 1, "the pool is full")
    session = server.create()
    assert [one["tag"] for one in server.processes(session)] == ["threadbox.code python"]
    reply = try_run(server, session, "1")
    assert reply.status == 400 and "python3" in reply.json["error"], reply


def test_interpreters_that_start_at_once_are_each_for_one(server):
    """In a sandbox that comes back for the first of them: what it finds there is not its own."""
    for _ in range(3):
        session = server.create()
        path = f"/api/sessions/{session}/contexts"
        server.execute(session, "true")
        os.kill(server.guest_pid(session), signal.SIGKILL)

        def begin(number, session=session, path=path):
            mine = wait_until(  # 503 while the server has not seen the end of the sandbox yet
                lambda: server.post(path, {"language": "python"}).json.get("context_id"),
                "it is made")
            run(server, session, f"x = {number}", context_id=mine)
            return run(server, session, "(x, __import__('os').getpid())", context_id=mine)["text"]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = [eval(text) for text in pool.map(begin, range(4))]  # pairs of numbers
        assert [x for x, _ in told] == [0, 1, 2, 3]
        assert len({pid for _, pid in told}) == 4
        server.cleanup(session)


def test_results_come_whole_when_no_more_is_kept_of_what_a_process_prints(start_server):
    server = start_server(OUTPUT_LIMIT_MB=1)
    session = server.create()
    for _ in range(2):
        assert len(run(server, session, "'z' * 2_000_000")["text"]) == 2_000_000


def test_large_results_and_outputs_are_bounded_and_say_so(py):
    answer = py("print('x' * 5_000_000); 'y' * 20_000_000")
    assert len(answer["stdout"]) < 1_100_000 and "bytes left out" in answer["stdout"]
    assert len(answer["text"]) < 9_000_000 and "characters left out" in answer["text"]
    assert answer["results_truncated"] == 1
    answer = py("class P:\n    def _repr_png_(self): return bytes(30_000_000)\nP()")
    assert "png" not in answer["results"][0] and answer["results_truncated"] == 1
    assert json.loads(py("import json; json.dumps(list(range(1000)))")["text"])[-1] == 999
