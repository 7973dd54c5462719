# SPDX-License-Identifier: Apache-2.0
"""Large files, beside an nginx that stores and serves the same ones in the same place."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import host
import place
from client import Client, form

NAME = "large.bin"
CONF = """daemon off;
{user}
worker_processes auto;
pid {dir}/pid;
error_log {dir}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    client_body_temp_path {dir}/bodies;
    client_max_body_size 0;
    server {{
        listen 127.0.0.1:{port};
        root {dir}/files;
        location / {{ dav_methods PUT; }}
    }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextlib.contextmanager
def nginx():
    """The port of one that stores what is PUT."""
    if not shutil.which("nginx"):
        raise place.Missing("nginx: apt-get install nginx-light")
    with tempfile.TemporaryDirectory(prefix="tb-nginx-", dir=place.lib.PLACE) as folder:
        os.chmod(folder, 0o755)
        pathlib.Path(folder, "files").mkdir()
        port = free_port()
        pathlib.Path(folder, "nginx.conf").write_text(CONF.format(
            dir=folder, port=port, user="user root;" if os.geteuid() == 0 else ""))
        running = subprocess.Popen(["nginx", "-p", folder, "-c", "nginx.conf"],
                                   stderr=subprocess.DEVNULL)
        try:
            place.lib.wait_until(lambda: answers(port) or running.poll() is not None,
                                 "nginx listens", 20)
            if running.poll() is not None:
                raise place.Missing("nginx does not start: "
                                    + host.read(f"{folder}/error.log")[-300:])
            yield port
        finally:
            running.terminate()
            running.wait(20)


def run(measured, options):
    size = options.megabytes * 10**6
    data = os.urandom(size)
    with nginx() as port, place.connected() as (server, client):
        session = client.create()
        body, content = form(session, NAME, data)
        other = Client(port)
        pids = [server.process.pid, server.keeper_pid()]
        works = [("upload 100 MB", lambda: client.upload(body, content, size)),
                 ("nginx upload 100 MB", lambda: other.request("PUT", f"/{NAME}", data,
                                                               "application/octet-stream")),
                 ("download 100 MB", lambda: client.download(session, NAME, size)),
                 ("nginx download 100 MB", lambda: other.drain("GET", f"/{NAME}", b"", size))]
        rates = place.Rates(measured, size / 1e6)
        for turn in range(options.transfers + 1):
            before = [host.status_kib(pid, "VmRSS") for pid in pids]
            for pid in pids:
                host.reset_peak(pid)
            for name, work in works:
                rates.timed(name, work, keep=turn > 0)
            if turn > 0:
                peak = [host.status_kib(pid, "VmHWM") for pid in pids]
                measured.add("memory that transfers add",
                             sum(max(after - then, 0) for after, then in zip(peak, before)), "KiB")
        other.close()
        client.cleanup(session)
