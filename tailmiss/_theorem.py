"""A SymPy statement with the steps that prove it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp

N = sp.Symbol("N", integer=True, positive=True)
k = sp.Symbol("k", integer=True, nonnegative=True)


@dataclass(frozen=True)
class Theorem:
    """A statement, where it comes from, and the named steps of its proof."""

    name: str
    source: str
    statement: Any
    steps: tuple[tuple[str, bool], ...]

    @property
    def proved(self) -> bool:
        """Whether SymPy reduced every step to True."""
        return bool(self.steps) and all(holds for _, holds in self.steps)


def theorem(name: str, source: str, statement: Any, steps: dict[str, Any]) -> Theorem:
    """A theorem; a step that SymPy leaves undecided (None) does not hold."""
    return Theorem(name, source, statement, tuple((s, x is True) for s, x in steps.items()))


def report(theorems: Iterable[Callable[[], Theorem]]) -> int:
    """Print every theorem with its proof; the exit status is 1 if a step does not hold."""
    failed = 0
    for state in theorems:
        one = state()
        steps = [f"  {'proved' if holds else 'FAILED'}: {step}" for step, holds in one.steps]
        print(f"{one.name}  ({one.source})", f"  {one.statement}", *steps, "", sep="\n")
        failed += not one.proved
    return int(failed > 0)


def equal(left: Any, right: Any) -> bool:
    """Whether SymPy reduces the difference to 0."""
    return bool(sp.simplify(sp.expand(sp.powsimp(sp.expand(left - right)))) == 0)
