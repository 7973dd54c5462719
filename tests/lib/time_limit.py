# SPDX-License-Identifier: Apache-2.0
"""A conftest that imports the hook of this module has tests that end."""
import signal

import pytest

MOST_SECONDS = 300  # of a test; the slowest takes a tenth of it


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test that waits for what never comes fails, and the others get their turn."""
    def give_up(*_):
        pytest.fail(f"not done after {MOST_SECONDS} s")
    soaks = any(item.get_closest_marker(name) for name in ("long", "mixed_load"))
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(0 if soaks else MOST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
