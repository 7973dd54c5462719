# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest (`-p front`): every server of the tests is asked through a coordinator that
stands before it, so that tests of the server say what passes through one."""
import server as lib
from cluster import Coordinator

started, removed = lib.Server.start, lib.Server.remove


def start(self, seconds=None):
    started(self, seconds)
    if not isinstance(self, Coordinator):
        self.own_port = self.port
        self.front = Coordinator(WORKERS=f"http://127.0.0.1:{self.port}").start()
        self.port = self.front.port
    return self


def remove(self):
    if getattr(self, "front", None):
        self.front.remove()
    removed(self)


lib.Server.start, lib.Server.remove = start, remove
