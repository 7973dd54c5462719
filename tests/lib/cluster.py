# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes: Redis, workers, coordinators; and a count of live sandboxes."""
import collections
import contextlib
import copy
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import server as lib
from keys import make_key
from redis_server import Redis
from server import Server, read_text, wait_until

LEASE = 2.0  # seconds


class Coordinator(Server):
    """The same requests as a server; no sandboxes of its own."""

    def start(self, seconds=None):
        with open(self.log_path, "ab") as log:
            self.process = self.spawn("coordinator", stdout=subprocess.PIPE, stderr=log)
        self.lines = self.read_lines(1, lib.PATIENCE * 2 if seconds is None else seconds)
        assert len(self.lines) == 1, f"did not start: {self.lines} {self.log()[-2000:]}"
        self.port = int(re.search(r"http://[^ ]*:(\d+)", self.lines[0])[1])
        return self

    def close(self):
        self.remove()

    def remove(self):
        if self.process and self.process.poll() is None:
            self.kill9()
        with contextlib.suppress(OSError):
            os.rmdir(self.state_dir)
        self.log_path.unlink(missing_ok=True)


class Cluster:
    """`more` are settings of all its programs."""

    def __init__(self, keep=True, redis=None, started=False, **more):
        self.redis = redis or Redis(keep=keep)
        if not started:
            self.redis.start()
        self.workers, self.coordinators, self.more = [], [], more

    def settings(self, **more):
        return {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": self.redis.port,
                "CLUSTER_LEASE_MS": int(LEASE * 1000), "CLUSTER_SECRET": "a secret of this cluster",
                "POOL_SIZE": 0, "MIN_POOL_SIZE": 0, **self.more, **more}

    def worker(self, kind=Server, before=None, **more):
        """`before` is told of it before it is started."""
        name = f"w{len(self.workers) + 1}"
        self.workers.append(kind(**self.settings(WORKER_ID=name, **more)))
        if before:
            before(self.workers[-1])
        return self.workers[-1].start()

    def coordinator(self, **more):
        self.coordinators.append(Coordinator(**self.settings(**more)))
        return self.coordinators[-1].start()

    def start(self, workers=2, coordinators=1):
        for _ in range(workers):
            self.worker()
        for _ in range(coordinators):
            self.coordinator()
        self.wait_open()
        return self

    def wait_open(self):
        """Sessions can be made."""
        front = self.coordinators[0]

        def made():
            reply = front.post("/create_session", {})
            if reply.status == 200:
                front.cleanup(reply.json["session_id"])
            return reply.status == 200
        wait_until(made, "a session can be made", 10 * LEASE)

        def all_take():
            rows = front.get("/cluster/workers").json["workers"]
            return sum(row["capacity"] > 0 for row in rows) == len(self.workers)
        wait_until(all_take, "the coordinator sees that all workers take sessions", 4 * LEASE)

    def worker_of(self, session):
        for worker in self.workers:
            if worker.process.poll() is None and worker.exists(session):
                return worker
        return None

    # ---- how many live sandboxes a thread has ----

    def live(self):
        """Threads to their sandboxes in which something can run: (worker, session)."""
        cgroups = {}
        for pid in lib.all_pids():
            found = re.search(r"/threadbox/([0-9a-f]{12})/([0-9a-f-]{36})",
                              read_text(f"/proc/{pid}/cgroup"))
            if found:
                cgroups.setdefault(found.groups(), []).append(pid)
        threads = collections.defaultdict(set)
        for worker in self.workers:
            tag = lib.tag_of(worker.state_dir)
            for (owner, session), pids in cgroups.items():
                # Any of them: most come and go.
                if owner != tag or not any(map(lib.alive, pids)) or self.frozen(tag, session):
                    continue
                record = read_text(f"{worker.state_dir}/sandboxes/{session}")
                thread = re.search(r'"thread":"([^"]+)"', record)
                if thread:
                    threads[thread[1]].add((worker.settings["WORKER_ID"], session))
        return threads

    @staticmethod
    def frozen(tag, session):
        for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            place = pathlib.Path(f"{top}/threadbox/{tag}/{session}/cgroup.events")
            if "frozen 1" in read_text(place):
                return True
        return False

    @contextlib.contextmanager
    def watched(self):
        """Counts all the time; yields what was seen, and says so at the end."""
        seen = {"samples": 0, "most": 0, "doubles": []}
        stop = threading.Event()

        def watch():
            while not stop.is_set():
                for thread, places in self.live().items():
                    # Seen twice: a session may have ended between two looks of one count.
                    if len(places) > 1 and len(self.live()[thread]) > 1:
                        seen["doubles"].append((thread, sorted(places)))
                    seen["most"] = max(seen["most"], len(places))
                seen["samples"] += 1
                time.sleep(0.02)
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield seen
        finally:
            stop.set()
            thread.join()
            print(f"live sandboxes of a thread: at most {seen['most']} in {seen['samples']} counts,"
                  f" {len(seen['doubles'])} times more than one")

    def close(self):
        try:
            for worker in self.workers:
                worker.close()
        finally:
            for one in [*self.workers, *self.coordinators]:
                one.remove()
            self.redis.close()


class Guarded(Cluster):
    """Its workers ask for keys, the same ones: they share the directory that these are in. `keys`
    are of tenants and others, by names; the default tenant's is ""."""

    def __init__(self, **more):
        super().__init__(**more)
        self.auth = tempfile.mkdtemp(prefix="tb-auth-", dir=lib.PLACE)
        os.chmod(self.auth, 0o755)
        self.keys = {}

    def worker(self, kind=Server, before=None, **more):
        def share(server):
            os.symlink(self.auth, f"{server.state_dir}/auth")
            if not self.keys:
                self.make_keys(server)
            server.key = self.keys[""]
            if before:
                before(server)
        return super().worker(kind, share, **more)

    def make_keys(self, server):
        self.keys = {"": make_key(server, role="admin"), "mine": make_key(server, tenant="mine"),
                     "theirs": make_key(server, tenant="theirs"),
                     "another of mine": make_key(server, tenant="mine"),
                     "reader": make_key(server, tenant="mine", role="readonly")}

    def add_key(self, who, **options):
        """Returns when all workers have heard of it."""
        self.keys[who] = make_key(self.workers[0], **options)
        for worker in self.workers:
            wait_until(lambda: self.ask(worker, who).get("/api/sessions").status == 200,
                       "a new key is known")

    def coordinator(self, **more):
        front = super().coordinator(**more)
        front.key = self.keys[""]
        return front

    def ask(self, server, who):
        """The same server, asked with that key; None: without one."""
        asked = copy.copy(server)
        asked.key = None if who is None else self.keys[who]
        return asked

    def worker_of(self, session, who=""):
        return next((worker for worker in self.workers
                     if worker.process.poll() is None and self.ask(worker, who).exists(session)),
                    None)

    def close(self):
        try:
            super().close()
        finally:
            shutil.rmtree(self.auth, ignore_errors=True)
