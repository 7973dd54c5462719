# SPDX-License-Identifier: Apache-2.0
"""What is not installed is said in one sentence, with the command that helps."""

from __future__ import annotations


def missing(extra: str, problem: ImportError) -> ImportError:
    """The same error, for people."""
    if isinstance(problem, ModuleNotFoundError):
        what = f"needs the module {problem.name!r}, which is not installed"
    else:
        what = f"can't use the version of {extra} that is installed ({problem})"
    return ImportError(
        f"threadbox.integrations.{extra} {what}: pip install 'threadbox[{extra}]'",
        name=problem.name,
    )
