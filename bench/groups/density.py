# SPDX-License-Identifier: Apache-2.0
"""Many sessions at once: what each takes of the machine's memory, and whether all of them answer as
fast as few do. A session that nobody uses is put to sleep: it keeps its files, not its sandbox
(docs/decisions/0050-sessions-that-sleep.md). Idle ones are measured when they sleep; those that are
awake have figures of their own."""
import concurrent.futures
import contextlib
import itertools
import time

import host
import place
from client import Threadbox

FEW, AWAKE, BATCHES, SUBSET, MAKERS = 10, 500, 5, 200, 4


def settle(seconds=1):
    """The kernel frees some things only a moment later."""
    time.sleep(seconds)


def asleep(client):
    for line in client.request("GET", "/metrics").decode().splitlines():
        if line.startswith("threadbox_sessions_asleep "):
            return int(float(line.split()[1]))
    raise AssertionError("no threadbox_sessions_asleep among the metrics")


def wait_for_sleep(client, count):
    """Until so many sleep, and what they had is freed. The server puts away one after the other."""
    def all_sleep():
        time.sleep(0.2)  # who asks more often takes the processor from those who put away
        return asleep(client) >= count
    place.lib.wait_until(all_sleep, lambda: f"{count} sessions sleep, {asleep(client)} do",
                         60 + count / 5)
    settle(3)


def made(port, count):
    """That many sessions, by a few clients at once."""
    def work(number):
        client = Threadbox(port)
        try:
            return [client.create() for _ in range(number)]
        finally:
            client.close()
    parts = [count // MAKERS + (i < count % MAKERS) for i in range(MAKERS)]
    with concurrent.futures.ThreadPoolExecutor(MAKERS) as pool:
        return list(itertools.chain(*pool.map(work, parts)))


def closed(port, sessions):
    def work(part):
        client = Threadbox(port)
        for session in part:
            client.cleanup(session)
        client.close()
    with concurrent.futures.ThreadPoolExecutor(MAKERS) as pool:
        list(pool.map(work, [sessions[i::MAKERS] for i in range(MAKERS)]))


class Sessions:
    """Those of one server; all of their memory is found at it, its keeper, or the kernel."""

    def __init__(self, measured, options, server, client):
        self.measured, self.options = measured, options
        self.server, self.client = server, client
        self.keeper = server.keeper_pid()
        self.few = made(server.port, FEW)
        self.many = []

    def own_kib(self):
        return host.pss_kib([self.server.process.pid, self.keeper])

    def boxes_kib(self):
        """PID 1 of each sandbox, and what it has started."""
        return host.pss_kib(host.descendants(self.keeper))

    def used_kib(self):
        return host.kernel_kib() + self.own_kib() + self.boxes_kib()

    def charged_kib(self):
        """What the memory cgroups of the sandboxes say, of processes and of the kernel."""
        return sum(int(host.read(f"{top}/{name}") or 0) for top in self.server.cgroups()
                   for name in ("memory.usage_in_bytes", "memory.current")) / 1024

    def everything(self):
        return len(self.few) + len(self.many)

    def grow(self, name, wanted, ready):
        """That many more which have done nothing yet, batch by batch, each measured once `ready`
        has seen it; `name` is what their figures are called."""
        ready()
        parts = {name: host.Batches(self.used_kib),
                 f"{name}, server": host.Batches(self.own_kib),
                 f"{name}, PID 1": host.Batches(self.boxes_kib),
                 f"{name}, kernel": host.Batches(host.kernel_kib),
                 f"{name}, cgroup": host.Batches(self.charged_kib)}
        before = host.kernel_parts()
        for batch in range(BATCHES):
            count = wanted // BATCHES + (batch < wanted % BATCHES)
            if count == 0:
                continue
            self.many += made(self.server.port, count)
            ready()
            for part, memory in parts.items():
                self.measured.add(part, memory.done(count), "KiB")
            self.measured.say(f"{name}: {self.everything()} are there")
        after = host.kernel_parts()
        each = {part: (kib - before.get(part, 0)) / wanted for part, kib in after.items()}
        self.measured.details[f"{name}, the kernel's part in KiB"] = {
            part: round(each[part], 1) for part in sorted(each, key=each.get, reverse=True)[:20]
            if each[part] >= 1}

    def close(self, sessions):
        closed(self.server.port, sessions)


class Awake(Sessions):
    """Of a server that puts nobody away."""
    SETTINGS = {"PRESTART_SECONDS": "10", "SLEEP_SECONDS": "0"}

    def measure(self, wanted):
        self.grow("awake session", wanted, settle)

    def use(self):
        """What a command leaves behind: for a while its successor's shell, then whatever stays."""
        some = self.many[:SUBSET]
        before = self.used_kib()
        for session in some:
            self.client.execute(session)
        settle()
        waiting = (self.used_kib() - before) / len(some)
        place.lib.wait_until(lambda: not self.shells(), "the shells ahead are gone",
                             int(self.SETTINGS["PRESTART_SECONDS"]) + 60)
        settle()
        stays = (self.used_kib() - before) / len(some)
        fresh = self.measured.series["awake session"].value("p50")
        self.measured.add("waiting shell", waiting - stays, "KiB")
        self.measured.add("awake session, used", fresh + stays, "KiB")

    def shells(self):
        return sum(len(host.children(pid)) for pid in host.children(self.keeper))


class Asleep(Sessions):
    """Of a server that puts away who is not used: sooner than it would unless told, so that the
    run waits for seconds. The shells' time is the shorter one, as it is there."""
    SETTINGS = {"PRESTART_SECONDS": "3", "SLEEP_SECONDS": "8"}

    def all_sleep(self):
        wait_for_sleep(self.client, self.everything())

    def measure(self, wanted):
        self.grow("idle session", wanted, self.all_sleep)

    def wake_all(self):
        """One command in each: it waits until its sandbox is made again."""
        before = self.used_kib()
        answered = 0
        for session in self.few + self.many:
            self.measured.timed("exec in each session", lambda s=session: self.client.execute(s))
            answered += 1
        self.measured.add("live sessions", answered, "sessions")
        self.all_sleep()
        fresh = self.measured.series["idle session"].value("p50")
        stays = (self.used_kib() - before) / answered
        self.measured.add("idle session, used", fresh + stays, "KiB")

    def ask_few(self, name):
        for session in self.few:
            self.client.execute(session)
        for round_ in range(self.options.rounds):
            session = self.few[round_ % FEW]
            self.measured.timed(name, lambda s=session: self.client.execute(s))


@contextlib.contextmanager
def sessions_of(kind, measured, options, count):
    settings = {"POOL_SIZE": "0", "MIN_POOL_SIZE": "0", "MAX_POOL_SIZE": str(count + FEW),
                **kind.SETTINGS}
    with place.connected(**settings) as (server, client):
        yield kind(measured, options, server, client)


def memory(measured, options):
    """Only that."""
    for kind in (Awake, Asleep):
        with sessions_of(kind, measured, options, options.sessions) as sessions:
            sessions.measure(options.sessions)
            sessions.close(sessions.few + sessions.many)


def run_awake(measured, options):
    count = min(AWAKE, options.sessions)
    with sessions_of(Awake, measured, options, count) as sessions:
        sessions.measure(count)
        sessions.use()
        sessions.close(sessions.few + sessions.many)


def run_asleep(measured, options):
    with sessions_of(Asleep, measured, options, options.sessions) as sessions:
        sessions.ask_few("exec among ten")
        sessions.measure(options.sessions - FEW)
        sessions.wake_all()
        sessions.ask_few("exec among many")
        sessions.close(sessions.many)
        # Again with few: a machine that got slower meanwhile is not taken for growth.
        sessions.ask_few("exec among ten")
        sessions.close(sessions.few)


def run(measured, options):
    run_awake(measured, options)
    run_asleep(measured, options)
