# SPDX-License-Identifier: Apache-2.0
"""Work on files is the same whoever has them."""
import pytest

from other import load

pytestmark = pytest.mark.long  # every step is a trip

load("e2e/test_file_operations.py", globals(), {
    "test_names_that_are_not_utf8_are_paged_too":
        "they are told, but can't be asked for: JSON has no word for them",
    "test_a_tree_goes_down_and_up_again": "its owner is the template's user",
    "test_search_finds_lines": "it is not told how many files had nothing",
})
