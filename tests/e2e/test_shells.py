# SPDX-License-Identifier: Apache-2.0
"""Shells that live on: what one command changes, the next one finds."""
import concurrent.futures
import contextlib
import json
import uuid

import pytest

from live import people
from server import alive, read_text, wait_until
from shells import open_shell

RESTORED = ["cwd", "variables", "functions", "options", "aliases", "traps", "umask"]


@pytest.fixture
def shell(server, session):
    return open_shell(server, session)


def pids_of(server, session, name):
    """As the host sees them."""
    return [pid for pid in people(server, session) if read_text(f"/proc/{pid}/comm") == name + "\n"]


# ---- what stays ----

@pytest.mark.parametrize("change,look,seen", [
    ("cd /tmp", "pwd", "/tmp\n"),
    ("a=1 b='x  y'", "echo \"$a$b\"", "1x  y\n"),
    ("export E=out", "bash -c 'echo $E'", "out\n"),
    ("list=(1 'two 2' 3)", "echo ${#list[@]} \"${list[1]}\"", "3 two 2\n"),
    ("declare -A map=([k]=v)", "echo ${map[k]}", "v\n"),
    ("f() { echo \"f $1\"; }", "f 5", "f 5\n"),
    ("alias greet='echo hello'", "greet you", "hello you\n"),
    ("set -o pipefail", "false | true; echo $?", "1\n"),
    ("shopt -s nullglob", "echo /nowhere/*", "\n"),
    ("umask 077", "umask", "0077\n"),
    ("set -- p q", "echo $2", "q\n"),
    ("false", "echo $?", "1\n"),
    ("(exit 42)", "echo $?", "42\n"),
    ("exec 7</etc/hostname", "read -u 7 x && echo read", "read\n"),
    ("sleep 300 & echo $!", "kill -0 $! && echo runs", "runs\n"),
    ("pushd /tmp", "dirs -p", "/tmp\n/workspace\n"),
    ("unset HOME", "echo ${HOME-none}", "none\n"),
    ("readonly r=1", "echo $r", "1\n"),
    ("trap 'echo used' USR1", "kill -USR1 $$; :", "used\n"),
    ("hash -p /bin/ls mine", "type -t mine", "file\n")])
def test_what_a_command_changes_stays(shell, change, look, seen):
    shell.run(change)
    answer = shell.run(look)
    assert (answer["stdout"], answer["shell"]["respawned"]) == (seen, False), answer


def test_a_virtualenv_stays_active(server, session, shell):
    server.stdout(session, "mkdir -p v/bin; printf '#!/bin/sh\\necho from-venv\\n' > v/bin/tool; "
                           "chmod +x v/bin/tool; cat > v/bin/activate", stdin="""
deactivate() { PATH="$_OLD"; export PATH; unset VIRTUAL_ENV; unset -f deactivate; hash -r; }
VIRTUAL_ENV=/workspace/v; export VIRTUAL_ENV
_OLD="$PATH"; PATH="$VIRTUAL_ENV/bin:$PATH"; export PATH
PS1="(v) ${PS1:-}"; export PS1
hash -r 2> /dev/null
""")
    shell.say("cd v && . bin/activate")
    assert shell.say("tool; echo $VIRTUAL_ENV; pwd") == "from-venv\n/workspace/v\n/workspace/v\n"
    shell.say("deactivate")
    assert shell.run("tool")["exit_code"] == 127


def test_it_begins_where_and_with_what_it_was_told(server, session):
    mine = open_shell(server, session, cwd="/tmp", env={"A": "é b", "HOME": "/tmp"}, tag="mine")
    assert mine.say("pwd; echo \"$A\"; echo ~") == "/tmp\né b\n/tmp\n"
    shown = mine.show()
    assert (shown["tag"], shown["cwd"], shown["state"], shown["generation"]) == (
        "mine", "/tmp", "waiting", 1)


def test_several_shells_know_nothing_of_each_other(server, session):
    some = [open_shell(server, session, tag=str(n)) for n in range(3)]
    for n, one in enumerate(some):
        one.say(f"x={n}; mkdir d{n}; cd d{n}")
    for n, one in enumerate(some):
        assert one.say("echo $x; pwd") == f"{n}\n/workspace/d{n}\n"
    rows = server.get(f"/api/sessions/{session}/shells").json["shells"]
    assert [(row["tag"], row["cwd"]) for row in rows] == [
        (str(n), f"/workspace/d{n}") for n in range(3)]


# ---- an answer ----

def test_a_run_is_answered_like_any_command(server, session, shell):
    answer = shell.run("echo out; echo err >&2; sh -c 'exit 9'")
    like = server.execute(session, "true")
    assert set(answer) == set(like) | {"shell"}
    assert (answer["stdout"], answer["stderr"], answer["exit_code"], answer["cause"]) == (
        "out\n", "err\n", 9, "exited")
    assert (answer["stdout_bytes"], answer["stderr_bytes"], answer["truncated"]) == (4, 4, False)
    assert answer["shell"] == {"shell_id": shell.number, "cwd": "/workspace", "generation": 1,
                               "exited": False, "respawned": False, "restored": []}
    process = server.process_of(session, answer["process_id"])
    assert (process["state"], process["shell_id"], process["exit_code"]) == (
        "exited", shell.number, 9)
    assert server.output(session, answer["process_id"]) == b"out\n"


def test_output_beyond_what_an_answer_carries_is_kept(server, session, shell):
    answer = shell.run("head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2")
    assert answer["truncated"] and answer["stdout_bytes"] == 3000000
    assert server.output(session, answer["process_id"]) == b"x" * 3000000
    again = shell.run("echo small")
    assert (again["stdout"], again["truncated"]) == ("small\n", False)


def test_output_of_the_background_belongs_to_the_run_that_began_it(server, session, shell):
    first = shell.run("(until [ -e go ]; do sleep 0.01; done; echo late; echo done > said) & :")
    second = shell.run("touch go; until [ -e said ]; do sleep 0.01; done; echo mine")
    assert second["stdout"] == "mine\n"
    wait_until(lambda: server.output(session, first["process_id"]) == b"late\n", "it is kept")


@pytest.mark.parametrize("events", [False, True])
def test_a_run_can_be_followed(shell, events):
    command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; cd /tmp; false"
    with shell.stream(command, events=events) as messages:
        kind, begun = next(messages)
        assert (kind, list(begun)) == ("start", ["process_id"])
        assert next(messages) == ("stdout", {"offset": 0, "data": "one\n"})
        shell.server.stdout(shell.session, "touch go")
        assert next(messages) == ("stderr", {"offset": 0, "data": "two\n"})
        kind, end = next(messages)
        assert (kind, end["exit_code"], end["process_id"]) == ("exit", 1, begun["process_id"])
        assert end["shell"]["cwd"] == "/tmp"
        assert list(messages) == []


def test_one_at_a_time_in_the_order_of_asking(server, session, shell):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = pool.submit(shell.run, "until [ -e go ]; do sleep 0.01; done; echo 0 >> order")
        shell.wait_running()
        others = []
        for n in range(1, 4):
            others.append(pool.submit(shell.run, f"echo {n} >> order; sleep 0.2", timeout=5))
            wait_until(lambda: shell.show()["waiting_runs"] == n, "it waits")
        server.stdout(session, "touch go")
        for future in [first, *others]:
            assert future.result()["exit_code"] == 0
    assert shell.say("cat order") == "0\n1\n2\n3\n"


def test_too_many_don_t_wait(shell):
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        futures = [pool.submit(shell.try_run, "until [ -e go ]; do sleep 0.01; done")
                   for _ in range(40)]
        wait_until(lambda: sum(f.done() for f in futures) == 7, "seven are refused")
        refused = [f.result() for f in futures if f.done()]
        assert {reply.status for reply in refused} == {429}
        assert "open another one" in refused[0].json["error"]
        shell.server.stdout(shell.session, "touch go")
        assert sorted(f.result().status for f in futures) == [200] * 33 + [429] * 7


def test_who_leaves_the_line_holds_up_nobody(server, session, shell):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(shell.run, "until [ -e go ]; do sleep 0.01; done")
        shell.wait_running()
        with contextlib.closing(server.connect()) as leaving:
            leaving.request("POST", f"{shell.path}/run", json.dumps({"command": "touch left"}),
                            {"Content-Type": "application/json"})
            wait_until(lambda: shell.show()["waiting_runs"] == 1, "it waits")
        last = pool.submit(shell.run, "echo last")
        server.stdout(session, "touch go")
        assert first.result()["exit_code"] == 0 and last.result()["stdout"] == "last\n"


# ---- the end of a command ----

@pytest.mark.parametrize("command", [
    "sleep 300; touch after", "while :; do :; done; touch after", "(sleep 300); touch after",
    "while :; do sleep 0.01; done", "x=$(sleep 300); touch after", "sleep 300 | cat; touch after",
    "trap '' INT TERM; sleep 300; touch after", "sleep 300 || touch after",
    "trap 'echo no' INT; while :; do sleep 1; done", "f() { sleep 300; touch after; }; f",
    "sh -c 'trap \"\" INT TERM HUP; sleep 300'; touch after", "sleep 300 & wait; touch after",
    "mkfifo p; read x < p; touch after", "mkfifo p; cat p; touch after", "kill -STOP $$",
    "setsid sleep 300 & setsid sh -c 'sleep 300 & sleep 300'; touch after",
    "trap 'while :; do :; done' USR1; kill -USR1 $$; touch after",
    "python3 -c 'import signal,time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(300)'"])
def test_a_timeout_ends_the_command_and_not_the_shell(server, session, shell, command):
    shell.say("cd /tmp; cd /workspace; v=kept")
    before = len(people(server, session))
    answer = shell.run(f"w=new; {command}", timeout=0.4)
    assert (answer["exit_code"], answer["cause"], answer["timed_out"], answer["signal"]) == (
        124, "timeout", True, 9)
    assert answer["stderr"].endswith("timed out after 0.400 s\n")
    assert answer["shell"]["respawned"] is False and answer["shell"]["exited"] is False
    assert shell.say("echo $v $w; ls after 2>/dev/null | wc -l") == "kept new\n0\n"
    wait_until(lambda: len(people(server, session)) == before, "all that it started is gone")


def test_a_timeout_spares_what_earlier_commands_left_running(server, session, shell):
    shell.run("sleep 301 & (setsid sleep 302 &)")
    wait_until(lambda: len(pids_of(server, session, "sleep")) == 2, "both run")
    older = pids_of(server, session, "sleep")
    shell.run("sleep 303 & sleep 304", timeout=0.3)
    wait_until(lambda: pids_of(server, session, "sleep") == older, "only the new ones are gone")
    assert "sleep 301" in shell.say("jobs")
    again = shell.run("trap '' RTMAX INT; while :; do :; done", timeout=0.2)
    assert again["shell"]["respawned"] is True
    assert pids_of(server, session, "sleep") == older
    shell.delete()
    wait_until(lambda: people(server, session) == [], "with the shell all goes")


def test_a_fork_bomb_is_ended_and_the_shell_lives(server, session, shell):
    shell.say("v=kept")
    answer = shell.run("b() { b | b & }; b; sleep 300", timeout=1)
    assert answer["cause"] == "timeout"
    again = shell.run("echo $v")
    assert again["stdout"] == "kept\n"
    wait_until(lambda: len(people(server, session)) == 1, "only the shell is left")


@pytest.mark.parametrize("command", [
    "trap '' RTMAX INT; while :; do :; done", "trap 'while :; do :; done' RTMAX INT; sleep 300"])
def test_a_shell_that_does_not_come_back_is_opened_again(shell, command):
    shell.say("cd /tmp; v=kept; f() { echo f; }; alias a='echo a'; set -o noclobber; export E=1")
    answer = shell.run(f"v=lost; {command}", timeout=0.2)
    assert (answer["cause"], answer["exit_code"]) == ("timeout", 124)
    assert answer["shell"] == {"shell_id": shell.number, "cwd": "/tmp", "generation": 2,
                               "exited": False, "respawned": True, "restored": RESTORED}
    assert shell.say("pwd; echo $v; f; a; set -o | grep -c 'noclobber.*on'; bash -c 'echo $E'") == (
        "/tmp\nkept\nf\na\n1\n1\n")


@pytest.mark.parametrize("command,code,cause", [
    ("exit 3", 3, "exited"), ("echo x; exit", 0, "exited"), ("exec sh -c 'exit 5'", 5, "exited"),
    ("kill -9 $$", 137, "signal"), ("set -e; false; touch no", 1, "exited"),
    ("set -eu; echo $nope", 1, "exited"), ("trap 'exit 6' DEBUG; :", 6, "exited"),
    ("PROMPT_COMMAND='exit 8'", 8, "exited"), ("f() { exit 9; }; f | cat; f", 9, "exited")])
def test_a_shell_that_ends_says_so_and_is_opened_again(shell, command, code, cause):
    shell.say("cd /tmp; v=kept")
    answer = shell.run(f"v=lost; {command}")
    assert (answer["exit_code"], answer["cause"]) == (code, cause), answer
    facts = answer["shell"]
    assert (facts["exited"], facts["respawned"], facts["restored"]) == (True, True, RESTORED)
    assert shell.show()["last_end"]["exit_code"] == code
    assert shell.say("pwd; echo $v; ls no 2>/dev/null | wc -l") == "/tmp\nkept\n0\n"


def test_a_program_in_place_of_the_shell_has_its_time(shell):
    shell.say("v=kept")
    answer = shell.run("exec sh -c 'sleep 3; echo slept'")
    assert (answer["stdout"], answer["exit_code"]) == ("slept\n", 0)
    assert answer["shell"]["exited"] is True
    assert shell.run("exec sleep 300", timeout=0.3)["cause"] == "timeout"
    assert shell.say("echo $v") == "kept\n"


def test_a_long_quiet_command_is_left_alone(shell):
    assert shell.say("sleep 4; echo slept") == "slept\n"


def test_the_first_command_may_end_it_too(server, session):
    mine = open_shell(server, session, cwd="/tmp", env={"A": "1"})
    facts = mine.run("A=2; exit 1")["shell"]
    assert (facts["respawned"], facts["restored"]) == (True, [])
    assert mine.say("pwd; echo $A") == "/tmp\n1\n"


def test_what_was_unset_does_not_come_back_with_a_new_shell(server, session):
    mine = open_shell(server, session, env={"GONE": "1"})
    mine.say("unset GONE; readonly R=5; declare -i n=3; declare -a l=('a b' $'c\\nd'); "
             "declare -A m=([k' ']=v); x=$'q\\'\"$'; export -f nothing 2>/dev/null; "
             "g() { local y=1; cat <<E\nin $y\nE\n}; export -f g; shopt -s extglob; "
             "h() { [[ $1 == +(a) ]]; }; trap 'echo t' USR2; umask 027; set -u", )
    mine.run("exit")
    assert mine.run("echo ${GONE-gone}; echo $R; n=4+4; echo $n; echo \"${l[0]}|${l[1]}\"; "
                    "echo ${m['k ']}; echo \"$x\"; bash -c g; h aa && echo h; kill -USR2 $$; "
                    "umask; echo $-")["stdout"] == (
        "gone\n5\n8\na b|c\nd\nv\nq'\"$\nin 1\nh\nt\n0027\nhiuBs\n")


def test_an_interrupt_ends_the_command_with_130(server, session, shell):
    shell.run("sleep 301 & :")
    older = wait_until(lambda: pids_of(server, session, "sleep"), "it runs")
    for command in ("v=kept; echo; sleep 300; touch after", "echo; while :; do :; done",
                    "echo; sleep 300 | cat"):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(shell.run, command)
            number = shell.wait_running(command)
            wait_until(lambda: server.process_of(session, number)["stdout_bytes"], "it has begun")
            assert shell.interrupt().status == 200
            answer = future.result()
        assert (answer["exit_code"], answer["cause"]) == (130, "exited"), answer
        assert answer["shell"]["respawned"] is False
    assert shell.say("echo $v; ls after 2>/dev/null | wc -l") == "kept\n0\n"
    assert pids_of(server, session, "sleep") == older
    assert shell.interrupt().status == 409


def interrupt_again_and_again(shell, times):
    shell.say("v=kept")
    for _ in range(times):
        with shell.stream("echo begun; sleep 1000; echo never", timeout=20) as events:
            seen = []
            for kind, message in events:
                seen.append(kind)
                if kind == "stdout" and message["data"] == "begun\n":
                    assert shell.interrupt().status == 200
                assert "never" not in str(message.get("data"))
        assert (seen[-1], message["exit_code"]) == ("exit", 130)
        assert shell.say("echo $v") == "kept\n"


def test_one_interrupt_is_enough_whatever_the_shell_is_about_to_do(shell):
    interrupt_again_and_again(shell, 100)


def test_one_interrupt_is_enough_for_who_waits_for_a_processor(start_server):
    """Between a program's start and the wait for it, or before the start, for up to 90 ms."""
    server = start_server(CPU_QUOTA="10000")
    interrupt_again_and_again(open_shell(server, server.create()), 60)


def test_who_takes_care_of_an_interrupt_goes_on(server, session, shell):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell.run, "trap 'echo caught; done=1' INT; touch ready; "
                                        "until [ \"$done\" ]; do sleep 0.01; done; echo end")
        wait_until(lambda: server.stdout(session, "ls ready 2>/dev/null; true"), "it is ready")
        assert shell.interrupt().status == 200
        answer = future.result()
    assert (answer["stdout"], answer["exit_code"]) == ("caught\nend\n", 0)
    assert shell.say("echo on") == "on\n"


def test_a_run_can_be_ended_as_a_process(server, session, shell):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell.run, "v=kept; sleep 300; touch after")
        number = shell.wait_running()
        ended = server.request("DELETE", f"/api/sessions/{session}/processes/{number}").json
        assert (ended["state"], ended["cause"]) == ("exited", "killed")
        assert future.result()["exit_code"] == 137
    assert shell.say("echo $v; ls after 2>/dev/null | wc -l") == "kept\n0\n"


def test_with_a_shell_all_that_it_started_ends(server, session, shell):
    shell.run("sleep 300 & (setsid sh -c 'trap \"\" HUP TERM; sleep 300' &)")
    wait_until(lambda: len(people(server, session)) == 4, "all run")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = pool.submit(shell.run, "echo begun; sleep 300")
        shell.wait_running()
        waiting = pool.submit(shell.try_run, "echo never")
        wait_until(lambda: shell.show()["waiting_runs"] == 1, "it waits")
        assert shell.delete().status == 200
        assert (running.result()["cause"], running.result()["stdout"]) == ("killed", "begun\n")
        assert waiting.result().status == 409
    wait_until(lambda: people(server, session) == [], "nothing is left")
    assert shell.delete().status == 404
    assert shell.try_run("true").status == 404
    assert server.stdout(session, "ls -A /dev/shm") == ""


# ---- idle time ----

def test_a_waiting_shell_does_not_keep_its_session_from_idling(server):
    session = server.create(f"t-{uuid.uuid4()}", timeout_minutes=0.02)
    mine = open_shell(server, session)
    mine.say("x=1")
    server.wait_gone(session)


def test_a_run_does(server):
    session = server.create(f"t-{uuid.uuid4()}", timeout_minutes=0.02)
    mine = open_shell(server, session)
    mine.say("x=1")
    assert mine.say("sleep 3; echo $x") == "1\n"
    server.wait_gone(session)


def test_a_shell_that_dies_while_it_waits_is_said_and_opened_again(server, session, shell):
    shell.say("v=kept; cd /tmp")
    shell.say(":")  # begins when what the run before left is noted
    inside = shell.show()["pid"]
    server.execute(session, f"kill -9 {inside}")
    wait_until(lambda: shell.show()["state"] == "dead", "its death is known")
    assert shell.show()["last_end"] == {"exit_code": 137, "cause": "signal", "signal": 9}
    answer = shell.run("echo $v; pwd")
    assert answer["stdout"] == "kept\n/tmp\n"
    facts = answer["shell"]
    assert (facts["respawned"], facts["exited"], facts["restored"]) == (True, False, RESTORED)
    assert shell.say("echo on") == "on\n"
    assert alive(server.guest_pid(session))
