# SPDX-License-Identifier: Apache-2.0
"""Output is never lost, never mixed, never unbounded, and exact to the byte."""
import hashlib
import os
import threading

import pytest

from server import wait_until

BINARY = bytes(range(256)) * 4


def test_R14_binary_output_is_valid_json_and_exact_by_offset(server, session):
    octal = "".join(f"\\{byte:03o}" for byte in range(256))
    answer = server.execute(session, f"for i in 1 2 3 4; do printf '{octal}'; done")
    assert answer["stdout"] == BINARY.decode(errors="replace")
    assert "\ufffd" in answer["stdout"] and "\0" in answer["stdout"]
    assert answer["stdout_bytes"] == 1024
    assert server.output(session, answer["process_id"]) == BINARY


@pytest.mark.parametrize("octal,text", [(r"\200", "\ufffd"), (r"\303", "\ufffd"),
                                        (r"\303\251", "é"),
                                        (r"a\360\237b", "a\ufffdb"),
                                        (r"\355\240\200", "\ufffd" * 3), (r"\000", "\0"),
                                        (r"\377\376", "\ufffd\ufffd"),
                                        (r"\364\220\200\200", "\ufffd" * 4)])
def test_R14_invalid_utf8_is_replaced_as_unicode_says(server, session, octal, text):
    assert server.stdout(session, f"printf '{octal}'") == text


def test_R14_random_bytes_are_exact_by_offset(server, session):
    answer = server.execute(session, "head -c 1000000 /dev/urandom | tee copy; md5sum copy >&2")
    assert answer["stdout_bytes"] == 1_000_000
    exact = server.output(session, answer["process_id"])
    assert hashlib.md5(exact).hexdigest() == answer["stderr"].split()[0]
    assert answer["stdout"] == exact.decode(errors="replace")


def test_a_character_is_not_torn_between_reads(server, session):
    code = "import os,time\nfor b in 'é漢🙂'.encode(): os.write(1, bytes([b])); time.sleep(0.01)"
    assert server.python(session, code) == "é漢🙂"


def test_streams_are_apart_and_also_in_order_of_arrival(server, session):
    command = "for i in 1 2 3 4 5; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done"
    answer = server.execute(session, command)
    assert answer["stdout"] == "o1\no2\no3\no4\no5\n"
    assert answer["stderr"] == "e1\ne2\ne3\ne4\ne5\n"
    assert answer["output"] == "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n"
    exact = server.output(session, answer["process_id"], "all")
    assert exact.decode() == answer["output"]
    assert server.output(session, answer["process_id"], "all", offset=4, limit=5) == exact[4:]


def test_no_byte_is_lost_when_both_streams_are_busy(server, session):
    command = "seq 1 200000 & seq 200001 400000 >&2; wait"
    answer = server.execute(session, command)
    number = answer["process_id"]
    out, err = server.output(session, number, "stdout"), server.output(session, number, "stderr")
    assert out == b"".join(b"%d\n" % n for n in range(1, 200001))
    assert err == b"".join(b"%d\n" % n for n in range(200001, 400001))
    both = server.output(session, number, "all")
    assert len(both) == len(out) + len(err)
    assert answer["stdout_bytes"] == len(out)


def test_a_hundred_thousand_lines_come_inline(server, session):
    answer = server.execute(session, "seq 100000")
    assert answer["stdout"] == "".join(f"{n}\n" for n in range(1, 100001))
    assert answer["truncated"] is False


def test_ten_thousand_lines_a_second_line_by_line(server, session):
    answer = server.stdout(session, "for ((i = 0; i < 20000; i++)); do echo line $i; done")
    assert answer.splitlines() == [f"line {n}" for n in range(20000)]


def test_beyond_the_inline_limit_head_and_tail_stay_and_the_rest_is_by_offset(server, session):
    answer = server.execute(session, "seq 1000000")
    whole = b"".join(b"%d\n" % n for n in range(1, 1000001))
    assert answer["truncated"] is True
    assert answer["stdout_bytes"] == len(whole)
    head, _, rest = answer["stdout"].partition("\n[... ")
    count, _, tail = rest.partition(" bytes left out ...]\n")
    assert whole.startswith(head.encode()) and whole.endswith(tail.encode())
    assert len(head) + int(count) + len(tail) == len(whole)
    assert 900_000 < len(answer["stdout"]) < 1_100_000
    assert server.output(session, answer["process_id"]) == whole
    middle = server.output(session, answer["process_id"], offset=3_000_000, limit=1000)[:1000]
    assert middle == whole[3_000_000:3_001_000]


def test_inline_and_stored_limits_are_settings(start_server):
    server = start_server(OUTPUT_INLINE_KB=4, OUTPUT_LIMIT_MB=1)
    session = server.create()
    answer = server.execute(session, "yes 0123456789abcde | head -c 5000000; echo -n END")
    assert answer["truncated"] is True
    assert answer["stdout_bytes"] == 5_000_003
    assert len(answer["stdout"]) < 4200
    assert answer["stdout"].startswith("0123456789abcde\n")
    assert answer["stdout"].endswith("END")
    stored = server.output(session, answer["process_id"])
    # The beginning, and the newest bytes, which an answer would have shown.
    head = b"0123456789abcde\n" * 65536
    assert stored[:len(head)] == head and stored.endswith(b"0123456789abcde\nEND")
    assert len(head) < len(stored) < len(head) + 4200


def test_R13_a_flood_until_the_timeout_is_bounded(start_server):
    server = start_server(OUTPUT_LIMIT_MB=8)
    session = server.create()

    def resident():
        with open(f"/proc/{server.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    server.execute(session, "seq 300000")
    before = resident()
    for command in ("yes", "cat /dev/zero", "base64 /dev/urandom >&2", "yes & yes >&2"):
        answer = server.execute(session, command, timeout=1)
        assert answer["cause"] == "timeout" and answer["truncated"] is True
        total = answer["stdout_bytes"] + answer["stderr_bytes"]
        assert total > 8 << 20, f"{command}: {total} bytes in a second"
        assert len(answer["stdout"]) <= 1_100_000
    # A sanitizer keeps freed memory for a while.
    assert resident() - before < (512 << 10 if "ASAN_OPTIONS" in os.environ else 64 << 10)
    assert server.stdout(session, "echo usable") == "usable\n"


def test_a_closed_stdout_is_no_trouble(server, session):
    answer = server.execute(session, "exec 1>&- 2>&-; sleep 0.2; touch ran; exit 3")
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (3, "", "")
    assert answer["execution_time_ms"] >= 200
    assert server.stdout(session, "ls") == "ran\n"


def test_output_after_the_foreground_s_end_is_kept_too(server, session):
    answer = server.execute(session, "(sleep 0.3; echo later) & echo now")
    assert answer["stdout"] == "now\n"
    wait_until(lambda: server.output(session, answer["process_id"]) == b"now\nlater\n",
               "the background's line is there")


def test_a_running_command_can_be_read_by_offset(server, session):
    thread = threading.Thread(target=server.execute,
                              args=(session, "echo first; until [ -e go ]; do sleep 0.02; done"))
    thread.start()
    try:
        number = wait_until(lambda: server.processes(session), "it runs")[0]["process_id"]
        wait_until(lambda: server.output(session, number) == b"first\n", "its line is there")
    finally:
        server.stdout(session, "touch go")
        thread.join()


def test_output_of_one_session_is_not_another_s(server, session):
    other = server.create()
    number = server.execute(other, "echo secret")["process_id"]
    path = f"/api/sessions/{session}/processes/{number}/output"
    assert b"secret" not in server.get(path).body
    server.cleanup(other)
