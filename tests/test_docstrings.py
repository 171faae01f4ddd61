"""Examples in docstrings run and print what they say; public names are documented."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import tailmiss
import tailmiss.sims
from tailmiss import weights

try:
    import tailmiss.torch
except ImportError:
    PACKAGES = (tailmiss, tailmiss.sims)
else:
    PACKAGES = (tailmiss, tailmiss.sims, tailmiss.torch)

# torch has its own test; SymPy modules print proofs
MODULES = sorted(
    module.name
    for package in (tailmiss, tailmiss.sims)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    if not module.ispkg
    and "symbolic" not in module.name
    and "theorem" not in module.name
    and not module.name.endswith(("maze_transformer", "_maze_model", "_maze_tree"))  # need torch
)
PUBLIC = sorted(
    (package.__name__, name)
    for package in PACKAGES
    for name in package.__all__
    if inspect.isroutine(getattr(package, name)) or inspect.isclass(getattr(package, name))
)
# where a claim or a formula comes from, or what holds it
SOURCE = r"\[FGRPO\]|\[RECO\]|arXiv|\(\d{4}\)|tests/\w+\.py|symbolic\.py"


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_public_names_are_documented(package, name):
    thing = getattr(importlib.import_module(package), name)
    text = inspect.getdoc(thing) or ""
    first = text.splitlines()[0]
    assert 20 <= len(first) <= 100, first
    if inspect.isclass(thing):
        return
    sections = ["Parameters", "Returns", "Raises", "Notes", "Examples"]
    if thing.__module__ == weights.__name__:
        sections.remove("Raises")  # plain arithmetic, which checks nothing
    for section in sections:
        assert f"\n{section}\n---" in text, f"{name} lacks {section}"
    for parameter in inspect.signature(thing).parameters:
        assert re.search(rf"\b{parameter}\b", text), f"{name} does not explain {parameter}"
    assert re.search(SOURCE, text), f"{name} names no source and no test"


def test_something_is_public_everywhere():
    assert len(PUBLIC) > 50
    assert len(MODULES) > 50
