# SPDX-License-Identifier: Apache-2.0
"""Which engine a client gets: arguments first, then the environment, then in-process."""

from __future__ import annotations

import importlib
import os
import ssl
from dataclasses import dataclass
from typing import Any

from ._engine import Engine
from ._errors import UnsupportedError
from ._remote import RemoteEngine
from ._wire import AsyncIo, BlockingIo


@dataclass(frozen=True)
class Mode:
    name: str  # local, remote
    server_url: str | None = None


def choose_mode(mode: str | None, server_url: str | None) -> Mode:
    """``SANDBOX_MODE`` and ``SANDBOX_URL`` count where arguments leave it open; a URL alone means
    remote."""
    if mode is not None and mode.startswith(("http://", "https://")):
        mode, server_url = None, mode  # SandboxClient("http://…"), as the first clients had it
    if mode is None:
        given = server_url or os.environ.get("SANDBOX_MODE") or os.environ.get("SANDBOX_URL")
        mode = "remote" if server_url else os.environ.get("SANDBOX_MODE") or None
        mode = mode or ("remote" if given else "local")
    if mode not in ("local", "remote"):
        raise ValueError(f"mode must be 'local' or 'remote', not {mode!r}")
    if mode == "local":
        return Mode("local")
    url = server_url or os.environ.get("SANDBOX_URL")
    if not url:
        raise ValueError("server_url required for remote mode")
    return Mode("remote", url.rstrip("/"))


def make_engine(
    mode: Mode,
    blocking: bool,
    api_key: str | None,
    tls: ssl.SSLContext | None,
    local: dict[str, Any],
) -> Engine:
    if mode.server_url is not None:
        if local:
            raise TypeError(f"{', '.join(local)}: settings of local mode only")
        key = api_key or os.environ.get("SANDBOX_API_KEY") or os.environ.get("THREADBOX_API_KEY")
        return RemoteEngine(mode.server_url, BlockingIo() if blocking else AsyncIo(), key, tls)
    try:
        local_mode = importlib.import_module("threadbox._local")  # loads the native library
    except ImportError as problem:
        raise UnsupportedError(
            f"local mode is not in this installation ({problem}); install the package with its "
            "native library, or give server_url for remote mode"
        ) from problem
    engine: Engine = local_mode.open_engine(blocking=blocking, **local)
    return engine
