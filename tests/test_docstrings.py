"""Examples in docstrings run and print what they say; public names are documented."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import tailmiss

# torch has its own test; SymPy modules print proofs
MODULES = sorted(
    module.name
    for module in pkgutil.iter_modules(tailmiss.__path__, "tailmiss.")
    if module.name != "tailmiss.torch"
    and "symbolic" not in module.name
    and "theorem" not in module.name
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", sorted(set(tailmiss.__all__) - {"RULES"}))
def test_public_names_are_documented(name):
    thing = getattr(tailmiss, name)
    text = inspect.getdoc(thing) or ""
    first = text.splitlines()[0]
    assert 20 <= len(first) <= 100, first
    if inspect.isfunction(thing):
        for section in ("Parameters", "Returns", "Notes", "Examples"):
            assert f"\n{section}\n---" in text, f"{name} lacks {section}"
        for parameter in inspect.signature(thing).parameters:
            assert parameter in text, f"{name} does not explain {parameter}"
