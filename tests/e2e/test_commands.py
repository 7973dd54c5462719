# SPDX-License-Identifier: Apache-2.0
"""What a command gets: text, stdin, cwd, environment, time; and how its end is told."""
import hashlib
import threading
import time

import pytest

from server import wait_until


def test_a_command_is_bash_in_the_workspace_as_sandboxuser(server, session):
    told = server.stdout(session, "id -un; id -u; pwd; hostname; echo $0; echo $HOME $USER $SHELL")
    user, number, cwd, host, shell, rest = told.splitlines()
    assert (user, number, cwd, shell) == ("sandboxuser", "1000", "/workspace", "bash")
    assert host == f"box-{session[:8]}"
    assert rest == "/home/sandboxuser sandboxuser /bin/bash"


def test_quotes_newlines_and_unicode_arrive_as_they_are(server, session):
    text = "it's \"quoted\" $HOME `x` \\ | ; é 漢字 🙂"
    assert server.stdout(session, f"cat <<'END'\n{text}\nEND\n") == text + "\n"


@pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 127, 255])
def test_exit_codes_are_passed_on(server, session, code):
    answer = server.execute(session, f"exit {code}")
    assert (answer["exit_code"], answer["cause"]) == (code, "exited")


def test_an_unknown_program_is_127_with_bash_s_message(server, session):
    answer = server.execute(session, "no-such-program-here")
    assert answer["exit_code"] == 127
    assert "no-such-program-here" in answer["stderr"]


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 15])
def test_a_signal_is_told_by_number_and_cause(server, session, number):
    answer = server.execute(session, f"kill -{number} $$")
    assert answer["signal"] == number
    assert answer["exit_code"] == 128 + number
    assert answer["cause"] == "signal"
    assert answer["timed_out"] is False


def test_syntax_errors_are_the_command_s_own_failure(server, session):
    answer = server.execute(session, "echo 'unbalanced")
    assert answer["exit_code"] == 2 or answer["exit_code"] == 1
    assert "unexpected EOF" in answer["stderr"]


# ---- sizes and bytes ----

@pytest.mark.parametrize("size", [100 << 10, 200 << 10, 2_000_000, 3 << 20])
def test_R21_long_commands_run(server, session, size):
    line = "echo -n\n"
    command = line * ((size - 100) // len(line)) + "echo ran; ls /proc/self/fd | wc -l"
    small = server.stdout(session, "ls /proc/self/fd | wc -l")
    assert server.stdout(session, command) == "ran\n" + small


def test_R21_a_long_command_on_one_line_runs(server, session):
    assert server.stdout(session, "echo " + "x" * 200_000 + " | wc -c") == "200001\n"


def test_R21_a_long_command_sees_stdin_and_its_own_exit(server, session):
    command = "#" + "x" * 200_000 + "\nread line; echo got $line; exit 9"
    answer = server.execute(session, command, stdin="hello\n")
    assert (answer["stdout"], answer["exit_code"]) == ("got hello\n", 9)


def test_R22_a_nul_in_the_command_is_refused(server, session):
    reply = server.try_execute(session, "touch before\0after")
    assert reply.status == 400 and "NUL" in reply.json["error"]
    assert server.stdout(session, "ls") == ""


def test_R22_a_nul_in_cwd_or_env_is_refused(server, session):
    for fields in ({"cwd": "/tmp\0"}, {"env": {"A\0B": "1"}}, {"env": {"A": "1\0"}}):
        assert server.try_execute(session, "true", **fields).status == 400, fields


def test_stdin_of_a_few_bytes(server, session):
    assert server.stdout(session, "cat", stdin="a\0b\né") == "a\0b\né"


def test_stdin_of_five_megabytes(server, session):
    text = "0123456789abcde\n" * 327_680
    answer = server.stdout(session, "tee copy | md5sum; wc -c < copy; rm copy", stdin=text)
    assert answer.split()[0] == hashlib.md5(text.encode()).hexdigest()
    assert answer.split()[2] == str(len(text))


def test_stdin_that_nobody_reads_is_no_error(server, session):
    assert server.stdout(session, "echo fine", stdin="x" * 1_000_000) == "fine\n"


def test_L12_without_stdin_a_reader_gets_its_end_at_once(server, session):
    began = time.monotonic()
    assert server.stdout(session, "cat; python3 -c 'import sys; print(sys.stdin.read())'") == "\n"
    assert server.execute(session, "read x")["exit_code"] == 1
    assert time.monotonic() - began < 10


# ---- cwd and environment ----

def test_cwd_is_where_the_command_starts(server, session):
    server.stdout(session, "mkdir 'a b'")
    assert server.stdout(session, "pwd", cwd="/workspace/a b") == "/workspace/a b\n"
    assert server.stdout(session, "pwd", cwd="/tmp") == "/tmp\n"


def test_an_unknown_cwd_is_a_clear_400(server, session):
    for cwd, why in (("/no/such/place", "No such file"), ("/etc/passwd", "Not a directory"),
                     ("", "")):
        reply = server.try_execute(session, "true", cwd=cwd)
        assert reply.status == 400, reply
        assert "cwd" in reply.json["error"] and why in reply.json["error"]
    assert server.stdout(session, "echo usable") == "usable\n"


def test_env_adds_and_replaces(server, session):
    told = server.stdout(session, 'echo "$A|$B|$HOME"', env={"A": "1", "B": "x y\n$z", "HOME": "/"})
    assert told == "1|x y\n$z|/\n"


def test_nothing_of_the_server_s_environment_is_inside(server, session):
    names = {line.split("=")[0] for line in server.stdout(session, "env").splitlines()}
    assert names <= {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "PWD", "SHLVL",
                     "_", "OLDPWD"}


def test_R23_ten_thousand_variables(server, session):
    env = {f"VARIABLE_{number}": "v" * 10 for number in range(10_000)}
    assert server.stdout(session, "env | grep -c ^VARIABLE_", env=env) == "10000\n"


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
def test_R23_bad_names_are_refused(server, session, name):
    assert server.try_execute(session, "true", env={name: "x"}).status == 400


def test_R23_a_name_with_a_newline_is_refused_or_harmless(server, session):
    reply = server.try_execute(session, "env", env={"A\nLD_PRELOAD": "x"})
    if reply.status == 200:
        assert reply.json["exit_code"] == 0
    else:
        assert reply.status == 400


def test_R23_loader_variables_reach_the_command_alone(server, session):
    env = {"LD_PRELOAD": "/nonexistent.so", "BASH_ENV": "/workspace/rc", "IFS": "x",
           "LD_LIBRARY_PATH": "/workspace", "SHELLOPTS": "xtrace", "PATH": "/usr/bin"}
    server.stdout(session, "echo 'echo from rc' > rc")
    answer = server.execute(session, "echo $LD_LIBRARY_PATH", env=env)
    assert "/workspace" in answer["stdout"]
    assert answer["exit_code"] == 0
    # Nothing of it stays: PID 1 never saw it.
    assert server.stdout(session, "echo ${LD_LIBRARY_PATH-unset}") == "unset\n"


def test_R23_variables_too_large_to_pass_are_a_clear_400(server, session):
    reply = server.try_execute(session, "true", env={"BIG": "x" * 200_000})
    assert reply.status == 400 and "too long" in reply.json["error"]
    reply = server.try_execute(session, "true", env={f"V{n}": "x" * 1000 for n in range(5000)})
    assert reply.status == 400 and "too long" in reply.json["error"]
    assert server.stdout(session, "echo usable") == "usable\n"


# ---- time ----

@pytest.mark.parametrize("timeout", [0, -1, -0.5, 1e9, 1e18, 2**31, 2**63, 86401])
def test_R24_a_timeout_out_of_bounds_is_400(server, session, timeout):
    reply = server.try_execute(session, "true", timeout=timeout, seconds=60)
    assert reply.status == 400 and "timeout" in reply.json["error"]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", '"5"', "true", "[5]"])
def test_R24_a_timeout_that_is_no_number_is_400(server, session, text):
    body = f'{{"session_id": "{session}", "command": "true", "timeout": {text}}}'
    assert server.post("/execute", body).status == 400


def test_R24_null_means_the_default(server, session):
    assert server.post("/execute", {"session_id": session, "command": "echo x",
                                    "timeout": None}).json["stdout"] == "x\n"


def test_R24_a_thousandth_of_a_second_is_a_timeout(server, session):
    answer = server.execute(session, "sleep 10", timeout=0.001)
    assert (answer["cause"], answer["exit_code"], answer["timed_out"]) == ("timeout", 124, True)
    assert answer["stderr"].endswith("timed out after 0.001 s\n")


def test_a_timeout_is_200_with_124_and_what_was_printed(server, session):
    began = time.monotonic()
    answer = server.execute(session, "echo before; echo -n half >&2; sleep 60", timeout=1)
    assert time.monotonic() - began < 4
    assert (answer["cause"], answer["exit_code"], answer["timed_out"]) == ("timeout", 124, True)
    assert answer["stdout"] == "before\n"
    assert answer["stderr"] == "half\ntimed out after 1 s\n"
    assert 900 <= answer["execution_time_ms"] < 3000


def test_the_default_timeout_is_a_setting(start_server):
    server = start_server(DEFAULT_COMMAND_TIMEOUT=1)
    answer = server.execute(server.create(), "sleep 60")
    assert answer["cause"] == "timeout"


def test_durations_are_told(server, session):
    answer = server.execute(session, "sleep 0.3")
    assert 300 <= answer["execution_time_ms"] < 3000
    assert answer["cpu_time_ms"] < 200
    busy = server.execute(session, "timeout 0.3 bash -c 'while :; do :; done'")
    assert busy["cpu_time_ms"] > 50


def test_the_session_goes_on_after_every_kind_of_end(server, session):
    for command in ("exit 9", "kill -9 $$", "exec 1>&- 2>&-", "ulimit -n 3; ls", "set -e; false",
                    "trap 'exit 1' EXIT DEBUG", "cd /tmp; mkdir gone; cd gone; rmdir ../gone; ls",
                    "stty raw", "exec 0<&-; cat", "enable -n echo", "alias ls=false"):
        server.execute(session, command, timeout=5)
        assert server.stdout(session, "echo usable; pwd") == "usable\n/workspace\n", command


def test_processes_are_kept_in_number(server, session):
    """Only so many finished ones are remembered; the newest are."""
    for number in range(80):
        last = server.execute(session, f"echo {number}")["process_id"]
    rows = server.processes(session)
    assert len(rows) <= 65
    assert rows[-1]["process_id"] == last
    assert server.output(session, last) == b"79\n"


def test_running_processes_are_listed_as_such(server, session):
    thread = threading.Thread(target=server.execute, args=(session, "sleep 1; echo x"))
    thread.start()
    rows = wait_until(lambda: server.processes(session), "the command runs")
    assert rows[0]["state"] == "running" and "exit_code" not in rows[0]
    thread.join()
    assert server.processes(session)[0]["state"] == "exited"


def test_a_command_is_found_by_its_tag(server, session):
    server.execute(session, "true", tag="of mine")
    assert server.processes(session)[-1]["tag"] == "of mine"
    assert server.try_execute(session, "true", tag="x" * 257).status == 400
