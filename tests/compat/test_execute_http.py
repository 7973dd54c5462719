# SPDX-License-Identifier: Apache-2.0
"""Commands key by key: what is answered, what is refused and in which words."""
import re
import time
import uuid

import pytest

from answers import execute, ok, post, refused
from server import all_pids, argv_of, wait_until

STRICT = ("jq awk grep sed sort uniq head tail wc cut tr cat echo date find ls python3 python bc "
          "comm diff basename dirname file stat tee").split()
HARMLESS = "whoami pwd id cd mkdir touch cp printf true false test sleep".split()
FORBIDDEN = "rm mv dd curl wget ssh sudo chmod chown".split()


def attempt(url, session, command, **more):
    return post(url, "/execute", {"session_id": session, "command": command, **more})


def test_the_union_of_all_generations_fields(url, session):
    body = execute(url, session, "echo out; sleep 0.2; echo err >&2; sleep 0.2; echo more; false")
    assert (body["exit_code"], body["stdout"], body["stderr"]) == (1, "out\nmore\n", "err\n")
    assert body["output"] == "out\nerr\nmore\n"
    assert body["session_id"] == session
    assert body["timed_out"] is False
    assert type(body["execution_time_ms"]) is int and body["execution_time_ms"] >= 400


def test_bytes_that_are_no_utf8_are_replaced_in_all_streams(url, session):
    body = execute(url, session, r"printf '\377' ; printf '\303' >&2")
    assert (body["stdout"], body["stderr"]) == ("\ufffd", "\ufffd")
    assert body["output"].count("\ufffd") == 2


def test_it_is_bash_in_the_workspace(url, session):
    assert execute(url, session, "echo $((6*7)) ${BASH_VERSION%%.*} $PWD")["stdout"].split()[::2] \
        == ["42", "/workspace"]
    assert execute(url, session, "cd /tmp && pwd")["stdout"] == "/tmp\n"
    assert execute(url, session, "pwd")["stdout"] == "/workspace\n"


@pytest.mark.parametrize("body", [{}, {"command": "ls"}, {"session_id": "x"}])
def test_what_is_missing(url, body):
    refused(post(url, "/execute", body), 400, "session_id and command required")


def test_an_unknown_session_is_a_404(url):
    session = str(uuid.uuid4())
    refused(attempt(url, session, "ls"), 404, "Invalid or expired session", session_id=session)


def test_a_404_means_nothing_but_a_lost_session(url, session):
    for command in ("cat missing", "cd missing", "python3 missing.py", "ls /missing | wc -l"):
        assert attempt(url, session, command).status_code == 200
    for command in ("gcc", "/missing/program", "sudo", "'", " "):
        assert attempt(url, session, command).status_code == 400


def test_a_command_is_judged_before_its_session_is_looked_up(url):
    refused(attempt(url, str(uuid.uuid4()), "sudo ls"), 400)
    refused(attempt(url, str(uuid.uuid4()), "gcc"), 400)


def test_an_empty_command(url, session):
    refused(attempt(url, session, "  \n\t"), 400, "Empty command", command="  \n\t",
            forbidden_pattern=None)


@pytest.mark.parametrize("word", FORBIDDEN)
def test_forbidden_words(url, session, word):
    pattern = rf"\b{word}\b"
    for command in (f"{word} x", f"echo a && {word} x", f"echo a|{word}", f"{word.upper()} x"):
        refused(attempt(url, session, command), 400,
                f"Command contains forbidden pattern: {pattern}", command=command,
                forbidden_pattern=pattern)


def test_the_whitelist_is_told_sorted(url, session):
    body = refused(attempt(url, session, "gcc x.c"), 400, command="gcc x.c",
                   forbidden_pattern=None)
    match = re.fullmatch(r"Command 'gcc' not in whitelist\. Allowed: (.*)", body["error"])
    told = match[1].split(", ")
    assert told == sorted(told)
    assert set(told) >= set(STRICT + HARMLESS)
    assert not set(told) & set(FORBIDDEN)


def test_only_the_first_200_characters_come_back(url, session):
    command = "gcc " + "ü" * 300
    refused(attempt(url, session, command), 400, command=command[:200])


@pytest.mark.parametrize("word", STRICT + HARMLESS)
def test_allowed_words_run(url, session, word):
    """Whether or not the sandbox has such a program: policy lets it pass."""
    ok(attempt(url, session, f"{word} < /dev/null", timeout=5), "exit_code")


@pytest.mark.parametrize("command", [
    "echo a|gcc", "echo a;gcc", "echo a; gcc", "echo a&&gcc", "echo a||gcc", "echo a & gcc",
    "echo $(gcc)", "echo `gcc`", 'echo "$(gcc)"', "echo a\ngcc", "cat <(gcc)", "echo a |& gcc"])
def test_the_splitter_knows_the_shell(url, session, command):
    body = refused(attempt(url, session, command), 400, command=command)
    assert body["error"].startswith("Command 'gcc' not in whitelist. Allowed: ")


@pytest.mark.parametrize("command,output", [
    ("echo 'a|b' | grep '|'", "a|b\n"), ('echo "it\'s"', "it's\n"), ("echo 'a; gcc'", "a; gcc\n"),
    ("echo a\\;gcc", "a;gcc\n"), ("echo '$(gcc)'", "$(gcc)\n"), ("echo a > f; cat f", "a\n"),
    ("echo 'a && gcc' && echo b", "a && gcc\nb\n"), ("echo x | tr x y | tee f", "y\n")])
def test_what_is_quoted_is_no_command(url, session, command, output):
    assert execute(url, session, command)["stdout"] == output


@pytest.mark.parametrize("command", ["echo 'open", 'echo "open', "echo $(ls"])
def test_what_the_shell_could_not_read(url, session, command):
    body = refused(attempt(url, session, command), 400, command=command, forbidden_pattern=None)
    assert body["error"].startswith("Invalid command syntax: ")
    assert len(body["error"]) > len("Invalid command syntax: ")


def test_the_reason_phrase_stays_one_line_of_ascii(url, session):
    body = refused(attempt(url, session, "gc\u00fc\u4e2d\r\nX-Injected: 1"), 400)
    assert "not in whitelist" in body["error"]


def test_odd_characters_in_json(url, session):
    assert execute(url, session, "printf 'ü\U0001f600'")["stdout"] == "ü\U0001f600"
    refused(attempt(url, session, "echo a\0b"), 400)
    assert attempt(url, session, "echo \ud800").status_code in (200, 400)


def test_a_timeout_is_a_200_with_124_and_ends_the_whole_tree(url, session):
    began = time.monotonic()
    body = execute(url, session, "echo a; sleep 4242 & python3 -c '"
                   "import subprocess; subprocess.call([\"sleep\", \"4243\"])'", timeout=1)
    assert 1 <= time.monotonic() - began < 4
    assert (body["exit_code"], body["timed_out"], body["stdout"]) == (124, True, "a\n")
    assert body["stderr"].splitlines()[-1] == "timed out after 1 s"
    assert body["output"].splitlines()[-1] == "timed out after 1 s"
    assert body["execution_time_ms"] >= 1000
    wait_until(lambda: not any(argv_of(pid) in (["sleep", "4242"], ["sleep", "4243"])
                               for pid in all_pids()), "the tree is gone")


def test_without_a_timeout_the_default_holds(start_server):
    url = start_server(DEFAULT_COMMAND_TIMEOUT=1)
    session = ok(post(url, "/create_session"))["session_id"]
    body = execute(url, session, "sleep 60")
    assert (body["exit_code"], body["timed_out"]) == (124, True)
    assert body["stderr"] == "timed out after 1 s\n"


def test_a_large_output_arrives_in_order(url, session):
    body = execute(url, session, "python3 -c 'for i in range(20000): print(i)'")
    assert body["stdout"] == "".join(f"{i}\n" for i in range(20000))
