# SPDX-License-Identifier: Apache-2.0
"""A worker is drained: its sessions go to others with their names and files, and what runs in them
ends first. Nobody who is not of the cluster can ask for that."""
import contextlib
import json
import threading

import pytest

from server import Server, wait_until
from test_faults import create_until, owned_by, wait_one_each

SECRET = {"X-Cluster-Secret": "a secret of this cluster"}


def execute_until(front, session, command):
    """As a client with patience does it."""
    def done():
        reply = front.try_execute(session, command)
        assert reply.status in (200, 503), reply
        return reply if reply.status == 200 else None
    return wait_until(done, "the session answers", 20).json["stdout"]


def command_of(worker, *words):
    """As its operator has it, with the port that it listens on."""
    worker.settings["PORT"] = str(worker.port)
    return worker.command(*words)


def test_a_drained_worker_sends_its_sessions_away(make_cluster):
    cluster = make_cluster(workers=2, coordinators=2)
    front, other_front = cluster.coordinators
    sessions = {f"thread-{i}": front.create(f"thread-{i}") for i in range(6)}
    nameless = [front.create() for _ in range(4)]
    for thread, session in sessions.items():
        front.stdout(session, f"mkdir -p a/b empty; echo {thread} > a/b/f; ln -s b/f a/link; "
                              "head -c 300000 /dev/zero > zeros; chmod 755 a/b/f")
    for session in nameless:
        other_front.stdout(session, f"echo {session} > f")
    drained, other = cluster.workers
    mine = owned_by(cluster, drained, sessions)
    unnamed = [one for one in nameless if drained.exists(one)]
    assert mine and unnamed
    busy = next(iter(mine.values()))
    printed = []
    command = threading.Thread(target=lambda: printed.append(front.stdout(
        busy, "mkfifo gate; cat gate; echo the end", timeout=60)))
    command.start()
    wait_until(lambda: drained.processes(busy)[-1]["state"] == "running", "it runs")
    with cluster.watched() as seen:
        reply = front.post("/admin/drain?worker=w1", headers=SECRET)
        assert reply.status == 200 and reply.json["draining"], reply
        wait_until(lambda: drained.get("/admin/drain", headers=SECRET).json["sessions_left"] == 1,
                   lambda: f"only the busy one is left: {drained.log()[-3000:]}", 20)
        assert drained.exists(busy), "what runs is waited for"
        new = create_until(front, "new")
        assert other.exists(new), "new ones begin elsewhere"
        refused = drained.post("/create_session", {})
        assert refused.status == 503 and "drained" in refused.json["error"], refused
        drained.stdout(busy, "echo go > gate")
        command.join()
        assert printed == ["go\nthe end\n"]
        done = command_of(drained, "drain")
        assert done.returncode == 0, done
        assert f"{len(mine) + len(unnamed)} sessions moved, 0 left" in done.stdout, done
        for thread, session in sessions.items():
            for one in (front, other_front):
                assert execute_until(one, session, "cat a/link") == thread + "\n"
            assert create_until(front, thread) == session, "its name goes with it"
            assert front.stdout(session, "stat -c %a-%s a/b/f zeros empty | head -2").split() == [
                f"755-{len(thread) + 1}", "644-300000"]
            assert other.exists(session)
        for session in unnamed:
            assert execute_until(front, session, "cat f") == session + "\n"
        wait_one_each(cluster, sessions)
        drained.stop()  # as one does to upgrade it
        for thread, session in sessions.items():
            assert front.stdout(session, "cat a/b/f") == thread + "\n"
        drained.start()
        cluster.wait_open()
        assert any(create_until(front, f"again-{i}") and drained.health()["active_sessions"]
                   for i in range(8)), "it takes sessions again"
    assert not seen["doubles"]


def test_draining_can_be_called_off_and_waits_for_somebody_to_go_to(make_cluster):
    cluster = make_cluster(workers=1)
    front, worker = cluster.coordinators[0], cluster.workers[0]
    session = front.create("t")
    worker.post("/admin/drain", headers=SECRET)
    wait_until(lambda: "no other worker" in worker.get("/admin/drain", headers=SECRET).json.get(
        "problem", ""), "it says why nothing moves")
    assert front.stdout(session, "echo here") == "here\n"
    done = command_of(worker, "drain", "--undo")
    assert done.returncode == 0 and "again" in done.stdout, done
    create_until(front, "other")
    assert worker.get("/admin/drain", headers=SECRET).json["draining"] is False


@pytest.mark.long
def test_a_worker_dies_while_sessions_move_to_it(make_cluster):
    cluster = make_cluster(workers=3)
    front = cluster.coordinators[0]
    sessions = {f"thread-{i}": front.create(f"thread-{i}") for i in range(12)}
    for thread, session in sessions.items():
        front.stdout(session, f"echo {thread} > f; head -c 20000000 /dev/urandom > big")
    mine = owned_by(cluster, cluster.workers[0], sessions)
    with cluster.watched() as seen:
        front.post("/admin/drain?worker=w1", headers=SECRET)
        wait_until(lambda: "/cluster/leaving" in cluster.workers[0].log() or
                   cluster.workers[0].get("/admin/drain", headers=SECRET).json["sessions_moved"],
                   "the first is on its way")
        cluster.workers[1].kill9()
        wait_until(lambda: cluster.workers[0].get("/admin/drain", headers=SECRET)
                   .json["sessions_left"] == 0, "all others have moved", 60)
        kept = 0
        for thread, session in mine.items():
            again = create_until(front, thread)
            kept += again == session and execute_until(front, session, "cat f") == thread + "\n"
        print(f"{len(mine)} sessions were to move, {kept} did, one of two workers died meanwhile")
    assert not seen["doubles"]


# ---- attacks ----

def test_who_is_not_of_the_cluster_moves_nothing(shared_cluster):
    worker = shared_cluster.workers[0]
    label = json.dumps({"session": "7190db9a-e7c5-40f5-a3f5-49947e2bdb45", "thread": "x",
                        "policy": "open", "provider": "native", "idle_ms": 1000})
    arrival = {"session_id": "7190db9a-e7c5-40f5-a3f5-49947e2bdb45", "label": label,
               "from": f"http://127.0.0.1:{worker.port}"}
    for headers in ({}, {"X-Cluster-Secret": "wrong!"}, {"X-Cluster-Secret": ""}):
        for method, path in (("POST", "/admin/drain"), ("GET", "/admin/drain"),
                             ("DELETE", "/admin/drain"), ("POST", "/cluster/arrivals"),
                             ("POST", "/cluster/arrivals/x"), ("GET", "/cluster/leaving/x"),
                             ("GET", "/cluster/redis")):
            reply = worker.request(method, path, arrival if method == "POST" else None,
                                   headers=headers)
            assert reply.status == 403, (method, path, reply)
    front = shared_cluster.coordinators[0]
    for path in ("/cluster/redis", "/cluster/leaving/x", "/cluster/arrivals"):
        assert front.get(path, headers=SECRET).status == 404, "not through a coordinator"
    assert front.post("/admin/drain").status == 400, "of which worker?"
    assert front.post("/admin/drain?worker=w1").status == 403
    assert front.post("/admin/drain?worker=none", headers=SECRET).status == 404


def test_what_a_member_says_is_not_believed_either(shared_cluster):
    """One worker that was taken over is not all of them."""
    worker = shared_cluster.workers[0]
    identity = "7190db9a-e7c5-40f5-a3f5-49947e2bdb45"
    label = {"session": identity, "thread": "x", "policy": "open", "provider": "native",
             "idle_ms": 60000, "created": 1763230000}

    def arrival(**changed):
        fields = {"session_id": identity, "label": json.dumps(label),
                  "from": f"http://127.0.0.1:{shared_cluster.workers[1].port}", **changed}
        return worker.post("/cluster/arrivals", fields, headers=SECRET)
    elsewhere = arrival(**{"from": "http://169.254.169.254/latest"})
    assert elsewhere.status == 400 and "no worker" in elsewhere.json["error"], elsewhere
    mounts = [{"source": "/", "target": "/mnt", "read_only": False, "host": True, "name": "x"}]
    mounted = arrival(label=json.dumps({**label, "mounts": mounts}))
    assert mounted.status == 400 and "mounts" in mounted.json["error"], mounted
    assert arrival(session_id="../../etc").status in (400, 500, 503)
    assert arrival(label="{}").status == 400
    assert arrival().status == 503, "that worker knows nothing of such a session"
    assert not worker.exists(identity)
    victim = shared_cluster.coordinators[0].create("victim")
    owner = shared_cluster.worker_of(victim)
    other = next(one for one in shared_cluster.workers if one is not owner)
    reply = other.post(f"/cluster/arrivals/{victim}", {"worker": "w1", "epoch": "x"},
                       headers=SECRET)
    assert reply.status == 404 and owner.exists(victim), "only who was expected arrives"
    shared_cluster.coordinators[0].cleanup(victim)


def test_without_a_secret_nobody_moves_anything(binary):
    from cluster import Cluster
    cluster = Cluster(CLUSTER_SECRET="")
    try:
        worker = cluster.worker()
        for headers in ({}, {"X-Cluster-Secret": ""}):
            reply = worker.post("/admin/drain", headers=headers)
            assert reply.status == 403 and "CLUSTER_SECRET" in reply.json["error"], reply
    finally:
        cluster.close()


def test_names_lead_to_no_other_s_key(shared_cluster):
    """Threads and sessions with the words of the directory in them are names like any other."""
    front = shared_cluster.coordinators[0]
    names = ["}:workers", "{tb}:workers", "a b c d", "x\r\nFLUSHALL\r\n", "t}{", "w1 e 1 s", "*"]
    made = {}
    for name in names:
        with contextlib.suppress(AssertionError):  # some are refused, which is as good
            made[name] = front.create(name)
    assert len(set(made.values())) == len(made)
    for name, session in made.items():
        assert front.create(name) == session
        front.cleanup(session)
    for session in ["{tb}:workers", "../w1", "w1", "%0d%0aX: y", "a" * 5000]:
        assert front.try_execute(session, "true").status in (400, 404)
    assert shared_cluster.redis.call("HLEN", "{tb}:workers") == 2
    forged = front.get("/health", headers={"worker": "evil", "X-Worker": "evil", "Via": "x"})
    assert forged.status == 200
    session = front.create("forged")
    reply = front.post("/execute", {"session_id": session, "command": "echo x", "worker": "w9"},
                       headers={"worker": "w9", "Host": "evil"})
    assert reply.status == 200 and reply.json["stdout"] == "x\n"
    front.cleanup(session)


def test_a_server_that_stands_alone_has_no_draining(binary, start_server):
    server = start_server(POOL_SIZE=0)
    assert isinstance(server, Server)
    assert server.post("/admin/drain", headers=SECRET).status == 404
    done = command_of(server, "drain")
    assert done.returncode == 1 and done.stderr, done
