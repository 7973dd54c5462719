# SPDX-License-Identifier: Apache-2.0
"""No test: how users write typed code. mypy --strict has to agree with all of it."""

from __future__ import annotations

from threadbox import AsyncSandboxClient, Event, Exited, Output, SandboxClient, SessionExpiredError


def converse(url: str) -> str:
    with SandboxClient(mode="remote", server_url=url) as client:
        session_id: str = client.get_or_create_session("user", "thread")["session_id"]
        result = client.execute("echo hello", timeout=10, auto_retry=False)
        code: int = result["exit_code"]
        names: list[str] = [entry["name"] for entry in client.list_files()["files"]]
        return f"{session_id} {code} {names} {result['stdout']}"


def text_of(event: Event) -> str:
    if isinstance(event, Output):
        return event.text
    return str(event.exit_code) if isinstance(event, Exited) else ""


async def converse_in_loop(url: str) -> list[str]:
    async with AsyncSandboxClient(server_url=url) as client:
        try:
            texts = [text_of(event) async for event in client.stream("make")]
        except SessionExpiredError:
            return []
        process = await client.processes.start("bash", pty=True, rows=24, cols=80)
        async with await process.attach() as terminal:
            await terminal.send("exit\n")
            async for event in terminal:
                texts.append(text_of(event))
        return texts
