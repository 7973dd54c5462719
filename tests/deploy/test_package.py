# SPDX-License-Identifier: Apache-2.0
"""The packages: what is in them, and on a machine with a real systemd that installing starts two
services, that upgrades end no session, and that removing leaves nothing."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tarfile

import pytest

import machine as machines
from server import BINARY, Server, alive, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
CONF = "etc/threadbox/threadbox.conf"
UNITS = ("threadbox.service", "threadbox-keeper.service")
# What systemd-analyze gives for each, times ten; less is safer.
EXPOSURE = {"threadbox.service": 30, "threadbox-keeper.service": 86}


def run(*command, **options):
    return subprocess.run(command, text=True, capture_output=True, timeout=300, **options)


@pytest.fixture(scope="module")
def packages(binary, tmp_path_factory):
    """Of the build that is there: {"deb": path, "tar": path}."""
    if not (BUILD / "CPackConfig.cmake").exists():
        pytest.skip("there is no release build")
    place = tmp_path_factory.mktemp("packages")
    for kind in ("DEB", "TGZ"):
        done = run("cpack", "-G", kind, "-B", place, cwd=BUILD)
        assert done.returncode == 0, done.stdout + done.stderr
    (deb,), (tar,) = place.glob("*.deb"), place.glob("*.tar.gz")
    return {"deb": deb, "tar": tar}


# ---- what is in them ----

def test_the_deb_has_what_it_should_and_no_more(packages, tmp_path):
    assert run("dpkg-deb", "-R", packages["deb"], tmp_path / "x").returncode == 0
    top = tmp_path / "x"
    files = {str(path.relative_to(top)): oct(path.stat().st_mode & 0o7777)
             for path in top.rglob("*") if path.is_file()}
    doc, share = "usr/share/doc/threadbox", "usr/share"
    assert files == {
        "DEBIAN/conffiles": "0o644", "DEBIAN/control": "0o644", "DEBIAN/md5sums": "0o644",
        "DEBIAN/postinst": "0o755", "DEBIAN/prerm": "0o755", "DEBIAN/postrm": "0o755",
        "etc/threadbox/threadbox.conf": "0o640", "usr/bin/threadbox": "0o755",
        **{f"usr/lib/systemd/system/{unit}": "0o644" for unit in UNITS},
        f"{share}/man/man1/threadbox.1.gz": "0o644",
        f"{share}/bash-completion/completions/threadbox": "0o644",
        f"{share}/zsh/vendor-completions/_threadbox": "0o644",
        f"{doc}/copyright": "0o644", f"{doc}/nginx.conf": "0o644", f"{doc}/grafana.json": "0o644"}
    assert (top / "DEBIAN/conffiles").read_text() == "/etc/threadbox/threadbox.conf\n"
    version = run(BINARY, "version").stdout.split()[1]
    control = (top / "DEBIAN/control").read_text()
    assert re.search(rf"^Version: {re.escape(version)}$", control, re.M)
    assert run(top / "usr/bin/threadbox", "version").stdout == f"threadbox {version}\n"
    shown = run(top / "usr/bin/threadbox", "config", "--config",
                top / "etc/threadbox/threadbox.conf", env={})
    assert shown.returncode == 0 and "file " not in shown.stdout, "all of it is commented out"


def test_every_line_of_the_conf_is_a_setting_at_its_default(packages, tmp_path):
    text = (ROOT / "deploy" / "threadbox.conf").read_text()
    conf = tmp_path / "conf"
    conf.write_text(re.sub(r"^#([A-Z_]+=)", r"\1", text, flags=re.M))
    given = run(BINARY, "config", "--config", conf, env={}).stdout
    plain = run(BINARY, "config", env={}).stdout
    values = [[line.split()[:2] for line in out.splitlines()] for out in (given, plain)]
    assert values[0] == values[1] and given.count(f"file {conf}") == len(
        re.findall(r"^#[A-Z_]+=", text, re.M)) > 5


def test_the_archive_is_one_static_file_and_what_belongs_to_it(packages, tmp_path):
    with tarfile.open(packages["tar"]) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path)
    (top,) = {name.split("/")[0] for name in names}
    assert re.fullmatch(r"threadbox-[\d.]+-linux-\w+", top)
    assert {f"{top}/threadbox", f"{top}/LICENSE", f"{top}/threadbox.1", f"{top}/nginx.conf",
            f"{top}/systemd/threadbox.service", f"{top}/completions/_threadbox"} <= set(names)
    program = tmp_path / top / "threadbox"
    assert run(program, "version").returncode == 0
    headers = run("readelf", "-l", program).stdout
    assert "INTERP" not in headers, "it needs no loader, and so no library"


def test_systemd_understands_the_units(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze")
    for unit in UNITS:
        text = (ROOT / "deploy" / "systemd" / unit).read_text()
        (tmp_path / unit).write_text(text.replace("/usr/bin/threadbox", BINARY))
    for unit in UNITS:
        done = run("systemd-analyze", "verify", "--man=no", tmp_path / unit)
        assert done.returncode == 0 and not done.stderr, done.stderr
        done = run("systemd-analyze", "security", "--offline=true", "--no-pager",
                   f"--threshold={EXPOSURE[unit]}", tmp_path / unit)
        assert done.returncode == 0, done.stdout[-1500:]


def notified(*command, **environment):
    """What a program tells the service manager: a function that waits for the next words."""
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(f"\0tb-notify-{os.getpid()}-{id(command)}")
    ear.settimeout(30)
    address = "@" + ear.getsockname()[1:].decode()
    process = subprocess.Popen(command, env={**os.environ, **environment,
                                             "NOTIFY_SOCKET": address},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, lambda: ear.recv(4096).decode()


def test_both_programs_speak_to_the_service_manager(binary, tmp_path_factory):
    """The keeper is one of its own here, as its unit starts it; the server finds it."""
    quiet = Server(POOL_SIZE=0)
    settings = {**quiet.environment(), "WATCHDOG_USEC": "400000"}
    keeper, keeper_says = notified(BINARY, "keeper", **settings)
    server = None
    try:
        assert keeper_says() == "READY=1"
        server, server_says = notified(BINARY, "serve", **settings)
        words = [server_says() for _ in range(3)]
        assert sorted(words) == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"], "it goes on"
        server.terminate()
        while (word := server_says()) == "WATCHDOG=1":
            pass
        assert word == "STOPPING=1" and server.wait(30) == 0
        assert alive(keeper.pid), "the keeper is nobody's child and stays"
        keeper.terminate()
        assert keeper_says() == "STOPPING=1" and keeper.wait(30) == 0
        assert not quiet.leftovers()
    finally:
        for process in filter(None, (server, keeper)):
            process.kill()
            process.wait()
        quiet.remove()


# ---- on a machine ----

@pytest.fixture(scope="module")
def debian():
    """Made once; each machine has a copy."""
    if not shutil.which("mmdebstrap"):
        pytest.skip("there is no mmdebstrap")
    place = ROOT / "build" / "deploy-root"
    if not (place / "usr/bin/systemctl").exists():
        shutil.rmtree(place, ignore_errors=True)
        problem = machines.make_root(place)
        if problem:
            shutil.rmtree(place, ignore_errors=True)
            pytest.skip(problem)
    return place


@pytest.fixture
def machine(debian):
    place = pathlib.Path("/var/tmp") / f"tb-machine-{os.getpid()}"
    subprocess.run(["cp", "-a", debian, place], check=True)
    made = machines.Machine(place)
    try:
        if not made.group:
            pytest.skip("this host has no cgroup2, which systemd needs")
        yield made.boot()
    finally:
        made.power_off()
        shutil.rmtree(place)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Remote(Server):
    """A server that somebody else runs."""

    def __init__(self, port):
        self.port = port

    def ready(self):
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False


def newer(deb, place):
    """The same package, of a later version."""
    subprocess.run(["dpkg-deb", "-R", deb, place / "newer"], check=True)
    control = place / "newer" / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 99.0", control.read_text(), flags=re.M))
    subprocess.run(["dpkg-deb", "-b", place / "newer", place / "newer.deb"], check=True,
                   capture_output=True)
    return place / "newer.deb"


def install(machine, deb):
    shutil.copy(deb, machine.root / "package.deb")
    machine.must("dpkg", "--install", "--force-confold", "/package.deb")


def check_installed(machine, server):
    wait_until(server.ready, machine.journal, 60)
    for unit in UNITS:
        assert machine.show(unit, "ActiveState") == "active"
        assert machine.show(unit, "UnitFileState") == "enabled"
    number = machine.must("id", "-u", "threadbox").strip()
    status = machine.must("cat", f"/proc/{machine.show(UNITS[0], 'MainPID')}/status")
    assert re.search(rf"^Uid:\t{number}\t{number}\t{number}\t{number}$", status, re.M)
    assert machine.run("threadbox", "doctor").returncode in (0, 1, 2)


class Counting:
    """A command that counts, and must never stop."""

    def __init__(self, machine, server, session):
        self.machine, self.server, self.session = machine, server, session
        reply = server.post(f"/api/sessions/{session}/processes", {
            "command": "i=0; while sleep 0.05; do i=$((i+1)); echo $i; done", "timeout": 600})
        assert reply.status == 201, (reply, machine.journal())
        self.number = reply.json["process_id"]
        self.keeper = machine.show(UNITS[1], "MainPID")
        wait_until(self.numbers, "it has begun")

    def numbers(self):
        return self.server.output(self.session, self.number).decode().split()

    def outlives(self, what, change):
        """The server is another one, the keeper is not, and the command goes on."""
        pid, before = self.machine.show(UNITS[0], "MainPID"), len(self.numbers())
        change(pid)
        wait_until(lambda: self.machine.show(UNITS[0], "MainPID") not in (pid, "0"), what, 60)
        wait_until(self.server.ready, self.machine.journal, 60)
        assert self.machine.show(UNITS[1], "MainPID") == self.keeper, what
        wait_until(lambda: len(self.numbers()) > before + 3, f"it goes on: {what}", 30)
        numbers = self.numbers()
        assert numbers == [str(n) for n in range(1, len(numbers) + 1)], "nothing is lost"


def check_removed(machine, server, session):
    """First what runs goes, and could come back; then what is kept."""
    conf, state = machine.root / CONF, machine.root / "var/lib/threadbox"
    machine.must("dpkg", "--remove", "threadbox")
    assert not server.ready()
    pids = [name for name in machine.must("ls", "/proc").split() if name.isdigit()]
    assert "threadbox" not in "".join(machine.run("cat", f"/proc/{pid}/comm").stdout
                                      for pid in pids)
    assert conf.exists() and (state / "sandboxes" / session).exists()
    machine.must("dpkg", "--install", "/package.deb")
    wait_until(server.ready, machine.journal, 60)
    assert server.create("t") == session, "it is as it was"
    machine.must("dpkg", "--purge", "threadbox")
    assert not conf.exists() and not state.exists()
    assert "threadbox" not in (machine.root / "etc/passwd").read_text()
    left = machine.run("find", "/", "-xdev", "-name", "*threadbox*").stdout.split()
    assert [path for path in left if not path.startswith(("/proc/", "/sys/", "/run/"))] == []


@pytest.mark.long
def test_a_package_lives_on_a_machine(packages, machine, tmp_path):
    port = free_port()
    (machine.root / CONF).parent.mkdir()
    (machine.root / CONF).write_text(f"PORT={port}\nPOOL_SIZE=1\nDEFAULT_POLICY=open\n")
    install(machine, packages["deb"])
    server = Remote(port)
    check_installed(machine, server)

    machine.must("systemctl", "reload", "threadbox")
    wait_until(lambda: "event=registry_reloaded" in machine.journal(), "it is reloaded")

    session = server.create("t")
    said = server.stdout(session, "grep Seccomp_filters /proc/self/status")
    assert int(said.split()[1]) <= 4, "the unit adds none of its own to every sandbox"
    counting = Counting(machine, server, session)

    def restart(_):
        machine.must("systemctl", "restart", "threadbox")
    counting.outlives("a restart", restart)
    counting.outlives("a crash", lambda pid: machine.must("sh", "-c", f"kill -KILL {pid}"))
    counting.outlives("an upgrade", lambda _: install(machine, newer(packages["deb"], tmp_path)))
    assert "PORT=" in (machine.root / CONF).read_text(), "it keeps what the operator wrote"
    quick = machine.root / "etc/systemd/system/threadbox.service.d/quick.conf"
    quick.parent.mkdir(parents=True)
    quick.write_text("[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n")
    machine.must("systemctl", "daemon-reload")
    counting.outlives("a restart", restart)
    counting.outlives("a hang", lambda pid: machine.must("sh", "-c", f"kill -STOP {pid}"))
    shutil.rmtree(quick.parent)

    machine.must("sh", "-c", f"kill -KILL {counting.keeper}")
    wait_until(lambda: machine.show(UNITS[1], "MainPID") not in (counting.keeper, "0"),
               "there is a new keeper", 60)
    wait_until(server.ready, machine.journal, 60)
    assert server.create("t") == session, "its files are kept"
    check_removed(machine, server, session)
