# SPDX-License-Identifier: Apache-2.0
"""Sessions with a sandbox, for code that was written for the orchestrator of the ``/api`` system.

Both of its providers are Threadbox sandboxes here, in this process or where ``SANDBOX_MODE`` and
``SANDBOX_URL`` say.
"""
