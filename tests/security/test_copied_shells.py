# SPDX-License-Identifier: Apache-2.0
"""The shell that others are copied from runs without the commands' filter, which is to keep them
from clone3: nothing that a tenant brings may run in its place, or in it."""
import os
import re
import subprocess
import time

import pytest

from prestart import original, serving, wait_for_original, wait_for_shell, warm

# Says how many filters it has, whoever starts it for whatever.
BASH = r"""#!/usr/bin/python3
import os, re
with open("/workspace/log", "a") as log:
    log.write(re.search(r"Seccomp_filters:\s*(\d+)", open("/proc/self/status").read())[1] + "\n")
"""
MODULE = r"""
#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void loaded(void) {
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  FILE* log = fopen("/workspace/log", "a");
  if (!status || !log) return;
  while (fgets(line, sizeof line, status)) {
    if (strncmp(line, "Seccomp_filters:", 16) == 0) fputs(line + 17, log);
  }
  fclose(log);
}
int gconv(void) { return 0; }
"""


@pytest.fixture(scope="module")
def server(binary):
    with serving(PRESTART_SECONDS=60, PIDS_LIMIT=64) as one:
        yield one


def run_often(server, session, env):
    """As often as it takes until a shell waits for such commands."""
    for _ in range(5):
        server.execute(session, "true", env=env)
        time.sleep(0.1)  # there is nothing to wait for: none may come
    return server.stdout(session, "cat log 2>/dev/null; true").split()


def filters(server, session):
    return server.stdout(session, "grep Seccomp_filters /proc/self/status").split()[1]


@pytest.mark.parametrize("path", ["/workspace/bin:/usr/bin:/bin", "bin:/usr/bin:/bin",
                                  ":/usr/bin:/bin", "/workspace/link:/usr/bin:/bin",
                                  "/proc/self/cwd/bin:/usr/bin", "/tmp:/usr/bin:/bin"])
def test_a_bash_of_the_tenant_s_is_filtered(server, path):
    session = server.create()
    server.execute(session, "mkdir bin; cat > bin/bash; chmod 755 bin/bash; ln -s bin link; "
                            "cp bin/bash /tmp/bash; cp bin/bash bash", stdin=BASH)
    told = run_often(server, session, {"PATH": path})
    assert set(told) <= {filters(server, session)}, told
    server.cleanup(session)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("module")
    (folder / "m.c").write_text(MODULE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "m.so", folder / "m.c"], check=True)
    return (folder / "m.so").read_bytes()


@pytest.mark.parametrize("name, value", [
    ("GCONV_PATH", "/workspace/g"), ("LD_PRELOAD", "/workspace/g/m.so"),
    ("LD_LIBRARY_PATH", "/workspace/g"), ("LD_AUDIT", "/workspace/g/m.so"),
    ("LOCPATH", "/workspace/g"), ("LANGUAGE", "../../workspace/g"), ("LC_ALL", "C.UTF-8"),
    ("BASH_ENV", "/workspace/g/env"), ("BASH_FUNC_x%%", "() { :; }; echo 2 >> /workspace/log"),
    ("LANG", "../../workspace/g"), ("TERM", "../g"), ("ENV", "/workspace/g/env"),
    ("NLSPATH", "/workspace/g/%N"), ("SHELLOPTS", "xtrace"), ("GLIBC_TUNABLES", "x"),
    ("ANY_OTHER", "x")])
def test_what_the_tenant_brings_is_loaded_by_filtered_shells_only(server, module, name, value):
    session = server.create()
    server.upload(session, "m.so", module)
    server.execute(session, "mkdir g; cp m.so g; cp m.so g/libtinfo.so.6; echo 'id' > g/env; "
                            "printf 'module EVIL// INTERNAL m 1\\nmodule INTERNAL EVIL// m 1\\n"
                            "alias UTF-8// EVIL//\\n' > g/gconv-modules")
    told = run_often(server, session, {name: value})
    assert set(told) <= {filters(server, session)}, told
    before = original(server, session)
    # Who has such a variable has no copies: others in the same session may.
    has = before and f"{name}={value}\0".encode() in open(f"/proc/{before}/environ", "rb").read()
    assert not has
    server.cleanup(session)


def test_the_directory_that_it_is_copied_into_leads_nowhere(server):
    """PID 1's own descriptor of it: all that it gives away is below."""
    session = warm(server)
    guest = server.guest_pid(session)
    top = os.stat(f"/proc/{guest}/fd/6")
    above = os.stat(f"/proc/{guest}/fd/6/..")
    assert (top.st_dev, top.st_ino) == (above.st_dev, above.st_ino)
    server.cleanup(session)


def test_the_limit_of_processes_is_told_as_with_new_shells(server):
    session = warm(server)
    wait_for_shell(server, session)
    answer = server.execute(session, "for i in {1..99}; do sleep 9 & done; :", timeout=20)
    assert answer["limits_hit"] == ["pids"], answer
    server.cleanup(session)


def test_time_that_is_up_before_there_is_a_copy(server):
    """Its original gets no processor, and is not stopped either."""
    session = warm(server)
    pid = wait_for_original(server, session)
    wait_for_shell(server, session)
    made = server.post(f"/api/sessions/{session}/processes", {"command": "sleep 100"}).json
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    for _ in range(20):
        answer = server.execute(session, "sleep 5; echo not here", timeout=0.01)
        assert (answer["cause"], answer["stdout"]) == ("timeout", ""), answer
    server.request("DELETE", f"/api/sessions/{session}/processes/{made['process_id']}")
    server.cleanup(session)


def test_every_command_has_the_same_filters(server):
    session = warm(server)
    found = set()
    for _ in range(10):
        wait_for_shell(server, session)
        found.add(server.stdout(session, "while read -r line; do case $line in Seccomp*) "
                                         "echo $line;; esac; done < /proc/$$/status"))
    assert len(found) == 1 and re.search(r"Seccomp_filters: \d", found.pop())
    server.cleanup(session)
