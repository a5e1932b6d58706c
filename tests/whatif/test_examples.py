"""The examples in the docstrings of this room."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import netlab.whatif

_MODULES = [found.name for found in pkgutil.walk_packages(netlab.whatif.__path__, "netlab.whatif.") if not found.name.endswith(".compiled")]


@pytest.mark.parametrize("name", _MODULES)
def test_examples_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
