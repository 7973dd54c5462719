# SPDX-License-Identifier: Apache-2.0
"""A sandbox server as the seeds describe theirs: FastAPI and uvicorn in front of Docker, sessions
by thread, a pool of containers. Only for the benchmark: it checks little and expires nothing.

DOCKER_HOST, CONTAINER_IMAGE and POOL_SIZE say what it uses; the first line is its port."""
import datetime
import io
import os
import queue
import socket
import tarfile
import threading
import time
import uuid

import docker
import uvicorn
from fastapi import FastAPI, Form, HTTPException, Response, UploadFile
from pydantic import BaseModel

WORKSPACE, USER = "/workspace", "sandboxuser"
POOL_SIZE = int(os.environ["POOL_SIZE"])
ALLOWED = set("jq awk grep sed sort uniq head tail wc cut tr cat echo date find ls true".split())
app = FastAPI()
engine = docker.from_env()
ready, sessions, threads = queue.Queue(), {}, {}


class Create(BaseModel):
    user_id: str
    thread_id: str
    timeout_minutes: int = 30


class Execute(BaseModel):
    session_id: str
    command: str
    timeout: int = 30


class Named(BaseModel):
    session_id: str
    filename: str = ""


def make_container():
    return engine.containers.run(
        os.environ["CONTAINER_IMAGE"], ["sleep", "infinity"], detach=True, network_mode="none",
        mem_limit="256m", cpu_period=100000, cpu_quota=100000, working_dir=WORKSPACE, user=USER)


def container_of(session):
    if session not in sessions:
        raise HTTPException(404, "Invalid or expired session")
    return sessions[session]


@app.post("/create_session")
def create_session(asked: Create):
    if asked.thread_id in threads:
        raise HTTPException(409, "existing")
    session = str(uuid.uuid4())
    sessions[session] = make_container() if ready.empty() else ready.get()
    threads[asked.thread_id] = session
    expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(
        minutes=asked.timeout_minutes)
    return {"session_id": session, "thread_id": asked.thread_id, "status": "created",
            "workspace_dir": WORKSPACE, "user": USER, "expires_at": expires.isoformat()}


@app.post("/execute")
def execute(asked: Execute):
    if asked.command.split()[0] not in ALLOWED:
        raise HTTPException(400, f"Command '{asked.command[:200]}' not in whitelist")
    began = time.monotonic()
    code, (out, err) = container_of(asked.session_id).exec_run(
        ["bash", "-c", asked.command], demux=True, user=USER, workdir=WORKSPACE)
    return {"exit_code": code, "stdout": (out or b"").decode(errors="replace"),
            "stderr": (err or b"").decode(errors="replace"),
            "execution_time_ms": int((time.monotonic() - began) * 1000)}


@app.post("/upload_file")
def upload_file(session_id: str = Form(), file: UploadFile = None):
    data, archive = file.file.read(), io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo(file.filename)
        info.size, info.uid, info.gid, info.mtime = len(data), 1000, 1000, time.time()
        tar.addfile(info, io.BytesIO(data))
    container_of(session_id).put_archive(WORKSPACE, archive.getvalue())
    return {"status": "uploaded", "filename": file.filename,
            "path": f"{WORKSPACE}/{file.filename}", "size_bytes": len(data)}


@app.post("/download_file")
def download_file(asked: Named):
    parts, _ = container_of(asked.session_id).get_archive(f"{WORKSPACE}/{asked.filename}")
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
        data = tar.extractfile(tar.next()).read()
    return Response(data, media_type="application/octet-stream")


@app.get("/list_files")
def list_files(session_id: str):
    _, out = container_of(session_id).exec_run(["ls", "-la", "--time-style=full-iso", WORKSPACE],
                                               user=USER)
    rows = [line.split(None, 8) for line in out.decode().splitlines() if line.startswith("-")]
    files = [{"name": row[8], "size_bytes": int(row[4]), "modified": f"{row[5]}T{row[6]}",
              "permissions": row[0]} for row in rows]
    return {"session_id": session_id, "workspace_dir": WORKSPACE, "files": files,
            "total_files": len(files), "total_size_bytes": sum(f["size_bytes"] for f in files)}


@app.post("/cleanup")
def cleanup(asked: Named):
    container = sessions.pop(asked.session_id, None)
    for thread in [name for name, session in threads.items() if session == asked.session_id]:
        del threads[thread]
    if container and ready.qsize() >= POOL_SIZE:
        container.remove(force=True)
    elif container:
        container.exec_run(["bash", "-c", f"rm -rf {WORKSPACE}/*"], user=USER)
        ready.put(container)
    return {"status": "cleaned_up", "session_id": asked.session_id}


@app.get("/health")
def health():
    return {"status": "healthy", "pool_available": ready.qsize(), "active_sessions": len(sessions)}


def main():
    def fill():
        for _ in range(POOL_SIZE):
            ready.put(make_container())
    threading.Thread(target=fill).start()
    # asyncio sends small answers at once only where it knows that this is TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    server.run([listening])
    while not ready.empty():
        sessions[uuid.uuid4()] = ready.get()
    for container in sessions.values():
        container.remove(force=True)


if __name__ == "__main__":
    main()
