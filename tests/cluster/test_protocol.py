# SPDX-License-Identifier: Apache-2.0
"""The protocol of docs/cluster.md as a model: the real scripts in a real Redis, and workers that
live in made-up time, which are stopped, cut off and restarted at random moments, while Redis dies,
is emptied and comes back. No thread may ever have two sandboxes that can run."""
import pathlib
import random
import re
import shutil
import socket

import pytest

from redis_server import Redis, encode, need_redis, read_reply

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEASE, STEP = 1000, 25  # ms
BEAT, SERVE, FREEZE, END, SILENCE = (LEASE * part // 100 for part in (20, 75, 80, 90, 110))
OUTAGE = 8 * LEASE
KEYS = {name: "{tb}:" + name for name in ("workers", "members", "run", "next")}


def scripts():
    text = (ROOT / "src/cluster/scripts.cpp").read_text()
    begin = r'Script& (\w+)\(\) \{\n  static const redis::Script script\{R"\('
    return dict(re.findall(begin + r'(.*?)\)"', text, re.S))


class World:
    def __init__(self, redis, seed):
        self.random, self.now = random.Random(seed), 0
        self.wire = socket.create_connection(("127.0.0.1", redis.port))
        self.stream = self.wire.makefile("rb")
        self.lua = {name: self.call("SCRIPT", "LOAD", text) for name, text in scripts().items()}
        self.call("FLUSHDB")
        self.down, self.run = False, "run1"
        self.counts = {"claims": 0, "reaped": 0, "restored": 0, "moved": 0, "wiped": 0, "used": 0}

    def call(self, *words):
        self.wire.sendall(encode(*words))
        return read_reply(self.stream)

    def eval(self, name, keys, *arguments):
        return self.call("EVALSHA", self.lua[name], len(keys), *keys, *arguments)


class Cut(Exception):
    """Redis can't be reached."""


class Worker:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.life, self.claims, self.sandboxes = 0, {}, set()
        self.cut_until = self.stopped_until = self.next_beat = 0
        self.freeze_at = self.end_at = 0
        self.pending = []  # (when, what): replies that are looked at late
        self.restart()

    def restart(self):
        """The server anew: it knows what is on disk. Its keeper went on."""
        self.registered = self.restored = False
        self.resuming = self.life > 0
        if not self.resuming:
            self.begin_life()
        self.joined = self.view = self.renewed = self.served_until = self.rebuilding_since = 0
        self.restored_as = self.open_run = self.rebuilding = ""
        self.watched, self.peers, self.run = {}, [], ""
        self.pending.clear()

    def begin_life(self):
        self.life += 1
        self.epoch, self.resuming, self.registered = f"{self.name}-e{self.life}", False, False

    def eval(self, name, keys, *arguments):
        if self.world.down or self.world.now < self.cut_until:
            raise Cut()
        if self.run != self.world.run:
            self.run = self.world.run
        keys = [KEYS.get(key, f"{{tb}}:t:{key}") for key in keys]
        return self.world.eval(name, keys, *arguments)

    def later(self, what):
        """Right away, or when it goes on after it was stopped in between."""
        if self.world.random.random() < 0.9:
            return what()
        self.stopped_until = self.world.now + self.world.random.randrange(3 * LEASE)
        self.pending.append(what)

    # ---- what src/cluster does ----

    def beat(self):
        try:
            if not self.registered and not self.enlist():
                return
            sent = self.world.now
            reply = self.eval("renew", ["workers", "members", "run"], self.name, self.epoch,
                              self.view, "http://x 1 1 v")
            self.later(lambda: self.renewed_by(reply, sent))
        except Cut:
            self.ask_peers()

    def enlist(self):
        reply = self.eval("enlist", ["workers", "members"], self.name, self.epoch,
                          "http://x 1 1 v", "resume" if self.resuming else "new")
        if reply[0] == "over":
            self.begin_life()
            return self.enlist()
        if reply[0] == "taken":
            self.watch({self.name: reply[1]})
            return False
        self.registered, self.joined, self.view = True, int(reply[1]), 0
        self.watched.clear()
        return True

    def renewed_by(self, reply, sent):
        if reply[0] != "renewed":
            self.restored = self.restored and sent < self.served_until
            self.begin_life()
            return
        if not self.restored_as.startswith(self.run) and sent >= self.served_until:
            self.restored = False
        self.renewed, self.view = sent, int(reply[1])
        records = dict(zip(reply[3::2], reply[4::2]))
        records.pop(self.name, None)
        self.peers = list(records)
        if self.restored:
            self.extend(sent)
        before = self.restored
        try:
            self.mind_run(reply[2])
            if self.restored and not before:
                self.extend(sent)
            self.watch(records)
        except Cut:
            pass

    def extend(self, start):
        self.served_until = start + SERVE
        self.freeze_at, self.end_at = start + FREEZE, start + END

    def mind_run(self, state):
        run = self.run
        if state != run + " open":
            self.open_run = ""
            self.eval("begin", ["run"], run)
            if self.rebuilding != run:
                self.rebuilding, self.rebuilding_since = run, self.world.now
        if self.restored_as != f"{run} {self.epoch}" and (
                self.restored or state == run + " open"):
            for thread, (session, number) in list(self.claims.items()):
                reply = self.eval("restore", [thread, "workers", "s " + session], self.name,
                                  self.epoch, number, session, 10**9,
                                  "owner" if self.restored else "heir")
                if reply[0] == "lost":
                    raise Cut()
                self.world.counts["restored"] += 1
                if reply[0] == "other":
                    self.world.counts["moved"] += 1
                    self.claims.pop(thread)
                    self.sandboxes.discard(thread)
            self.restored_as, self.restored = f"{run} {self.epoch}", True
        if state == run + " open":
            self.open_run, self.rebuilding = run, ""
        elif self.rebuilding == run and self.world.now - self.rebuilding_since >= SILENCE:
            self.eval("open", ["run"], run)

    def watch(self, records):
        for name in set(self.watched) - set(records):
            self.watched.pop(name)
        for name, record in records.items():
            if self.watched.get(name, ("",))[0] != record:
                self.watched[name] = (record, self.world.now)
                continue
            view = int(record.split()[3])
            known = name == self.name or (self.joined and self.joined <= view)
            if self.world.now - self.watched[name][1] >= (SILENCE if known else OUTAGE * 11 // 10):
                reply = self.eval("reap", ["workers"], name, record)
                self.world.counts["reaped"] += reply[0] == "reaped"
                self.watched.pop(name)

    def confirm_connected(self):
        if not self.world.down and self.world.now >= self.cut_until and self.registered:
            return True
        self.watched.clear()
        self.rebuilding = ""
        return False

    def ask_peers(self):
        now = self.world.now
        if not self.renewed or not self.restored or now >= self.served_until:
            return
        if now + LEASE >= self.renewed + OUTAGE:
            return
        for name in self.peers:
            peer = self.world.workers[name]
            if now < peer.stopped_until or peer.confirm_connected():
                return
        self.later(lambda: self.extend(now))

    def get_or_create(self, thread):
        if not self.restored or self.world.now >= self.served_until:
            return
        if thread in self.claims:
            self.use(thread)
            return
        if self.open_run != self.run:
            return
        session = f"{self.name}-{self.world.now}-{thread}"
        try:
            reply = self.eval("claim", [thread, "workers", "run", "next", "s " + session],
                              self.name, self.epoch, self.run, session, 10**9)
        except Cut:
            return

        def claimed():
            if reply[0] == "claimed" and self.restored and self.world.now < self.served_until:
                self.world.counts["claims"] += 1
                self.claims[thread] = (session, int(reply[1]))
                self.use(thread)
        self.later(claimed)

    def use(self, thread):
        """The keeper makes none after the freezing, however late it is asked."""
        if self.world.now < self.freeze_at:
            self.sandboxes.add(thread)
            self.world.counts["used"] += 1

    def release(self, thread):
        if thread not in self.claims or self.world.now >= self.served_until:
            return
        self.sandboxes.discard(thread)
        session, _ = self.claims.pop(thread)
        try:
            self.eval("release", [thread, "s " + session], self.name, session)
        except Cut:
            pass  # told later, by the real one

    def step(self):
        if self.world.now >= self.end_at:
            self.sandboxes.clear()  # the keeper, which nobody stops
        if self.world.now < self.stopped_until:
            return
        for what in self.pending[:]:
            self.pending.remove(what)
            what()
        if self.world.now >= self.next_beat:
            self.next_beat = self.world.now + BEAT
            self.beat()

    def running(self):
        return self.sandboxes if self.world.now < self.freeze_at else set()


def misfortune(world, worker):
    chance = world.random.random()
    if chance < 0.004:
        worker.stopped_until = world.now + world.random.randrange(4 * LEASE)
    elif chance < 0.008:
        worker.cut_until = world.now + world.random.randrange(4 * LEASE)
    elif chance < 0.010:
        worker.restart()


def trouble_redis(world):
    chance = world.random.random()
    if world.down:
        world.down = chance > 0.03
    elif chance < 0.002:
        world.down, world.run = True, f"run{world.now}"
        if world.random.random() < 0.5:
            world.counts["wiped"] += 1
            world.call("FLUSHDB")


def simulate(redis, seed, steps):
    world = World(redis, seed)
    world.workers = {name: Worker(world, name) for name in ("w1", "w2", "w3")}
    threads = [f"t{index}" for index in range(6)]
    for _ in range(steps):
        world.now += STEP
        trouble_redis(world)
        for worker in world.workers.values():
            misfortune(world, worker)
            worker.step()
            if world.now >= worker.stopped_until and world.random.random() < 0.3:
                thread = world.random.choice(threads)
                (worker.release if world.random.random() < 0.1 else worker.get_or_create)(thread)
        for thread in threads:
            owners = [w.name for w in world.workers.values() if thread in w.running()]
            assert len(owners) <= 1, f"seed {seed}, {world.now} ms: {thread} runs on {owners}"
    return world.counts


def test_no_thread_ever_has_two_sandboxes(request):
    if not shutil.which("redis-server"):
        pytest.skip("there is no redis-server")
    seeds, steps = (200, 4000) if request.config.getoption("--long") else (5, 1500)
    redis = Redis(keep=False).start()
    total = {}
    try:
        for seed in range(seeds):
            for name, count in simulate(redis, seed, steps).items():
                total[name] = total.get(name, 0) + count
    finally:
        redis.close()
    print(total)
    assert all(total.values()), "each of these must have happened"


def test_the_hint_of_a_session_is_its_owners():
    """Whatever one that had it before thinks: requests go where the hint leads."""
    need_redis()
    redis = Redis(keep=False).start()
    try:
        world = World(redis, 0)
        for name in ("w1", "w2"):
            world.eval("enlist", ["workers", "members"], name, f"life-{name}", "url 9 0 1", "new")
        world.call("SET", "run", "run1 open")
        thread, session, ever = "t", "s x", 10**9
        made = world.eval("claim", [thread, "workers", "run", "next", session], "w1", "life-w1",
                          "run1", "x", ever)
        assert made[0] == "claimed" and world.call("GET", session) == "w1"
        refused = world.eval("claim", [thread, "workers", "run", "next", "s y"], "w2", "life-w2",
                             "run1", "y", ever)
        assert refused[0] == "other" and world.call("GET", "s y") is None
        moved = world.eval("hand_over", [thread, session, "workers", "next"], "w2", "life-w2",
                           "w1", "life-w1", "x", ever, "thread")
        assert moved[0] == "moved" and world.call("GET", session) == "w2"
        for how in ("owner", "heir"):
            restored = world.eval("restore", [thread, "workers", session], "w1", "life-w1",
                                  made[1], "x", ever, how)
            assert restored == ["other", "w2"] and world.call("GET", session) == "w2"
        assert world.eval("release", [thread, session], "w1", "x") == ["kept"]
        assert world.call("GET", session) == "w2" and world.call("GET", thread)
        restored = world.eval("restore", [thread, "workers", session], "w2", "life-w2", moved[1],
                              "x", ever, "owner")
        assert restored == ["restored"]
        assert world.eval("release", [thread, session], "w2", "x") == ["released"]
        assert world.call("GET", session) is None and world.call("GET", thread) is None
    finally:
        redis.close()
