# SPDX-License-Identifier: Apache-2.0
"""Tests that were written for one provider, run over another."""
import importlib.util
import pathlib

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent


def load(path, into, differs):
    """Puts the tests and fixtures of `path` into the module with the globals `into`; those that
    `differs` names are skipped with its reason."""
    name = f"other_{path.replace('/', '_').removesuffix('.py')}"
    spec = importlib.util.spec_from_file_location(name, TESTS / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for key, thing in vars(module).items():
        fixture = type(thing).__name__ == "FixtureFunctionDefinition" or hasattr(
            thing, "_pytestfixturefunction")
        if key.startswith("test_") and key in differs:
            thing = pytest.mark.skip(reason=differs[key])(thing)
        if key.startswith("test_") or fixture:
            assert key not in into, f"two tests are called {key}"
            into[key] = thing
