# SPDX-License-Identifier: Apache-2.0
"""The command policy end to end: a strict server is spoken to over HTTP, as clients do."""
import json
import os
import pathlib
import signal

import pytest

from server import Server, wait_until

CASES = [json.loads(line) for line in
         (pathlib.Path(__file__).parent / "probes/validator_cases.jsonl").read_text().splitlines()]
# An allowed program does this to the session's own files: not the policy's business.
OWN_FILES = {"VB001", "VB018"}


def of_class(name):
    return [pytest.param(case, id=case["id"]) for case in CASES if case["cls"] == name]


@pytest.fixture(scope="module")
def strict(binary):
    server = Server(DEFAULT_POLICY="strict")
    try:
        yield server.start()
        server.close()
    finally:
        server.remove()


@pytest.fixture
def box(strict):
    session = strict.create()
    strict.stdout(session, "echo precious > victim")
    yield session
    strict.cleanup(session)


def assert_refused(reply):
    assert reply.status == 400, reply
    body = reply.json
    assert body["error"] == body["detail"] and body["error"], body
    known = ("Command contains forbidden pattern: ", "Command '", "Invalid command syntax: ",
             "Empty command")
    assert body["error"].startswith(known) or "(strict policy)" in body["error"], body
    # Where an old client's user can read it, if a reason phrase can hold it.
    assert body["error"][:20] in reply.reason or not body["error"].isascii(), reply
    return body


@pytest.mark.parametrize("case", of_class("A"))
def test_v01_what_would_run_a_forbidden_program_is_refused(strict, box, case):
    before = len(strict.processes(box))
    assert_refused(strict.try_execute(box, case["cmd"]))
    assert len(strict.processes(box)) == before, "something was started"
    assert strict.stdout(box, "cat victim") == "precious\n"


@pytest.mark.parametrize("case", of_class("B"))
def test_v03_what_an_allowed_program_starts_ends_at_the_kernel(strict, box, case):
    reply = strict.try_execute(box, case["cmd"])
    if reply.status == 400:
        assert_refused(reply)
        assert strict.stdout(box, "cat victim") == "precious\n"
        return
    if case["id"] in OWN_FILES:
        assert reply.status == 200, reply
        return
    assert "Permission denied" in reply.json["stdout"] + reply.json["stderr"], reply
    assert strict.stdout(box, "ls victim") == "victim\n"


@pytest.mark.parametrize("case", of_class("C"))
def test_v05_harmless_commands_run(strict, box, case):
    result = strict.execute(box, case["cmd"])
    assert result["exit_code"] == 0, result


def test_the_cases_are_all_there():
    assert {name: len(of_class(name)) for name in "ABC"} == {"A": 75, "B": 14, "C": 40}


@pytest.mark.parametrize("policy", ["strict", "wide", "open"])
def test_r22_a_nul_is_refused_and_cuts_nothing_off(strict, policy):
    session = strict.create(policy=policy)
    strict.stdout(session, "echo precious > victim")
    for command in ("ls\0rm victim", "ls\0; rm victim", "\0rm victim", "ls #\0\nrm victim"):
        reply = strict.try_execute(session, command)
        assert reply.status == 400 and reply.json["error"], reply
    assert strict.stdout(session, "cat victim") == "precious\n"
    strict.cleanup(session)


BODIES = {
    "V1, without a body": None,
    "V1, an empty object": {},
    "V2, with a thread": {"user_id": "u", "thread_id": "policy-thread"},
    "a policy of its own": {"policy": "strict"},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_strict_is_what_clients_of_every_generation_get(strict, body):
    session = strict.post("/create_session", body).json["session_id"]
    assert_refused(strict.try_execute(session, "rm victim"))
    # Nothing that a client says with the command changes what holds for the session.
    assert_refused(strict.try_execute(session, "rm victim", policy="open"))
    assert is_confined(strict, session)
    strict.cleanup(session)


def test_a_refusal_tells_where_and_is_utf8(strict, box):
    body = assert_refused(strict.try_execute(box, "ls\necho ü; rm x"))
    assert body["error"] == r"Command contains forbidden pattern: \brm\b"
    # A part of the text in the message may be cut off in the middle of a letter.
    assert_refused(strict.try_execute(box, "((1))é"))
    assert_refused(strict.try_execute(box, "x" * 59 + "é$x"))


def test_the_environment_is_part_of_the_check(strict, box):
    for name, value in {"LD_PRELOAD": "./x.so", "BASH_ENV": "x", "PATH": ".", "PS4": "$(rm victim)",
                        "BASH_FUNC_ls%%": "() { rm victim; }", "n": "a[$(rm victim)]"}.items():
        reply = strict.try_execute(box, "ls", env={name: value})
        assert reply.status == 400 and reply.json["error"], (name, reply)
    # The value names a variable of the text, and bash would follow it.
    text = "fast='a[$(rm victim)]'; echo $((MODE))"
    assert_refused(strict.try_execute(box, text, env={"MODE": "fast"}))
    assert strict.stdout(box, "echo $((N + 1))", env={"N": "4"}) == "5\n"
    assert strict.stdout(box, "cat victim") == "precious\n"


def test_text_on_stdin_is_data(strict, box):
    assert_refused(strict.try_execute(box, "bash", stdin="rm victim"))
    assert_refused(strict.try_execute(box, ". /dev/stdin", stdin="rm victim"))
    assert_refused(strict.try_execute(box, "source /dev/stdin", stdin="rm victim"))
    assert strict.stdout(box, "cat", stdin="rm victim") == "rm victim"


FORBIDDEN = "python3 -c 'import os; os.execv(\"/usr/bin/rm\", [\"rm\", \"victim\"])'"


def is_confined(server, session):
    return "PermissionError" in server.execute(session, FORBIDDEN)["stderr"]


def test_policies_side_by_side_do_not_mix(strict):
    """Sessions of the default policy come from the pool, others do not."""
    sessions = [(policy, strict.create(policy=policy)) for policy in
                ["open", "strict", "wide", "strict", "open", "strict"]]
    for policy, session in sessions:
        assert is_confined(strict, session) == (policy == "strict"), policy
        strict.cleanup(session)


def test_a_session_comes_back_as_confined_as_it_was(strict, box):
    guest = strict.guest_pid(box)
    os.kill(guest, signal.SIGKILL)
    wait_until(lambda: "sandbox_lost" in strict.log(), "its death is known")
    assert strict.stdout(box, "cat victim") == "precious\n"
    assert is_confined(strict, box)
    assert_refused(strict.try_execute(box, "rm victim"))


def test_another_default_changes_no_session_that_is_there(start_server):
    server = start_server(DEFAULT_POLICY="strict")
    strict_one, open_one = server.create("strict-one"), server.create("open-one", policy="open")
    server.restart(DEFAULT_POLICY="open")
    assert is_confined(server, strict_one) and not is_confined(server, open_one)
    assert_refused(server.try_execute(strict_one, "rm victim"))
    # Neither do sandboxes that lay ready for the old default get to a session of the new one.
    assert not is_confined(server, server.create("new-open"))
    server.restart(DEFAULT_POLICY="strict")
    assert is_confined(server, server.create("new-strict"))
    assert is_confined(server, strict_one) and not is_confined(server, open_one)
