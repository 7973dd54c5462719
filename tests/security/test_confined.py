# SPDX-License-Identifier: Apache-2.0
"""A confined sandbox: only the programs of its list can be executed or read, whoever asks and how.

The keeper is spoken to directly, so that no check of the command's text stands before the kernel.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from keeper import Box, Keeper
from server import Server

STRICT = """jq awk grep sed sort uniq head tail wc cut tr cat echo date find ls python3 python bc
comm diff basename dirname file stat tee whoami pwd id mkdir touch cp printf true false test [ sleep
seq expr env xargs""".split()
CASES = [json.loads(line) for line in
         (pathlib.Path(__file__).parent / "probes/validator_cases.jsonl").read_text().splitlines()]
LOADER = next(path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
              if os.path.exists(path))
REFUSED = ("Permission denied", "Operation not permitted", "failed to map segment")
NOBODY = 65534

# An allowed program does this to the session's own files: not the list's business.
OWN_FILES = {"VB001", "VB018"}
# Programs that a host may not have, and one that says nothing because its streams are the pipe's.
SILENT = {"VA013", "VA110", "VA043"}
ENDLESS = {"VA054"}


@pytest.fixture(scope="module")
def confined(server):
    keeper = Keeper(server.state_dir)
    box = Box(keeper, "confined", programs=STRICT, cpu_quota=100000)
    yield box
    box.close()
    keeper.close()


@pytest.fixture
def make_box(server):
    keeper = Keeper(server.state_dir)
    boxes = []

    def make(*programs, name=None, **options):
        name = name or f"confined-{len(boxes)}"
        boxes.append(Box(keeper, name, programs=programs, **options))
        return boxes[-1]
    yield make
    for box in boxes:
        box.close()
    keeper.close()


def ids(cases):
    return [case["id"] for case in cases]


HARMFUL = [case for case in CASES if case["cls"] in "AB" and case["id"] not in OWN_FILES]
HARMLESS = [case for case in CASES if case["cls"] == "C"]


@pytest.mark.parametrize("case", HARMFUL, ids=ids(HARMFUL))
def test_what_would_fool_a_check_of_the_text_ends_at_the_kernel(confined, case):
    assert confined.run("echo precious > victim")[0] == 0
    script = case["cmd"]
    code, out, err = confined.run(script, timeout=1 if case["id"] in ENDLESS else 20)
    assert confined.run("test -f victim")[0] == 0, (code, out, err)
    if case["id"] not in SILENT:
        assert "Permission denied" in err + out, (code, out, err)


@pytest.mark.parametrize("case", HARMLESS, ids=ids(HARMLESS))
def test_what_is_allowed_works(confined, case):
    code, out, err = confined.run("touch victim; " + case["cmd"])
    assert code == 0, (code, out, err)


RM = "/usr/bin/rm"
OWN = "cp /usr/bin/ls own; "  # a program that can be read, as the tenant's own file
LIBRARY = "import glob; lib = glob.glob('/lib/*-linux-*/libm.so.6')[0]; "
MAP = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | (os.O_TMPFILE if os.path.isdir(sys.argv[1]) else os.O_CREAT))
os.write(fd, b'x' * 4096)
try:
    mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    print('mapped')
except OSError as error:
    print(error)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, 4096, 1, 2, fd, ctypes.c_long(0))
print(libc.mprotect(ctypes.c_void_p(at), 4096, 5), os.strerror(ctypes.get_errno()))
"""

ATTACKS = {
    "by name": "rm victim",
    "by path": f"{RM} victim",
    "by a nested shell": "bash -c 'rm victim'",
    "by another shell": "sh -c 'rm victim'",
    "by the loader": f"{LOADER} {RM} victim",
    "read": f"cat {RM}",
    "copied": f"cp {RM} copy",
    "redirected": f"cat < {RM}",
    "into the shell": f"mapfile < {RM}",
    "by python": f"python3 -c 'import os; os.execv(\"{RM}\", [\"rm\", \"victim\"])'",
    "read by python": f"python3 -c 'open(\"{RM}\", \"rb\").read()'",
    "by a descriptor": "python3 -c 'import os; "
                       f"os.execve(os.open(\"{RM}\", os.O_PATH), [\"rm\", \"victim\"], {{}})'",
    "read by a descriptor": "python3 -c 'import os; "
                            f"open(\"/proc/self/fd/%d\" % os.open(\"{RM}\", os.O_PATH))'",
    "through the root of a process": "/proc/self/root/usr/bin/rm victim",
    "through a link": f"python3 -c 'import os; os.symlink(\"{RM}\", \"link\")'; ./link victim",
    "unlisted interpreter": "perl -e 'unlink q(victim)'",
    "many in one": "busybox rm victim",
    "a copy of its own": OWN + "./own",
    "a copy by the loader": OWN + f"{LOADER} ./own",
    "a copy in /tmp": "cp /usr/bin/ls /tmp/own; /tmp/own",
    "a copy in /dev/shm": "cp /usr/bin/ls /dev/shm/own; /dev/shm/own",
    "a copy at home": "cp /usr/bin/ls ~/own; ~/own",
    "a copy by descriptor": OWN + "exec 5< own; /proc/self/fd/5",
    "a copy by descriptor and loader": OWN + f"exec 5< own; {LOADER} /proc/self/fd/5",
    "a script of its own": "printf '#!/bin/sh\\necho hi\\n' > s; "
                           "python3 -c 'import os; os.chmod(\"s\", 0o755)'; ./s",
    "a forbidden interpreter": f"printf '#!{RM}\\n' > s; "
                               "python3 -c 'import os; os.chmod(\"s\", 0o755)'; ./s",
    "memory file": "python3 -c 'import os; os.memfd_create(\"x\")'",
    "memory file with a flag": "python3 -c 'import os; os.memfd_create(\"x\", 0x10)'",
    "unnamed file": "python3 -c '"
                    "import os; fd = os.open(\"/tmp\", os.O_TMPFILE | os.O_RDWR, 0o755); "
                    "os.write(fd, open(\"/usr/bin/ls\", \"rb\").read()); "
                    "ro = os.open(f\"/proc/self/fd/{fd}\", os.O_RDONLY); os.close(fd); "
                    "os.execve(ro, [\"ls\"], {})'",
    "own library": f"python3 -c \"{LIBRARY}import ctypes, shutil; shutil.copy(lib, 'm.so'); "
                   "ctypes.CDLL('./m.so')\"",
    "the guest's own program": "cat /proc/1/exe",
    "from the guest's root": "/proc/1/root/usr/bin/rm victim",
    "by execveat": f"python3 -c 'import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
                   f"libc.execveat(os.open(\"{RM}\", os.O_PATH), b\"\", None, None, 0x1000); "
                   "exit(os.strerror(ctypes.get_errno()))'",
    "a view without noexec": "python3 -c 'import ctypes, os; "
                             "libc = ctypes.CDLL(None, use_errno=True); "
                             "libc.open_tree(-100, b\"/workspace\", 1); "
                             "exit(os.strerror(ctypes.get_errno()))'",
    "by find": "find . -maxdepth 0 -exec rm victim ';' | grep x",
    "without a PATH": "cp /usr/bin/ls ./ls; unset PATH; ls",
    "own builtin": "cp /lib/*-linux-*/libm.so.6 m.so; enable -f ./m.so x",
}


@pytest.mark.parametrize("script", ATTACKS.values(), ids=ATTACKS)
def test_no_other_program_runs(confined, script):
    assert confined.run("echo precious > victim; find own m.so s link -delete 2> /dev/null")[0] < 2
    code, out, err = confined.run(script)
    assert code != 0 and any(text in err for text in REFUSED), (code, out, err)
    assert confined.run("cat victim")[1] == "precious\n"


def test_a_program_can_not_be_linked_into_the_workspace(confined):
    code, _, err = confined.run(f"python3 -c 'import os; os.link(\"{RM}\", \"hard\")'")
    assert code != 0 and "Invalid cross-device link" in err


def test_a_library_of_one_s_own_is_not_preloaded(confined):
    confined.run("cp /lib/*-linux-*/libm.so.6 m.so")
    _, _, err = confined.run("true; env", env=["LD_PRELOAD=./m.so"])
    assert "failed to map segment" in err


@pytest.mark.parametrize("place", ["/workspace/f", "/workspace", "/tmp", "/home/sandboxuser",
                                   "/dev/shm", "/dev/shm/f"])
def test_no_file_of_its_own_can_be_mapped_as_a_program(confined, place):
    _, out, err = confined.run(f"python3 - {place}", stdin=MAP)
    assert out.splitlines() == ["[Errno 1] Operation not permitted", "-1 Permission denied"], err


def test_a_long_stdin_is_no_program(confined):
    """It is a file that the guest makes: a memfd would be executable."""
    program = pathlib.Path("/usr/bin/ls").read_bytes()
    assert len(program) > 64 << 10
    assert confined.run("wc -c", stdin=program)[1] == f"{len(program)}\n"
    for way in ("/proc/self/fd/0", f"{LOADER} /proc/self/fd/0", f"{LOADER} /dev/stdin"):
        code, out, err = confined.run(way, stdin=program)
        assert code != 0 and any(text in err for text in REFUSED), (code, out, err)


def test_a_long_script_still_runs(confined):
    code, out, err = confined.run("#" * (200 << 10) + "\necho done")
    assert (code, out) == (0, "done\n"), err


def test_a_program_is_refused_before_any_shell(confined):
    assert confined.run(argv=["rm", "victim"]) == (126, "", "Permission denied")
    assert confined.run(argv=["ls", "-d", "/"])[:2] == (0, "/\n")


def test_every_writable_mount_is_noexec(confined):
    _, table, _ = confined.run("cat /proc/self/mountinfo")
    rows = [line.split() for line in table.splitlines()]
    open_mounts = [row[4] for row in rows if "noexec" not in row[5].split(",")]
    writable = [row[4] for row in rows if "rw" in row[5].split(",")]
    assert {"/workspace", "/tmp", "/home/sandboxuser", "/dev/shm"} <= set(writable)
    assert not set(open_mounts) & set(writable), table
    assert not {"/etc", "/usr/share"} & set(open_mounts)


READABLE = r"""
import json, os, struct
mounts = [line.split() for line in open('/proc/self/mountinfo')]
shut = {row[4] for row in mounts if 'noexec' in row[5].split(',')}
found = []
for folder, names, files in os.walk('/'):
    names[:] = [name for name in names if os.path.join(folder, name) not in shut]
    for name in files:
        path = os.path.join(folder, name)
        if os.path.islink(path) or name.endswith('.so') or '.so.' in name:
            continue
        try:
            with open(path, 'rb') as file:
                head = file.read(18)
        except OSError:
            continue
        if head[:4] == b'\x7fELF' and head[16] in (2, 3):
            found.append(path)
print(json.dumps(found))
"""


def test_no_program_but_those_of_the_list_can_be_read_anywhere(confined):
    """All of the tree, as the loader could: what it can't read it can't start."""
    code, out, err = confined.run("python3 -", stdin=READABLE, timeout=120)
    assert code == 0, err
    readable = set(json.loads(out))
    allowed = {os.path.realpath(found) for name in [*STRICT, "bash", "sh"]
               for found in (shutil.which(name, path=where)
                             for where in ("/usr/local/bin", "/usr/bin")) if found}
    assert "/usr/bin/bash" in readable and RM not in readable
    assert readable <= allowed


def test_sysctl_closes_memory_files_too(confined):
    if not os.path.exists("/proc/sys/vm/memfd_noexec"):
        pytest.skip("vm.memfd_noexec begins with Linux 6.3")
    assert confined.run("cat /proc/sys/vm/memfd_noexec")[1] == "2\n"
    assert pathlib.Path("/proc/sys/vm/memfd_noexec").read_text() == "0\n"


def test_python_has_its_libraries(confined):
    code, out, err = confined.run(
        "python3 -c 'import ctypes, decimal, hashlib, json, lzma, sqlite3, ssl, subprocess, zlib\n"
        "print(subprocess.check_output([\"ls\", \"-d\", \"/\"]))'")
    assert (code, out) == (0, "b'/\\n'\n"), err


def test_an_unconfined_neighbour_is_as_before(make_box):
    box = make_box()
    assert box.run("cp /usr/bin/rm own; touch victim; ./own victim; ls")[:2] == (0, "own\n")
    assert box.run("python3 -c 'import os; print(os.memfd_create(\"x\") > 0)'")[1] == "True\n"


@pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox")
def test_many_in_one_runs_only_when_it_is_listed(make_box):
    assert make_box("ls").run("busybox true")[0] == 126
    assert make_box("ls", "busybox").run("busybox true")[0] == 0


def test_names_that_are_not_on_the_host_are_left_out(make_box):
    box = make_box("no-such-program", "ls")
    assert box.run("ls -d /")[0] == 0
    assert box.run("no-such-program")[0] == 127


@pytest.mark.parametrize("name", ["", ".", "..", "/bin/rm", "a/b", "a b", "x" * 65, "a\n"])
def test_what_is_no_name_is_refused(server, name):
    keeper = Keeper(server.state_dir)
    assert keeper.create("bad", programs=["ls", name])[0] == Keeper.FAILED
    assert keeper.create("bad", programs=["ls"] * 513)[0] == Keeper.FAILED
    keeper.close()


def test_nobody_leaves_confinement_by_coming_back(server):
    keeper = Keeper(server.state_dir)
    for programs in (["ls"], [], ["ls", "rm"]):
        box = Box(keeper, "revived", programs=programs, label="{}")
        assert box.run("ls -d /")[0] == 0
        assert box.run("rm x")[::2] == (126, "bash: line 1: /usr/bin/rm: Permission denied\n")
        box.close(keep_files=True)
    assert keeper.destroy("revived")[0] == Keeper.DONE
    keeper.close()


def test_many_lists_do_not_pile_up(server):
    keeper = Keeper(server.state_dir)
    before = len(os.listdir(f"/proc/{server.keeper_pid()}/fd"))
    for number in range(70):
        Box(keeper, "piled", programs=["ls", f"p{number}"]).close()
    assert len(os.listdir(f"/proc/{server.keeper_pid()}/fd")) < before + 66
    keeper.close()


def test_doctor_names_it(server):
    rows = json.loads(server.command("doctor", "--json").stdout)
    assert "program lists" in json.dumps(rows)


def make_image(image):
    """bash, ls and rm with their libraries, and a cat that is a link to busybox."""
    programs = ["/bin/bash", "/bin/ls", "/bin/rm", shutil.which("busybox")]
    for program in programs:
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for path in [program, *re.findall(r"(/\S+) \(0x", libraries)]:
            target = image / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    (image / "bin/cat").symlink_to(programs[-1])
    (image / "usr/share").mkdir(parents=True)
    (image / "etc").mkdir()
    shutil.copy("/bin/ls", image / "usr/share/ls")


@pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox")
def test_in_an_image_the_list_means_the_image_s_programs(start_server, tmp_path):
    make_image(tmp_path)
    tmp_path.chmod(0o755)
    environment = f"image:{tmp_path}"
    server = start_server(ENVIRONMENT=environment, POOL_SIZE=0)
    keeper = Keeper(server.state_dir)
    box = Box(keeper, "image", programs=["ls", "cat"], environment=environment)
    assert box.run("ls -d /")[:2] == (0, "/\n")
    for script in ("rm x", "cat /etc/passwd", "/usr/share/ls", f"{LOADER} /usr/share/ls",
                   f"{LOADER} /bin/rm x"):
        code, out, err = box.run(script)
        assert code != 0 and any(text in err for text in REFUSED), (script, code, out, err)
    box.close()
    keeper.close()


def hide_landlock():
    """A filter under which the kernel seems to have none."""
    refuse = 0x00050000 | 95  # EOPNOTSUPP
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, refuse), (0x06, 0, 0, 0x7fff0000)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "install the filter")


def test_without_landlock_it_is_refused_and_not_weaker(binary):
    server = Server(preexec=hide_landlock, POOL_SIZE=0)
    try:
        server.start()
        assert server.health()["isolation"]["barriers"]["program lists"] == "missing"
        keeper = Keeper(server.state_dir)
        kind, fields, _ = keeper.create("no", programs=["ls"])
        assert kind == Keeper.FAILED and b"the kernel has no Landlock" in fields
        Box(keeper, "yes").close()
        keeper.close()
        server.close()
    finally:
        server.remove()


def test_without_root_it_holds_too(binary):
    def drop():
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    server = Server(preexec=drop, POOL_SIZE=0)
    try:
        os.chown(server.state_dir, NOBODY, NOBODY)
        server.start()
        os.seteuid(NOBODY)  # the keeper looks at who connects
        try:
            keeper = Keeper(server.state_dir)
        finally:
            os.seteuid(0)
        box = Box(keeper, "rootless", programs=STRICT)
        for name in ("by name", "by the loader", "read", "a copy by the loader", "memory file",
                     "a copy by descriptor"):
            code, out, err = box.run(ATTACKS[name])
            assert code != 0 and any(text in err for text in REFUSED), (name, code, out, err)
        assert box.run("echo '{}' | jq -c . && python3 -c 'import ssl'")[:2] == (0, "{}\n")
        box.close()
        keeper.close()
    finally:
        subprocess.run([server.binary, "stop"], env=server.environment(), preexec_fn=drop,
                       check=False)
        server.remove()
