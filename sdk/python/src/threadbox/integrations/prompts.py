# SPDX-License-Identifier: Apache-2.0
"""What the system prompt of an agent says about its sandbox, before and now.

Prompts that were written for one container per command tell a model to inline its data, and it
obeys. ``update_prompt`` replaces those paragraphs in a prompt that has them.
"""

from __future__ import annotations

SYSTEM_PROMPT_BEFORE = """\
The bash tool executes commands in an ephemeral environment. Each command runs in a fresh container,
so you cannot create files in one command and use them in another. To work with data, use heredoc
syntax to inline the data directly in the command:

cat << 'EOF' | jq '.data'
{"data": [1, 2, 3]}
EOF
"""

SYSTEM_PROMPT = """\
The bash tool executes commands in a persistent sandbox session. Files created in one command
are available in subsequent commands within the same conversation. This enables natural workflows:

# Create a file
echo '{"data": [1, 2, 3]}' > data.json

# Use it in later commands
jq '.data' data.json

The session persists for 30 minutes of inactivity and is automatically cleaned up.
"""

FILES_PROMPT_BEFORE = """\
IMPORTANT: If your command needs data from files, you must inline the data using heredocs.
DO NOT create files and reference them, as files don't persist across executions.
"""

FILES_PROMPT = """\
Files persist across bash commands within your conversation.
You can create files in one command and use them in subsequent commands.

Example workflow:
1. echo '{"data": [1,2,3]}' > input.json
2. jq '.data | add' input.json

The file input.json created in step 1 will be available in step 2.
"""

_IDLE = "30 minutes"


def system_prompt(timeout_minutes: float = 30) -> str:
    """``SYSTEM_PROMPT`` for sessions that live that long without use."""
    return SYSTEM_PROMPT.replace(_IDLE, f"{timeout_minutes:g} minutes")


def update_prompt(prompt: str, timeout_minutes: float = 30) -> str:
    """The prompt with the paragraphs of before replaced by those of now. Text that has none of
    them gets ``system_prompt`` at its end, once."""
    now = system_prompt(timeout_minutes)
    updated = _replaced(prompt, SYSTEM_PROMPT_BEFORE, now)
    updated = _replaced(updated, FILES_PROMPT_BEFORE, FILES_PROMPT)
    if now.strip() in updated or FILES_PROMPT.strip() in updated:
        return updated
    return f"{updated.rstrip()}\n\n{now}" if updated.strip() else now


def _replaced(prompt: str, before: str, now: str) -> str:
    return prompt.replace(before.strip(), now.strip())
