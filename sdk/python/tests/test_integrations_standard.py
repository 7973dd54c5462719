# SPDX-License-Identifier: Apache-2.0
"""LangChain's own tests for sandbox backends, as they are; see threadbox/integrations/_rules.py."""

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import SandboxIntegrationTests

from threadbox import SandboxClient
from threadbox.integrations.deepagents import ThreadboxSandbox


class TestStandard(SandboxIntegrationTests):
    @property
    def sandbox_root_dir(self):
        return "/workspace/standard"

    @pytest.fixture(scope="class")
    def sandbox(self, server):
        with SandboxClient(server_url=f"http://127.0.0.1:{server.port}", policy="open") as client:
            backend = ThreadboxSandbox(client, "standard", rules="0.6")
            yield backend
            backend.close()
