# SPDX-License-Identifier: Apache-2.0
"""Local mode: sessions, commands and files with real sandboxes, in this process."""

from __future__ import annotations

import os
import pathlib

import pytest
from local_support import Box, box, engine, run, state  # noqa: F401

from threadbox import _errors as errors
from threadbox import _local
from threadbox._engine import SessionSpec


def test_a_command_runs_in_a_sandbox_and_not_here(box):
    done = box.execute("echo out; echo err >&2; id -un; exit 3")
    assert (done.stdout, done.stderr) == ("out\nsandboxuser\n", "err\n")
    assert done.ended.exit_code == 3
    assert done.ended.cause == "exited"
    assert done.session_id == box.id
    inside = int(box.out("readlink /proc/self/ns/pid | tr -dc 0-9"))
    assert inside != os.stat("/proc/self/ns/pid").st_ino


def test_output_keeps_the_order_of_both_streams(box):
    done = box.execute("echo 1; sleep 0.1; echo 2 >&2; sleep 0.1; echo 3")
    assert done.output == "1\n2\n3\n"
    assert (done.stdout_bytes, done.stderr_bytes, done.truncated) == (4, 2, False)


def test_files_stay_from_command_to_command(box):
    box.out("echo kept > a; export X=1; cd /tmp")
    assert box.out("cat a; pwd; echo ${X:-unset}") == "kept\n/workspace\nunset\n"


def test_cwd_env_and_stdin(box):
    done = box.execute("pwd; echo $WORD; cat", cwd="/tmp", env={"WORD": "wörd"}, stdin="in\n")
    assert done.stdout == "/tmp\nwörd\nin\n"


def test_what_is_no_text_is_replaced(box):
    assert box.execute(r"printf 'a\xffb'").stdout == "a\ufffdb"


def test_a_timeout_is_an_answer_and_ends_everything(box):
    done = box.execute("(sleep 1000 & sleep 1000); echo never", timeout=0.3)
    assert (done.ended.exit_code, done.ended.timed_out, done.ended.cause) == (124, True, "timeout")
    assert done.stderr == "timed out after 0.300 s\n"
    assert box.out("pgrep -c sleep || true") == "0\n"


def test_a_thread_has_one_session(engine):
    first = Box(engine, "one-thread")
    again = Box(engine, "one-thread")
    assert (first.info.status, again.info.status) == ("created", "existing")
    assert first.id == again.id
    found = run(engine.find_session("one-thread"))
    assert found is not None
    assert (found.session_id, found.status, found.files_count) == (first.id, "active", 0)
    first.close()
    assert run(engine.find_session("one-thread")) is None
    run(engine.close_session(first.id))  # an unknown one is fine


def test_a_session_that_is_gone_is_named_as_such(engine):
    gone = Box(engine)
    gone.close()
    with pytest.raises(errors.SessionExpiredError, match="expired"):
        gone.execute("true")
    with pytest.raises(errors.SessionExpiredError):
        run(engine.processes(gone.id))
    with pytest.raises(errors.SessionExpiredError):
        run(engine.list_files(gone.id, "", None, 0))


def test_the_policy_is_the_servers(engine):
    strict = Box(engine, policy="strict")
    with pytest.raises(errors.CommandRefusedError) as refused:
        strict.execute("echo fine; wget example.org")
    assert refused.value.offset == len("echo fine; ")
    assert "wget" in str(refused.value)
    with pytest.raises(errors.CommandRefusedError):
        strict.start("curl x")
    with pytest.raises(errors.CommandRefusedError):
        list(strict.stream("curl x"))
    # The kernel says it too, to what no parser sees.
    assert (
        strict.execute("awk 'BEGIN { exit system(\"/usr/bin/dpkg --version\") }'").ended.exit_code
        != 0
    )
    with pytest.raises(errors.InvalidRequestError, match="no-such"):
        Box(engine, policy="no-such")
    strict.close()


def test_the_policy_can_be_asked_without_an_engine():
    from threadbox import _native

    assert "curl" in _native.check_command("strict", "curl x")
    assert _native.check_command("strict", "echo x") is None


@pytest.mark.parametrize("bad", [{"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}])
def test_a_wrong_timeout_is_refused(box, bad):
    with pytest.raises(ValueError, match="timeout"):
        box.execute("true", **bad)


def test_settings_that_are_wrong_are_all_named(state):
    with pytest.raises(errors.InvalidRequestError) as wrong:
        _local.open_engine(state_dir=state, pool_size="many", memory_limit="1", colour="red")
    for name in ("POOL_SIZE", "MEMORY_LIMIT", "COLOUR"):
        assert name in str(wrong.value)


def test_limits_hold(state):
    tight = _local.open_engine(
        state_dir=state, default_policy="open", memory_limit="64m", max_file_size_mb=1
    )
    box = Box(tight)
    done = box.execute("head -c 200m /dev/zero | tail -c 150m > /dev/null")
    assert "memory" in done.ended.limits_hit
    with pytest.raises(errors.LimitExceededError, match="1 MiB"):
        run(tight.upload_file(box.id, "big", b"x" * ((1 << 20) + 1)))
    box.close()
    run(tight.close())


def test_files_go_in_and_out(box):
    data = os.urandom(3_000_000)
    up = run(box.engine.upload_file(box.id, "some/dir/data.bin", data))
    assert (up.filename, up.path) == ("some/dir/data.bin", "/workspace/some/dir/data.bin")
    assert up.size_bytes == len(data)
    assert run(box.engine.download_file(box.id, "some/dir/data.bin")) == data
    assert box.out("stat -c %s some/dir/data.bin") == f"{len(data)}\n"
    assert run(box.engine.upload_file(box.id, "empty", b"")).size_bytes == 0
    assert run(box.engine.download_file(box.id, "empty")) == b""


def test_a_listing_is_sorted_and_paged(box):
    box.out("touch -d 2020-01-01 old; mkdir d; touch -d 2021-01-01 d")
    box.out("echo 12345 > new; ln -s new l")
    listing = run(box.engine.list_files(box.id, "", None, 0))
    names = [one.name for one in listing.files]
    assert set(names[:2]) == {"new", "l"}
    assert names[2:] == ["d", "old"]
    kinds = {one.name: one.type for one in listing.files}
    assert kinds == {"new": "file", "l": "symlink", "d": "directory", "old": "file"}
    new = next(one for one in listing.files if one.name == "new")
    assert (new.size_bytes, new.permissions) == (6, "-rw-r--r--")
    page = run(box.engine.list_files(box.id, "", 1, 3))
    assert [one.name for one in page.files] == ["old"]
    assert page.files[0].modified == "2020-01-01T00:00:00Z"
    assert run(box.engine.list_files(box.id, "", 2, 0)).truncated


def test_nothing_outside_of_the_workspace_is_reached(box, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("host")
    box.out(f"ln -s {secret} out; ln -s /etc/passwd passwd; mkfifo pipe")
    for name in ("out", "passwd", "pipe", "absent", "absent/too"):
        with pytest.raises(FileNotFoundError):
            run(box.engine.download_file(box.id, name))
    for name in ("../x", "/etc/passwd", "a/../../x", "", "a\0b"):
        with pytest.raises(errors.InvalidRequestError):
            run(box.engine.upload_file(box.id, name, b"x"))
    with pytest.raises(errors.InvalidRequestError):
        run(box.engine.upload_file(box.id, "passwd", b"x"))
    assert "root:" in pathlib.Path("/etc/passwd").read_text()


def test_an_upload_that_is_refused_leaves_the_old_file(engine):
    box = Box(engine)
    run(engine.upload_file(box.id, "a", b"old"))
    with pytest.raises(errors.LimitExceededError):
        run(engine.upload_file(box.id, "a", b"x" * (101 << 20)))
    assert run(engine.download_file(box.id, "a")) == b"old"
    box.close()


def test_status_and_health(box):
    run(box.engine.start(box.id, _spec("sleep 100")))
    status = run(box.engine.session_status(box.id))
    assert status.more["sandbox"] == "running"
    assert status.more["running_commands"] == 1
    assert status.more["memory_bytes"] > 0
    health = run(box.engine.health())
    assert health["status"] == "healthy"
    assert health["active_sessions"] >= 1
    assert health["isolation"]["barriers"]["seccomp"] == "present"


def _spec(command):
    from threadbox._engine import ProcessSpec

    return ProcessSpec(command=command)


def test_a_session_ends_when_it_idles(engine):
    from local_support import wait_until

    before = run(engine.health())["active_sessions"]
    short = Box(engine, "short-lived", timeout_minutes=1 / 60)
    # Not by find_session: counting files is work that the sandbox does.
    wait_until(lambda: run(engine.health())["active_sessions"] == before, what="expiry")
    assert run(engine.find_session("short-lived")) is None
    with pytest.raises(errors.SessionExpiredError):
        short.execute("true")


def test_a_dead_sandbox_comes_back_with_its_files(engine):
    box = Box(engine, "revived")
    box.out("echo here > kept")
    inside = int(box.out("readlink /proc/self/ns/pid | tr -dc 0-9"))
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            comm = (entry / "comm").read_text().strip()
            same = os.stat(entry / "ns/pid").st_ino == inside
        except OSError:
            continue
        if same and comm == "guest":
            os.kill(int(entry.name), 9)
    assert box.out("cat kept") == "here\n"
    box.close()


def test_names_are_checked(engine):
    for bad in ({"thread_id": "x" * 513}, {"user_id": "a\nb"}):
        with pytest.raises(errors.InvalidRequestError):
            run(engine.create_session(SessionSpec(**bad)))
