# SPDX-License-Identifier: Apache-2.0
"""The newest client: the dual-mode one, with uploads from memory and another default port."""
import sys

import enhanced_client

SessionExpiredError = enhanced_client.SessionExpiredError


class SandboxClient(enhanced_client.SandboxClient):
    def upload_file_from_bytes(self, filename, content):
        self._need_session()
        return self._upload(filename, content)


class BatchSandboxClient(enhanced_client.BatchSandboxClient):
    Client = SandboxClient


if __name__ == "__main__":
    sys.exit(enhanced_client.main(sys.argv[1:], SandboxClient, BatchSandboxClient,
                                  "http://localhost:7575"))
