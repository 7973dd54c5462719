#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots a stock Debian kernel with pure cgroup v2 under QEMU (software emulation, no KVM needed)
and runs the cases of tests/vm/cases in it, as root.

    tests/vm/run.py                                   all cases, with build/threadbox if it is there
    tests/vm/run.py --binary build/threadbox cases/cgroup2-pure.sh
    tests/vm/run.py --file tests/security:security …  more files, at /opt/threadbox/security
    tests/vm/run.py --shell                           a root shell in the VM instead of the cases

A case is an executable file, or a .sh or .py file: exit 0 = passed, 77 = skipped, anything else =
failed. A line `# timeout: SECONDS` among its first lines changes its time limit. It runs in a
directory of its own on the scratch disk and in a cgroup of its own; see guest-init.sh.

How it works: build.sh makes kernel, initramfs and root file system once. Each run adds two disks:
    vda  root.ext4     Debian; opened with snapshot=on, so what a run writes to it is thrown away
    vdb  scratch.ext4  empty, mounted on /var/lib
    vdc  payload.ext4  read-only on /opt/threadbox: guest-init.sh, manifest, threadbox, cases/,
                       probes/escape_probe.py and what --file adds
The console (ttyS0) goes to a log. The report comes on the second serial port (ttyS1), where neither
the kernel nor a case writes, a line each:
    @@BOOT                            the machine is ready
    @@START name                      a case begins
    @@CASE name rc milliseconds b64   it has ended; its output, the last 128 KiB, in base64
    @@END                             all cases have run; the VM switches itself off
A VM that ends without @@END (panic; an oops is made one) or hangs fails the run, and so does each
case that has not reported by then.
"""
import argparse
import base64
import contextlib
import dataclasses
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
DEFAULT_BINARY = REPOSITORY / "build" / "threadbox"
PROBES = [HERE.parent / "security" / "probes" / "escape_probe.py"]
SKIP = 77
PATIENCE = 60           # seconds beyond what a case may take, which the VM itself sees to
TIMED_OUT = (124, 137)  # what timeout(1) exits with: after SIGTERM, after SIGKILL
MAX_OUTPUT = 131072     # as in guest-init.sh
CONSOLE_LINES = 40      # of the log that are shown when the VM did not end well
CRASH = re.compile(r"Kernel panic|BUG:|Oops|soft lockup|Attempted to kill init")


@dataclasses.dataclass
class Case:
    path: pathlib.Path
    limit: int  # seconds

    @property
    def name(self):
        return self.path.name


@dataclasses.dataclass
class Result:
    rc: int
    seconds: float
    output: str

    def verdict(self, limit):
        if self.rc in TIMED_OUT and self.seconds >= limit:
            return "FAIL", f"timed out after {limit} s"
        if self.rc == SKIP:
            return "SKIP", self.output.strip().splitlines()[-1] if self.output.strip() else ""
        return ("PASS", "") if self.rc == 0 else ("FAIL", f"exit {self.rc}")


class Report:
    """What the VM has said so far; feed() takes a line of the second serial port."""

    def __init__(self, cases, on_result):
        self.cases = {case.name: case for case in cases}
        self.on_result = on_result
        self.results = {}
        self.running = None
        self.start = time.monotonic()
        self.booted = None  # seconds, on this machine's clock
        self.ended = False

    def feed(self, line):
        word, *rest = line.split()
        if word == "@@BOOT":
            self.booted = time.monotonic() - self.start
        elif word == "@@START":
            self.running = rest[0]
        elif word == "@@CASE":
            name, rc, milliseconds, *encoded = rest
            raw = base64.b64decode("".join(encoded))
            output = raw.decode(errors="replace")
            if len(raw) >= MAX_OUTPUT:
                output = "[vm] the beginning is cut\n" + output
            self.running = None
            self.results[name] = Result(int(rc), int(milliseconds) / 1000, output)
            self.on_result(self.cases[name], self.results[name])
        elif word == "@@END":
            self.ended = True
        else:
            raise ValueError(f"the VM reported {line!r}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", type=pathlib.Path, help="default: tests/vm/cases/*")
    parser.add_argument("--binary", type=pathlib.Path, help=f"default: {DEFAULT_BINARY}, if there")
    parser.add_argument("--file", action="append", default=[], metavar="SOURCE[:NAME]",
                        help="a file or folder to put at /opt/threadbox/NAME")
    parser.add_argument("--vm", type=pathlib.Path, default=REPOSITORY / "build" / "vm",
                        help="where build.sh puts its results (default: build/vm)")
    parser.add_argument("--kernel", default="linux-image-cloud-amd64", help="Debian package")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for the whole run")
    parser.add_argument("--case-timeout", type=int, default=120, help="seconds for a case")
    parser.add_argument("--memory", type=int, default=1024, help="MiB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--scratch", type=int, default=4096, help="MiB on /var/lib (sparse)")
    parser.add_argument("--append", default="", help="more words for the kernel's command line")
    parser.add_argument("--shell", action="store_true", help="a root shell instead of the cases")
    parser.add_argument("--keep", action="store_true", help="keep the disks and the console log")
    parser.add_argument("--verbose", action="store_true", help="show the output of passed cases")
    arguments = parser.parse_args()
    if arguments.binary and not arguments.binary.is_file():
        parser.error(f"no such binary: {arguments.binary}")
    if not arguments.binary and DEFAULT_BINARY.is_file():
        arguments.binary = DEFAULT_BINARY
    return arguments


def find_cases(paths, default_limit):
    if not paths:
        paths = [path for path in (HERE / "cases").iterdir()
                 if path.is_file() and not path.name.startswith((".", "_"))]
        paths.sort()
    cases = []
    for path in paths:
        if not path.is_file() and (HERE / path).is_file():
            path = HERE / path
        head = path.read_bytes()[:2048].decode(errors="replace")
        limit = re.search(r"^# timeout: (\d+)", head, re.MULTILINE)
        cases.append(Case(path, int(limit[1]) if limit else default_limit))
    names = [case.name for case in cases]
    if len(set(names)) != len(names) or any(re.search(r"\s", name) for name in names):
        sys.exit("the cases' names must differ and have no spaces")
    return cases


def make_disks(work, arguments, cases):
    payload = work / "payload"
    (payload / "cases").mkdir(parents=True)
    install(HERE / "guest-init.sh", payload / "guest-init.sh")
    if arguments.binary:
        install(arguments.binary, payload / "threadbox")
    for case in cases:
        install(case.path, payload / "cases" / case.name)
    probe = next((path for path in PROBES if path.is_file()), None)
    if probe:
        install(probe, payload / "probes" / probe.name)
    for item in arguments.file:
        source, _, name = item.partition(":")
        install(pathlib.Path(source), payload / (name or pathlib.Path(source).name))
    (payload / "manifest").write_text("".join(f"{case.limit} {case.name}\n" for case in cases))
    used = sum(path.stat().st_size for path in payload.rglob("*") if path.is_file())
    size = used * 5 // 4 // 2**20 + 8
    make_ext4(work / "payload.ext4", size, "-d", payload, "-O", "^has_journal")
    make_ext4(work / "scratch.ext4", arguments.scratch)


def install(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
        target.chmod(0o755)


def make_ext4(image, mebibytes, *options):
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", *map(str, options),
                    str(image), f"{mebibytes}M"], check=True, stdout=subprocess.DEVNULL)


def qemu_command(work, arguments):
    vm = arguments.vm
    words = ["console=ttyS0", "panic=-1", "oops=panic", "mitigations=off",
             "tb.shell" if arguments.shell else "loglevel=5", arguments.append]
    console = "stdio" if arguments.shell else f"file:{work}/console.log"
    report = f"file:{work}/report.log" if arguments.shell else "stdio"

    def disk(path, options):
        return ["-drive", f"if=virtio,format=raw,cache=unsafe,file={path},{options}"]

    # setpriv: the VM does not outlive this program, however it ends.
    return ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64",
            "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max,la57=off",
            "-smp", str(arguments.cpus), "-m", str(arguments.memory),
            "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-kernel", str(vm / "vmlinuz"), "-initrd", str(vm / "initramfs"),
            "-append", " ".join(filter(None, words)),
            "-serial", console, "-serial", report,
            *disk(vm / "root.ext4", "snapshot=on"), *disk(work / "scratch.ext4", "discard=unmap"),
            *disk(work / "payload.ext4", "readonly=on")]


def read_lines(stream, lines):
    for line in stream:
        lines.put(line.strip())
    lines.put(None)


def watch(command, timeout, silence, report):
    """Runs the VM to its end, at most for `timeout` seconds, and `silence` from one line to the
    next; returns what went wrong, if anything."""
    deadline = time.monotonic() + timeout
    vm = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          errors="replace")
    lines = queue.Queue()
    threading.Thread(target=read_lines, args=(vm.stdout, lines), daemon=True).start()
    try:
        while True:
            line = lines.get(timeout=max(0, min(silence, deadline - time.monotonic())))
            if line is None:
                break
            if line:
                report.feed(line)
        status = vm.wait(timeout=max(1, deadline - time.monotonic()))
    except (queue.Empty, subprocess.TimeoutExpired):
        late = time.monotonic() >= deadline
        return (f"the VM hangs: killed after {timeout} s" if late else
                f"the VM hangs: killed after {silence} s without a word")
    finally:
        vm.kill()
        vm.wait()
    if status != 0:
        return f"qemu exited with {status}"
    return None if report.ended else "the VM went down before its cases had ended"


def indent(text):
    return "".join(f"    {line}\n" for line in text.rstrip("\n").split("\n"))


def show_console(log):
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    crash = next((number for number, line in enumerate(lines) if CRASH.search(line)), None)
    first = max(0, (len(lines) if crash is None else crash + CONSOLE_LINES) - CONSOLE_LINES)
    print(indent("\n".join(lines[first:first + CONSOLE_LINES])), end="")


def run_cases(work, arguments, cases):
    start = time.monotonic()
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def on_result(case, result):
        verdict, why = result.verdict(case.limit)
        counts[verdict] += 1
        print(f"{verdict} {case.name} ({result.seconds:.1f} s)" + (f": {why}" if why else ""),
              flush=True)
        if verdict == "FAIL" or arguments.verbose and result.output:
            print(indent(result.output), end="", flush=True)

    report = Report(cases, on_result)
    silence = max(case.limit for case in cases) + PATIENCE
    trouble = watch(qemu_command(work, arguments), arguments.timeout, silence, report)
    for case in cases:
        if case.name not in report.results:
            counts["FAIL"] += 1
            state = "was running when the VM ended" if report.running == case.name else "never ran"
            print(f"FAIL {case.name}: {state}")
    if trouble:
        print(f"FAIL: {trouble}; the end of its console:")
        show_console(work / "console.log")
    booted = f"booted in {report.booted:.1f} s, " if report.booted is not None else ""
    print(f"{booted}all in {time.monotonic() - start:.1f} s")
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return bool(trouble or counts["FAIL"])


@contextlib.contextmanager
def work_directory(vm, keep):
    runs = vm / "runs"
    runs.mkdir(exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=runs))
    try:
        yield work
    finally:
        if keep:
            print(f"kept {work}", file=sys.stderr)
        else:
            shutil.rmtree(work)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is on the way is undone
    arguments = parse_arguments()
    arguments.vm = arguments.vm.resolve()
    subprocess.run([HERE / "build.sh", arguments.vm, arguments.kernel], check=True)
    cases = find_cases(arguments.cases, arguments.case_timeout)
    with work_directory(arguments.vm, arguments.keep) as work:
        make_disks(work, arguments, cases)
        if arguments.shell:
            return subprocess.run(qemu_command(work, arguments)).returncode
        return run_cases(work, arguments, cases)


if __name__ == "__main__":
    sys.exit(main())
