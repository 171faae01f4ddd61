"""Obvious twins of the training study's exact measures, one answer at a time."""

from __future__ import annotations

import itertools

import numpy as np


def expressions(terms):
    """Every expression of so many digits and its value, by filling an array of products."""
    digits = np.array(list(itertools.product(range(1, 10), repeat=terms)))
    for operators in itertools.product("+-*", repeat=terms - 1):
        total = np.zeros(len(digits), int)
        start, sign = 0, 1
        for i in range(1, terms + 1):
            if i == terms or operators[i - 1] != "*":
                total += sign * digits[:, start:i].prod(axis=1)
                if i < terms:
                    start, sign = i, 1 if operators[i - 1] == "+" else -1
        for row, value in zip(digits, total, strict=True):
            text = str(row[0]) + "".join(f"{o}{d}" for o, d in zip(operators, row[1:], strict=True))
            yield text, int(value)


def answer_logp(next_logps, tokens, prompt_length):
    """ln of the probability of the tokens after the prompt, asking for one token at a time."""
    return sum(next_logps(tokens[:i])[tokens[i]] for i in range(prompt_length, len(tokens)))


def measures(p, p0):
    """Exact measures of one problem from the probabilities of its right answers."""
    mu = sum(p)
    lost = sum(max(0.0, before - now) for before, now in zip(p0, p, strict=True))
    return {
        **{f"pass_{k}": 1 - (1 - mu) ** k for k in (1, 4, 16, 64, 256)},
        "retained": 1 - lost / sum(p0),
        "modes": sum(x >= 1e-4 for x in p),
        "effective_modes": float(np.exp(-sum(x / mu * np.log(x / mu) for x in p))),
    }


def rare(p, share):
    """The least likely answers of one problem that hold at most `share` of its correct mass."""
    chosen, held = [False] * len(p), 0.0
    for i in sorted(range(len(p)), key=lambda i: p[i]):
        held += p[i]
        chosen[i] = held <= share * sum(p)
    return chosen
