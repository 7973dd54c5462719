# SPDX-License-Identifier: Apache-2.0
"""Rows beside programs that start one sandbox for one command: bubblewrap, runc, crun, podman."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import place
from series import in_turns

LIMITS = {"memory": {"limit": 256 << 20}, "pids": {"limit": 256}}


def called(*words, **options):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          **options)
    if done.returncode != 0:
        raise place.Missing(f"{' '.join(map(str, words))[:120]}: "
                            f"{done.stderr.decode(errors='replace')[-250:]}")
    return done.stdout


def bubblewrap_rows(measured, options, client, _):
    words = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev",
             "--tmpfs", "/tmp", "--die-with-parent", "bash", "-c", "true"]
    in_turns(measured, options.peer_rounds, [
        ("run, beside bubblewrap", lambda: client.once()),
        ("bubblewrap run", lambda: called(*words))])


def bundle(folder, runtime):
    """An OCI bundle with the programs of this machine that the tests run."""
    from engine import make_root  # of tests/lib
    root = folder / "rootfs"
    if not root.exists():
        make_root(root)
    called(runtime, "spec", cwd=folder)
    spec = json.loads((folder / "config.json").read_text())
    spec["process"].update(terminal=False, args=["sleep", "3600"])
    spec["linux"]["resources"].update(LIMITS)
    spec["root"]["readonly"] = False
    return spec


def oci_rows(runtime):
    def rows(measured, options, client, folder):
        own = folder / runtime
        own.mkdir()
        spec = bundle(own, runtime)
        command = [runtime, "--root", str(own / "state")]

        def write(args):
            spec["process"]["args"] = args
            (own / "config.json").write_text(json.dumps(spec))
        write(["sleep", "3600"])
        name = f"tb-bench-{os.getpid()}"
        # What is left running must not hold a pipe of ours.
        with open(own / "log", "wb") as log:
            code = subprocess.call([*command, "run", "-d", "-b", own, name], stdout=log,
                                   stderr=log, stdin=subprocess.DEVNULL)
        if code != 0:
            raise place.Missing(f"{runtime} run: {(own / 'log').read_text()[-250:]}")
        try:
            session = client.create()
            in_turns(measured, options.peer_rounds, [
                (f"exec, beside {runtime}", lambda: client.execute(session)),
                (f"{runtime} exec", lambda: called(*command, "exec", name, "bash", "-c",
                                                   "true"))])
            write(["bash", "-c", "true"])
            in_turns(measured, options.peer_rounds, [
                (f"run, beside {runtime}", lambda: client.once()),
                (f"{runtime} run", lambda: called(*command, "run", "-b", own, name + "-once"))])
        finally:
            called(*command, "delete", "-f", name)
    return rows


def podman_rows(measured, options, client, folder):
    from engine import image_tar  # of tests/lib
    command = ["podman", "--root", f"{folder}/podman", "--runroot", f"{folder}/podman-run",
               "--cgroup-manager=cgroupfs", "--events-backend=none", "--tmpdir",
               f"{folder}/podman-tmp", *(["--runtime=runc"] if shutil.which("runc") else [])]
    called(*command, "import", image_tar("prepared"), "tb-bench:latest")
    run = [*command, "run", "--network=none", "--memory=256m", "--ulimit=nofile=1024:1024",
           "--ulimit=nproc=1024:1024"]
    name = called(*run, "-d", "tb-bench:latest", "sleep", "3600").decode().strip()
    try:
        session = client.create()
        in_turns(measured, max(options.peer_rounds // 2, 1), [
            ("exec, beside podman", lambda: client.execute(session)),
            ("podman exec", lambda: called(*command, "exec", name, "bash", "-c", "true"))])
        in_turns(measured, max(options.peer_rounds // 4, 1), [
            ("run, beside podman", lambda: client.once()),
            ("podman run", lambda: called(*run, "--rm", "tb-bench:latest", "bash", "-c", "true"))],
            warmup=1)
    finally:
        called(*command, "rm", "-f", "-t", "0", name)
        # The overlay of its store stays mounted otherwise.
        called(*command, "system", "reset", "-f")


PEERS = [("bubblewrap", "bwrap", bubblewrap_rows), ("runc", "runc", oci_rows("runc")),
         ("crun", "crun", oci_rows("crun")), ("podman", "podman", podman_rows)]


def run(measured, options):
    with tempfile.TemporaryDirectory(prefix="tb-peers-", dir=place.lib.PLACE) as folder:
        os.chmod(folder, 0o755)
        for name, program, rows in PEERS:
            if not shutil.which(program):
                measured.skip(name, f"not installed: apt-get install {name}")
                continue
            try:
                with place.connected(POOL_SIZE="10") as (_, client):
                    rows(measured, options, client, pathlib.Path(folder))
            except (place.Missing, ImportError) as error:
                measured.skip(name, error)
