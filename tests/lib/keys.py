# SPDX-License-Identifier: Apache-2.0
"""API keys of a test's server."""


def make_key(server, **options):
    """An API key's text: tenant, role, name, expires, scope."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = server.command("keys", "create", *words)
    assert done.returncode == 0, done
    return done.stdout.strip()
