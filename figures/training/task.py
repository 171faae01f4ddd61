"""Arithmetic with many right answers of very unequal probability.

A prompt is a zero-padded target and a first digit, ``37=3``; an answer completes it to an
expression of two or three single digits joined by + - * that has this value, ``*9+8+2``. Every
right answer can be listed, so nothing about a policy needs to be estimated by sampling.

Two variants stay out of the reinforcement learning, to be looked at afterwards: ``large`` (targets
from 100 on) and ``four`` (exactly four digits, marked by a colon: ``37:3``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

DIGITS = "123456789"
OPERATORS = "+-*"
OPERATOR_SHARE = {"+": 0.85, "-": 0.08, "*": 0.07}
TERM_SHARE = {2: 0.3, 3: 0.7}
TERMS = {"main": (2, 3), "large": (2, 3), "four": (4,)}
CORPUS_SHARE = {"main": 0.85, "large": 0.05, "four": 0.1}


@dataclass(frozen=True)
class Problem:
    """One prompt and its right answers."""

    prompt: str
    answers: tuple[str, ...]


def value(expression: str) -> int | None:
    """Value of single digits 1-9 joined by + - *, products first; None for any other text.

    >>> value("3*9+4"), value("3-9*2"), value("3*"), value("03"), value("3**9")
    (31, -15, None, None, None)
    """
    if len(expression) % 2 == 0 or expression[0] not in DIGITS:
        return None
    total, term = 0, int(expression[0])
    for operator, digit in zip(expression[1::2], expression[2::2], strict=True):
        if digit not in DIGITS:
            return None
        if operator == "*":
            term *= int(digit)
        elif operator in "+-":
            total, term = total + term, int(digit) if operator == "+" else -int(digit)
        else:
            return None
    return total + term


def is_correct(prompt: str, answer: str) -> bool:
    """Whether the answer completes the prompt's expression to its target, with terms it may have.

    >>> is_correct("37=3", "*9+8"), is_correct("35=3", "*9+8"), is_correct("37:3", "*9+8+2")
    (False, True, True)
    """
    mark = "=" if "=" in prompt else ":"
    target, _, first = prompt.partition(mark)
    terms = TERMS["main" if mark == "=" else "four"]
    return (len(answer) // 2 + 1) in terms and value(first + answer) == int(target)


@cache
def problems(variant: str = "main") -> tuple[Problem, ...]:
    """Every prompt of a variant that has a right answer, with all of them, in a fixed order."""
    found: dict[str, list[str]] = {}
    for expression, result in _expressions(variant):
        mark = ":" if variant == "four" else "="
        found.setdefault(f"{result:02d}{mark}{expression[0]}", []).append(expression[1:])
    return tuple(Problem(prompt, tuple(found[prompt])) for prompt in sorted(found))


def split(
    rng: np.random.Generator, held_out: float = 0.25
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """The main problems in two: those that reinforcement learning sees, and those it does not."""
    everything = problems()
    order = rng.permutation(len(everything))
    cut = round(len(order) * held_out)
    held, kept = np.sort(order[:cut]), np.sort(order[cut:])
    return tuple(everything[i] for i in kept), tuple(everything[i] for i in held)


@cache
def corpus() -> tuple[tuple[tuple[str, str], ...], np.ndarray]:
    """The (prompt, answer) pairs of the supervised start and their probabilities.

    Operators are drawn with the shares .85 / .08 / .07 of + - *, which makes some forms of answer
    rare and some targets hard.
    """
    pairs: list[tuple[str, str]] = []
    weights = []
    for variant, share in CORPUS_SHARE.items():
        rows = [(p.prompt, answer) for p in problems(variant) for answer in p.answers]
        weight = np.array([_natural_share(answer) for _, answer in rows])
        pairs += rows
        weights.append(share * weight / weight.sum())
    return tuple(pairs), np.concatenate(weights)


def _natural_share(answer: str) -> float:
    share = TERM_SHARE.get(len(answer) // 2 + 1, 1.0)
    for operator, _digit in zip(answer[::2], answer[1::2], strict=True):
        share *= OPERATOR_SHARE[operator] / len(DIGITS)
    return share


def _expressions(variant: str) -> list[tuple[str, int]]:
    """The variant's expressions and their values."""
    low, high = (100, 999) if variant == "large" else (1, 99)
    found = []
    for terms in TERMS[variant]:
        tails = product(*[DIGITS, *[OPERATORS, DIGITS] * (terms - 1)])
        for expression in map("".join, tails):
            result = value(expression)
            if result is not None and low <= result <= high:
                found.append((expression, result))
    return found
