"""Every example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import harness
import harness_plugins


def modules():
    for package in (harness, harness_plugins):
        prefix = f"{package.__name__}."
        for info in pkgutil.walk_packages(package.__path__, prefix):
            if not info.name.endswith("__main__"):
                yield info.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples_in_docstrings_hold(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in ("harness", "harness_plugins"):
            raise
        pytest.skip(f"{name} needs {error.name}, which is not installed")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
