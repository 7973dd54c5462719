# SPDX-License-Identifier: Apache-2.0
"""Rows beside Docker: its Engine's API, a server in front of it as the seeds describe theirs, and
llm-sandbox. The engine is one of our own, on folders of its own."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import host
import place
from client import Client, Threadbox, form
from groups import density
from series import in_turns

PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"
PACKAGES = ["fastapi", "uvicorn", "docker", "python-multipart", "llm-sandbox[docker]"]
CONTAINERS, SESSIONS = 5, 50
# Of those that sleep: fifty are not much more than what the kernel takes and gives meanwhile.
SLEEPERS = 500
# What the seeds' servers keep ready, and so many threads that come one after the other and stay:
# theirs fills up again after a minute.
SEED_POOL = {"POOL_SIZE": "10", "MIN_POOL_SIZE": "3", "POOL_REFILL_DELAY_SECONDS": "60"}
STAYING = 30
# Before each creation: neither should pay for what the other left to be done.
REST = 0.005


@contextlib.contextmanager
def engine():
    if not shutil.which("dockerd"):
        raise place.Missing("Docker: apt-get install docker.io")
    try:
        from engine import Engine  # of tests/lib, which wants pytest
    except ImportError as error:
        raise place.Missing(f"{error}: apt-get install python3-pytest") from error
    made = Engine()
    try:
        try:
            made.start().load()
        except (OSError, AssertionError) as error:
            raise place.Missing(f"dockerd can't run here: {error}") from error
        yield made
    finally:
        made.remove()


class Docker:
    """The few calls that the rows need."""

    def __init__(self, engine, image):
        self.engine, self.image = engine, image
        self.client = Client(engine.socket)

    def create(self):
        body = {"Image": self.image, "Cmd": ["sleep", "3600"],
                "HostConfig": {"NetworkMode": "none", "Memory": 256 << 20}}
        name = self.client.post("/containers/create", body)["Id"]
        self.client.request("POST", f"/containers/{name}/start", b"{}")
        return name

    def execute(self, name):
        body = {"Cmd": ["bash", "-c", "true"], "AttachStdout": True, "AttachStderr": True}
        made = self.client.post(f"/containers/{name}/exec", body)["Id"]
        self.client.request("POST", f"/exec/{made}/start", b'{"Detach":false,"Tty":false}')
        code = self.client.get(f"/exec/{made}/json")["ExitCode"]
        if code != 0:
            raise AssertionError(f"docker exec ended with {code}")

    def remove(self, name):
        self.client.request("DELETE", f"/containers/{name}?force=1&v=1")

    def pids(self):
        """The engine, its shims and what runs in its containers."""
        ours = [pid for pid in place.lib.all_pids()
                if self.engine.dir in " ".join(place.lib.argv_of(pid))]
        whole = set(ours)
        for pid in ours:
            whole.update(host.descendants(pid))
        return whole

    def used_kib(self):
        return host.kernel_kib() + host.pss_kib(self.pids())


def engine_rows(measured, options, docker):
    rounds = options.peer_rounds
    settings = {"POOL_SIZE": str(2 * rounds + 10), "POOL_REFILL_DELAY_SECONDS": "3600",
                "MIN_POOL_SIZE": "0"}
    with place.connected(**settings) as (_, client):
        session, container = client.create(), docker.create()
        in_turns(measured, rounds, [
            ("exec, beside Docker", lambda: client.execute(session)),
            ("Docker exec", lambda: docker.execute(container))])
        ours, theirs = [session], [container]
        in_turns(measured, rounds, [
            ("create, beside Docker", lambda: ours.append(client.create())),
            ("Docker create", lambda: theirs.append(docker.create()))])
        for one in theirs:
            docker.remove(one)
        for one in ours:
            client.cleanup(one)


class Beside:
    """Batches of idle sessions of a server, beside those of containers."""

    def __init__(self, server, client):
        self.server, self.client = server, client
        self.keeper = server.keeper_pid()
        self.sessions = [client.create()]

    def used_kib(self):
        return host.kernel_kib() + host.pss_kib(
            [self.server.process.pid, self.keeper, *host.descendants(self.keeper)])

    def add(self, count=SESSIONS):
        self.sessions += [self.client.create() for _ in range(count)]

    def add_and_sleep(self):
        self.add(SLEEPERS)
        density.wait_for_sleep(self.client, len(self.sessions))

    def close(self):
        for one in self.sessions:
            self.client.cleanup(one)


def memory_rows(measured, options, docker):
    settings = {"POOL_SIZE": "0", "MIN_POOL_SIZE": "0"}
    with place.connected(**settings, **density.Awake.SETTINGS) as one, \
            place.connected(**settings, **density.Asleep.SETTINGS) as other:
        awake, asleep, containers = Beside(*one), Beside(*other), [docker.create()]
        density.wait_for_sleep(asleep.client, 1)

        def more_containers():
            containers.extend(docker.create() for _ in range(CONTAINERS))
        for _ in range(options.turns):
            for name, used, more, count in (
                    ("memory awake, beside Docker", awake.used_kib, awake.add, SESSIONS),
                    ("memory, beside Docker", asleep.used_kib, asleep.add_and_sleep, SLEEPERS),
                    ("Docker memory", docker.used_kib, more_containers, CONTAINERS)):
                batches = host.Batches(used)
                more()
                measured.add(name, batches.done(count), "KiB")
        for one in containers:
            docker.remove(one)
        awake.close()
        asleep.close()


@contextlib.contextmanager
def fastapi(python, engine, image, pool):
    """The port of bench/peers/fastapi_server.py, once its containers are ready."""
    env = {**os.environ, "DOCKER_HOST": f"unix://{engine.socket}", "CONTAINER_IMAGE": image,
           "POOL_SIZE": str(pool)}
    running = subprocess.Popen([python, PEERS / "fastapi_server.py"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        line = running.stdout.readline()
        if not line:
            raise place.Missing("the FastAPI server did not start")
        port = int(line)
        place.lib.wait_until(lambda: ready(port, pool), "the FastAPI server is ready", 120)
        yield port
    finally:
        running.terminate()
        running.wait(60)


def ready(port, pool):
    client = Threadbox(port)
    with contextlib.suppress(OSError):
        return client.get("/health")["pool_available"] >= pool
    return False


@contextlib.contextmanager
def fixed_answer():
    """The port of bench/peers/fixed_answer.cpp: who does nothing for a request."""
    made = place.ROOT / "build" / "bench" / "fixed_answer"
    made.parent.mkdir(parents=True, exist_ok=True)
    source = PEERS / "fixed_answer.cpp"
    built = subprocess.run(["c++", "-O2", "-o", made, source], capture_output=True, text=True,
                           check=False)
    if built.returncode != 0:
        raise place.Missing(f"a compiler: {built.stderr[-200:]}")
    running = subprocess.Popen([made], text=True, stdout=subprocess.PIPE)
    try:
        yield int(running.stdout.readline())
    finally:
        running.kill()
        running.wait()


def seed_rows(measured, options, engine, image):
    """The seeds' five operations, the same requests to both."""
    megabyte = os.urandom(1 << 20)
    python = place.environment(PACKAGES)
    rounds = options.peer_rounds
    settings = {"POOL_SIZE": str(2 * rounds + 10), "MIN_POOL_SIZE": "0",
                "POOL_REFILL_DELAY_SECONDS": "3600"}
    with fastapi(python, engine, image, 10) as port, place.connected(**settings) as (_, client):
        sides = [("{}, beside FastAPI", client), ("FastAPI {}", Threadbox(port))]
        works = {name: [] for name in ("execute", "upload", "download", "list")}
        for title, side in sides:
            session = side.create(user_id="bench", thread_id="files")
            body, content = form(session, "one.bin", megabyte)
            side.upload(body, content, len(megabyte))
            for name, work in {
                    "execute": lambda s=side, i=session: s.execute(i),
                    "upload": lambda s=side, b=body, c=content: s.upload(b, c, len(megabyte)),
                    "download": lambda s=side, i=session: s.download(i, "one.bin", len(megabyte)),
                    "list": lambda s=side, i=session: s.list_files(i, 1)}.items():
                works[name].append((title.format(name), work))
        for each in works.values():
            in_turns(measured, rounds, each)
        with fixed_answer() as bound:
            create_rows(measured, rounds, "create",
                        [*sides, ("{} by nobody, beside FastAPI", Threadbox(bound))])
    rounds = max(rounds // 3, 1)
    with fastapi(python, engine, image, 0) as port, place.connected(**settings) as (_, client):
        sides = [("{}, beside FastAPI", client), ("FastAPI {}", Threadbox(port))]
        create_rows(measured, rounds, "create without a pool", sides)
    with fastapi(python, engine, image, 10) as port, place.connected(**SEED_POOL) as (_, client):
        sides = [("{}, beside FastAPI", client), ("FastAPI {}", Threadbox(port))]
        create_rows(measured, STAYING, "create, threads that stay", sides, stay=True)


def create_rows(measured, rounds, name, sides, stay=False):
    made = []
    for number in range(rounds):
        for title, side in sides:
            fields = {"user_id": "bench", "thread_id": f"t{number}"}
            time.sleep(REST)
            session = measured.timed(title.format(name), lambda s=side, f=fields: s.create(**f))
            made.append((side, session))
            if not stay:
                side.cleanup(session)
    if stay:
        for side, session in made:
            side.cleanup(session)


def llm_sandbox_rows(measured, options, engine, image):
    """A program that does one thing for each line that it is sent, and answers with a line."""
    python = place.environment(PACKAGES)
    env = {**os.environ, "DOCKER_HOST": f"unix://{engine.socket}", "CONTAINER_IMAGE": image}
    running = subprocess.Popen([python, PEERS / "llm_sandbox_peer.py"], env=env, text=True,
                               bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)

    def ask(word):
        running.stdin.write(word + "\n")
        if running.stdout.readline() != "done\n":
            running.kill()
            raise place.Missing(f"llm-sandbox: {running.stderr.read()[-300:]}")
    try:
        ask("open")
        with place.connected(POOL_SIZE="10") as (_, client):
            session = client.create()
            in_turns(measured, options.peer_rounds, [
                ("exec, beside llm-sandbox", lambda: client.execute(session)),
                ("llm-sandbox exec", lambda: ask("exec"))])
            in_turns(measured, max(options.peer_rounds // 5, 1), [
                ("run, beside llm-sandbox", lambda: client.once()),
                ("llm-sandbox run", lambda: ask("run"))], warmup=1)
        ask("close")
    finally:
        running.stdin.close()
        running.wait(60)


def run(measured, options):
    with engine() as made:
        from engine import IMAGE
        docker = Docker(made, IMAGE)
        engine_rows(measured, options, docker)
        memory_rows(measured, options, docker)
        for what, rows in (("FastAPI + Docker server", seed_rows),
                           ("llm-sandbox", llm_sandbox_rows)):
            try:
                rows(measured, options, made, IMAGE)
            except (place.Missing, OSError, AssertionError) as error:
                measured.skip(what, error)
