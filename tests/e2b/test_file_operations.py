# SPDX-License-Identifier: Apache-2.0
"""Work on files is the same whoever has them."""
from other import load

load("e2e/test_file_operations.py", globals(), {})
