# SPDX-License-Identifier: Apache-2.0
"""The name under which earlier generations had their client: programs that import it go on working.

New programs import ``threadbox``.
"""

from threadbox import BatchSandboxClient, SandboxClient, SessionExpiredError

__all__ = ["BatchSandboxClient", "SandboxClient", "SessionExpiredError"]
