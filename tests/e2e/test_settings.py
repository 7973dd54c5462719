# SPDX-License-Identifier: Apache-2.0
"""Settings under the names that operators of earlier generations know, and what they do."""
import os
import re

import pytest

from server import Server, wait_until

# The seed systems' table: names, and the defaults that their documents give.
DOCUMENTED = {
    "PORT": "5000", "HOST": None, "DEBUG": "false", "WORKER_ID": "standalone", "POOL_SIZE": "10",
    "MIN_POOL_SIZE": "3", "MAX_POOL_SIZE": "80", "CONTAINER_IMAGE": "sandbox-secure:latest",
    "MEMORY_LIMIT": "256m", "CPU_QUOTA": "25000", "SANDBOX_USER": "sandboxuser",
    "WORKSPACE_DIR": "/workspace", "SESSION_TIMEOUT_MINUTES": "30",
    "CONTAINER_IDLE_TIMEOUT_MINUTES": "5", "CLEANUP_INTERVAL_SECONDS": "300",
    "AGGRESSIVE_CLEANUP": "true", "POOL_REFILL_DELAY_SECONDS": "60", "REDIS_HOST": "(none)",
    "REDIS_PORT": "6379", "REDIS_PASSWORD": "(none)", "DOCKER_NETWORK_MODE": "none",
    "DEFAULT_COMMAND_TIMEOUT": "30", "MAX_FILE_SIZE_MB": "100", "MAX_TOTAL_FILES": "1000",
    "MAX_WORKSPACE_SIZE_MB": "500", "HOST_WORKSPACE_PATH": "(none)", "LOG_LEVEL": "info"}
# What would start a server, so that only what is wrong stops it.
WRONG = {"PORT": "x", "DEBUG": "perhaps", "POOL_SIZE": "-1", "MAX_POOL_SIZE": "0",
         "MEMORY_LIMIT": "1x", "CPU_QUOTA": "999", "SESSION_TIMEOUT_MINUTES": "0",
         "CONTAINER_IDLE_TIMEOUT_MINUTES": "0", "CLEANUP_INTERVAL_SECONDS": "0",
         "AGGRESSIVE_CLEANUP": "yes", "POOL_REFILL_DELAY_SECONDS": "1.5", "REDIS_PORT": "0",
         "DEFAULT_COMMAND_TIMEOUT": "", "MAX_FILE_SIZE_MB": "0", "MAX_TOTAL_FILES": "none",
         "MAX_WORKSPACE_SIZE_MB": "1e3", "LOG_LEVEL": "loud", "SANDBOX_USER": "root",
         "WORKSPACE_DIR": "/home", "DOCKER_NETWORK_MODE": "bridge", "HOST_WORKSPACE_PATH": "/srv",
         "REDIS_TLS": "perhaps", "REDIS_DB": "-1", "CLUSTER_LEASE_MS": "499",
         "CLUSTER_OUTAGE_SECONDS": "-1", "WORKSPACE_STORE_DELAY_SECONDS": "3601",
         "CPU_QUOTA ": "", "KEEPER_GRACE": "0", "LOG_JSON": "2",
         "SHUTDOWN_GRACE_SECONDS": "-1",
         "DOCKER_HOST": "tcp://127.0.0.1:2375", "PIDS_LIMIT": "1", "OUTPUT_LIMIT_MB": "0"}


@pytest.fixture
def try_serve(binary, tmp_path):
    """Runs `serve` with settings that must stop it; returns what it said."""
    def run(**settings):
        idle = Server(state_dir=str(tmp_path / "state"), **settings)
        done = idle.command("serve", seconds=20)
        assert done.returncode == 1 and done.stdout == ""
        assert not os.path.exists(idle.state_dir), "nothing may be begun"
        return done.stderr
    return run


def test_every_documented_setting_is_known_with_its_default(binary):
    shown = Server(state_dir="/nonexistent").command("serve", "--help").stdout
    rows = dict(re.findall(r"^  ([A-Z_]{3,}) +(\S+)", shown, re.M))
    for name, default in DOCUMENTED.items():
        assert name in rows, name
        assert default is None or rows[name] == default, name


def test_all_that_is_wrong_is_listed_at_once(try_serve):
    wrong = {name: value for name, value in WRONG.items() if value}
    said = try_serve(**wrong)
    for name, value in wrong.items():
        assert f"\n  {name}={value}: " in said, name
    assert said.count("\n  ") == len(wrong) + said.count("must not be larger")


@pytest.mark.parametrize("sizes,sentence", [
    ((5, 4, 10), "MIN_POOL_SIZE must not be larger than POOL_SIZE"),
    ((0, 5, 4), "POOL_SIZE must not be larger than MAX_POOL_SIZE"),
    ((9, 8, 7), "MIN_POOL_SIZE must not be larger than POOL_SIZE\n  POOL_SIZE must not be larger")])
def test_the_pool_sizes_are_in_order(try_serve, sizes, sentence):
    names = ("MIN_POOL_SIZE", "POOL_SIZE", "MAX_POOL_SIZE")
    assert sentence in try_serve(**dict(zip(names, sizes)))


def test_policies_that_there_are_not_are_all_named(try_serve):
    said = try_serve(DEFAULT_POLICY="lax", ALLOWED_POLICIES="strict,loose,none")
    for text in ('DEFAULT_POLICY: there is no policy "lax"',
                 'ALLOWED_POLICIES: there is no policy "loose"',
                 'ALLOWED_POLICIES: there is no policy "none"'):
        assert text in said


def test_every_setting_may_be_given_and_is_shown(start_server):
    """At their defaults, as a compose file of an earlier generation gives them; empty is unset."""
    given = {name: value for name, value in DOCUMENTED.items()
             if value not in (None, "(none)") and name not in ("PORT", "POOL_SIZE")}
    server = start_server(**{**given, "MIN_POOL_SIZE": "", "REDIS_HOST": "", "POOL_SIZE": 2,
                             "WORKER_ID": "worker1", "AGGRESSIVE_CLEANUP": "FALSE",
                             "MAX_POOL_SIZE": 5, "DEFAULT_POLICY": "wide"})
    health = server.health()
    assert (health["worker_id"], health["pool_size"]) == ("worker1", 2)
    assert health["config"] == {"pool_size": 2, "min_pool_size": 2, "max_pool_size": 5,
                                "aggressive_cleanup": False, "default_policy": "wide"}


def test_debug_is_the_level_of_the_log(start_server):
    quiet = start_server(LOG_LEVEL="", DEBUG="false", LOG_COMMANDS="false")
    session = quiet.create("t")
    quiet.stdout(session, "echo hidden")
    assert "event=command_executed" in quiet.log() and "hidden" not in quiet.log()
    silent = start_server(LOG_LEVEL="error", DEBUG="true")
    silent.create("t")
    assert "session_created" not in silent.log(), "LOG_LEVEL says it more exactly"


# ---- the pool ----

def ready(server):
    return server.health()["pool_available"]


def test_the_minimum_is_made_again_at_once_and_the_rest_later(start_server):
    server = start_server(POOL_SIZE=4, MIN_POOL_SIZE=2, POOL_REFILL_DELAY_SECONDS=3)
    wait_until(lambda: ready(server) == 4, "the pool is full")
    for _ in range(4):
        server.create()
    wait_until(lambda: ready(server) == 2, "the minimum is there", 2)
    assert ready(server) == 2
    wait_until(lambda: ready(server) == 4, "the pool is full again")


def test_ready_sandboxes_of_other_settings_are_not_handed_out(start_server):
    server = start_server(POOL_SIZE=2, MEMORY_LIMIT="64m")
    wait_until(lambda: ready(server) == 2, "the pool is full")
    before = set(os.listdir(server.cgroups()[0]))
    server.restart()
    assert ready(server) == 2 and server.create() in before, "the same settings: as good as new"
    server.restart(MEMORY_LIMIT="96m", POOL_SIZE=1, POOL_REFILL_DELAY_SECONDS=0)
    fresh = server.create()
    assert fresh not in before
    assert server.get(f"/status/{fresh}").json["memory_limit_bytes"] == 96 << 20
    assert "event=sandbox_orphan_removed" in server.log()


def test_a_pool_larger_than_the_capacity_of_today_shrinks(start_server):
    server = start_server(POOL_SIZE=4, MAX_POOL_SIZE=6)
    wait_until(lambda: ready(server) == 4, "the pool is full")
    session = server.create("t")
    server.restart(POOL_SIZE=1, MAX_POOL_SIZE=2)
    wait_until(lambda: server.health()["pool"]["total"] == 2, "what is too much is gone")
    assert server.create("t") == session
