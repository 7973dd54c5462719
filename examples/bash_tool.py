# SPDX-License-Identifier: Apache-2.0
"""BashTool in an agent loop of your own: no framework, one sandbox per conversation.

SANDBOX_URL=http://localhost:5000 python examples/bash_tool.py
"""

from __future__ import annotations

import os
import uuid

from threadbox.integrations import SYSTEM_PROMPT, BashTool


def main() -> None:
    tool = BashTool(server_url=os.environ.get("SANDBOX_URL"))
    user, thread = "user123", f"conversation-{uuid.uuid4().hex}"
    print(SYSTEM_PROMPT.splitlines()[0])

    # What a model would ask for, one message after the other: files are there the next time.
    for command in (
        "printf 'tea,3\\ncoffee,4\\ntea,5\\n' > orders.csv",
        "awk -F, '{sum[$1] += $2} END {for (k in sum) print k, sum[k]}' orders.csv | sort",
        "cat missing.csv",
    ):
        result = tool.execute(command, user_id=user, thread_id=thread)
        print(f"$ {command}\n[{result['exit_code']}] {result['stdout']}{result['stderr']}".rstrip())

    try:
        tool.execute("curl http://example.com", user, thread)
    except ValueError as problem:  # the policy refused it: tell the model why
        print(f"refused: {problem}")

    other = tool.execute("ls", user, f"{thread}-other")
    print(f"another conversation sees {other['stdout']!r}")
    for one in (thread, f"{thread}-other"):
        tool.cleanup_session(one)


if __name__ == "__main__":
    main()
