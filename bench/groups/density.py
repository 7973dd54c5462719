# SPDX-License-Identifier: Apache-2.0
"""Many sessions at once: what each takes of the machine's memory, and whether all of them answer as
fast as few do."""
import concurrent.futures
import itertools
import time

import host
import place
from client import Threadbox

FEW, BATCHES, SUBSET, MAKERS = 10, 5, 200, 4
SHELL_SECONDS = 10


def settle():
    """The kernel frees some things only a moment later."""
    time.sleep(1)


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


class Density:
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

    def grow(self):
        """Sessions that have done nothing yet, batch by batch."""
        settle()
        parts = {"idle session": host.Batches(self.used_kib),
                 "idle session, server": host.Batches(self.own_kib),
                 "idle session, PID 1": host.Batches(self.boxes_kib),
                 "idle session, kernel": host.Batches(host.kernel_kib),
                 "idle session, cgroup": host.Batches(self.charged_kib)}
        wanted = self.options.sessions - FEW
        for batch in range(BATCHES):
            count = wanted // BATCHES + (batch < wanted % BATCHES)
            if count == 0:
                continue
            self.many += made(self.server.port, count)
            settle()
            for name, part in parts.items():
                self.measured.add(name, part.done(count), "KiB")
            self.measured.say(f"{len(self.many) + FEW} sessions live")

    def use(self):
        """What a command leaves behind: for a while its successor's shell, then whatever stays."""
        some = self.many[:SUBSET]
        before = self.used_kib()
        for session in some:
            self.client.execute(session)
        settle()
        waiting = (self.used_kib() - before) / len(some)
        place.lib.wait_until(lambda: not self.shells(), "the shells ahead are gone",
                             SHELL_SECONDS + 60)
        settle()
        stays = (self.used_kib() - before) / len(some)
        idle = self.measured.series["idle session"].value("p50")
        self.measured.add("waiting shell", waiting - stays, "KiB")
        self.measured.add("idle session, used", idle + stays, "KiB")

    def shells(self):
        return sum(len(host.children(pid)) for pid in host.children(self.keeper))

    def ask_all(self):
        answered = 0
        for session in self.few + self.many:
            self.measured.timed("exec in each session", lambda s=session: self.client.execute(s))
            answered += 1
        self.measured.add("live sessions", answered, "sessions")

    def ask_few(self, name):
        for session in self.few:
            self.client.execute(session)
        for round_ in range(self.options.rounds):
            session = self.few[round_ % FEW]
            self.measured.timed(name, lambda s=session: self.client.execute(s))


def run(measured, options):
    settings = {"POOL_SIZE": "0", "MIN_POOL_SIZE": "0", "PRESTART_SECONDS": str(SHELL_SECONDS),
                "MAX_POOL_SIZE": str(options.sessions + FEW)}
    with place.connected(**settings) as (server, client):
        density = Density(measured, options, server, client)
        density.ask_few("exec among ten")
        density.grow()
        density.use()
        density.ask_all()
        density.ask_few("exec among many")
        closed(server.port, density.many)
        # Again with few: a machine that got slower meanwhile is not taken for growth.
        density.ask_few("exec among ten")
        closed(server.port, density.few)
