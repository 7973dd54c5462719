# SPDX-License-Identifier: Apache-2.0
"""Volumes and artifacts of a server, and what local mode says of them."""

import asyncio
import io
import tarfile
import uuid

import pytest

from threadbox import (
    AsyncSandboxClient,
    ConflictError,
    InvalidRequestError,
    SandboxClient,
    UnsupportedError,
)


@pytest.fixture
def user():
    return f"user-{uuid.uuid4()}"


def test_a_volume_from_its_beginning_to_its_end(url, user):
    with SandboxClient(server_url=url) as client:
        made = client.volumes.create("models", user, size_mb=16)
        assert (made.name, made.user_id, made.size_bytes) == ("models", user, 16 << 20)
        with pytest.raises(ConflictError):
            client.volumes.create("models", user)
        assert client.volumes.write("models", "a/b.txt", "text", user).path == "a/b.txt"
        use = {"name": "models", "path": "/data"}
        with client.session(user_id=user, volumes=[use]) as session:
            assert session.execute("cat /data/a/b.txt; echo more > /data/c")["stdout"] == "text"
            assert client.volumes.get("models", user).in_use_by == (session.session_id,)
            with pytest.raises(ConflictError):
                client.volumes.remove("models", user)
        assert client.volumes.read("models", "c", user) == b"more\n"
        names = [one.path for one in client.volumes.list_files("models", "", user, recursive=True)]
        assert names == ["a", "a/b.txt", "c"]
        with tarfile.open(fileobj=io.BytesIO(client.volumes.download("models", "", user))) as tar:
            assert tar.extractfile("c").read() == b"more\n"
        client.volumes.remove_file("models", "a", user, recursive=True)
        assert client.volumes.get("models", user).files == 1
        assert [one.name for one in client.volumes.list(user)] == ["models"]
        client.volumes.remove("models", user)
        with pytest.raises(FileNotFoundError):
            client.volumes.get("models", user)


def test_a_tar_fills_a_volume(url, user):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("x")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"one"))
    with SandboxClient(server_url=url) as client:
        client.volumes.create("v", user, size_mb=8)
        assert client.volumes.fill("v", packed.getvalue(), "in", user).files == 1
        assert client.volumes.read("v", "in/x", user) == b"one"
        with pytest.raises(InvalidRequestError):
            client.session(user_id=user, volumes=[{"name": "v", "path": "/etc"}])
        client.volumes.remove("v", user)


def test_artifacts_stay_after_the_end(url, user):
    with SandboxClient(server_url=url) as client:
        session = client.session(user_id=user)
        session.execute("echo report > r.txt")
        kept = session.artifacts.keep("r.txt", name="Report", type="text/markdown")
        assert (kept.name, kept.type, kept.size_bytes, kept.path) == (
            "Report", "text/markdown", 7, "r.txt")
        session.close()
        assert session.artifacts.list() == [kept]
        assert client.kept.list(user) == [kept]
        assert client.kept.read(kept.artifact_id) == b"report\n"
        assert client.kept.get(kept.artifact_id) == kept
        client.kept.remove(kept.artifact_id)
        with pytest.raises(FileNotFoundError):
            client.kept.read(kept.artifact_id)
        with pytest.raises(ValueError, match=r"session\.artifacts"):
            client.kept.keep("x")


def test_the_same_for_asyncio(url, user):
    async def go():
        async with AsyncSandboxClient(server_url=url) as client:
            await client.volumes.create("v", user, size_mb=8)
            await client.volumes.write("v", "f", b"x", user)
            session = await client.session(user_id=user, volumes=[{"name": "v", "path": "/data"}])
            await session.execute("cp /data/f f")
            kept = await session.artifacts.keep("f")
            await session.close()
            assert await client.kept.read(kept.artifact_id) == b"x"
            await client.kept.remove(kept.artifact_id)
            await client.volumes.remove("v", user)

    asyncio.run(go())


def test_local_mode_has_none_and_says_so(local_state):
    with SandboxClient(mode="local", state_dir=local_state) as client:
        with pytest.raises(UnsupportedError, match="remote mode"):
            client.volumes.list()
        with pytest.raises(UnsupportedError, match="remote mode"):
            client.session(volumes=[{"name": "v", "path": "/data"}])
