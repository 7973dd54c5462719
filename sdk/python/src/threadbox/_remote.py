# SPDX-License-Identifier: Apache-2.0
"""The engine behind an HTTP server. One text serves blocking and asynchronous clients: only how it
waits (``Io``) differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from . import _parse as parse
from ._engine import SessionInfo, SessionSpec
from ._remote_base import CLEANUP, CREATE, FIND, LIST
from ._remote_code import RemoteCode
from ._remote_files import RemoteFiles
from ._remote_shells import RemoteShells
from ._remote_storage import RemoteStorage


class RemoteEngine(RemoteShells, RemoteFiles, RemoteCode, RemoteStorage):
    """See ``Engine``. ``server_url`` may have a path, when a proxy serves it below one."""

    # ---- sessions ----

    async def find_session(self, thread_id: str) -> SessionInfo | None:
        target = "/get_session?" + urlencode({"thread_id": thread_id})
        response = await self.call("GET", target, None, FIND, accept=(404,))
        if response.status == 404:
            parse.parse_object(response)  # of a Threadbox server, not of somebody else's
            return None
        return parse.parse_session(parse.parse_object(response, "session_id"))

    async def create_session(self, spec: SessionSpec) -> SessionInfo:
        body: dict[str, Any] = {"timeout_minutes": spec.timeout_minutes}
        if spec.user_id:
            body["user_id"] = spec.user_id
        if spec.thread_id:
            body["thread_id"] = spec.thread_id
        if spec.policy:
            body["policy"] = spec.policy
        if spec.volumes:
            body["volumes"] = [dict(one) for one in spec.volumes]
        named = {
            "environment": spec.environment,
            "provider": spec.provider,
            "agent": spec.agent,
        }
        named = {key: value for key, value in named.items() if value}
        if not named:
            response = await self.call("POST", "/create_session", body, CREATE, accept=(409,))
            return parse.parse_session(parse.parse_object(response, "session_id"))
        response = await self.call("POST", "/api/sessions", {**body, **named}, CREATE)
        made = parse.parse_object(response, "session_id")
        status = "existing" if made.get("existing") else "created"
        return parse.parse_session({**made, "status": status})

    async def session_status(self, session_id: str) -> SessionInfo:
        response = await self.call("GET", f"/status/{quote(session_id, safe='')}", None, LIST)
        return parse.parse_session(parse.parse_object(response, "session_id"))

    async def close_session(self, session_id: str) -> None:
        await self.call("POST", "/cleanup", {"session_id": session_id}, CLEANUP)

    # ---- itself ----

    async def health(self) -> Mapping[str, Any]:
        return parse.parse_object(await self.call("GET", "/health", None, FIND))

    async def close(self) -> None:
        self.http.close()
