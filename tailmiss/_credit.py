"""Credits of k rollouts with j correct ones, and their expectation over the draw of the k.

A credit is an array over j = 0..k. Drawn from n rollouts with c correct, j is hypergeometric; drawn
from a rate with a Beta(a, b) law it is beta-binomial, and the first is the second at a = -c,
b = c - n.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_MOST_KEPT = 64


def needed_correct(k: Any, tau: Any) -> Any:
    """Smallest j >= 1 with j/k >= tau; tau = j/k means j also where tau * k rounds above it."""
    needed = np.floor(tau * k)
    return np.maximum(1, needed + (tau > needed / k))


def at_least(k: int, needed: float) -> Array:
    """Credit 1 for `needed` correct ones or more."""
    return (np.arange(k + 1) >= needed).astype(float)


def excess_share(k: int, majority: float) -> Array:
    """The credit of mG-Pass@k: twice the share of k past the majority."""
    return 2 / k * np.maximum(np.arange(k + 1) - majority, 0.0)


def credit_of(measure: str, k: int, tau: float | None) -> Array:
    """The credit of a measure by its name; `tau` belongs to g_pass_at_k."""
    if measure == "mg_pass_at_k":
        return excess_share(k, np.ceil(k / 2))
    if measure == "g_pass_at_k":
        return at_least(k, needed_correct(k, tau))
    return at_least(k, {"pass_at_k": 1, "pass_hat_k": k, "maj_at_k": k // 2 + 1}[measure])


def squared_credit(credit: Array) -> Array:
    """Credit over 2k attempts that has the expectation of the squared expectation of `credit`."""
    k = credit.size - 1
    return np.array(
        [
            count_pmf(k, -float(total), float(total - 2 * k)) @ (credit * _reversed(credit, total))
            for total in range(2 * k + 1)
        ]
    )


def _reversed(credit: Array, total: int) -> Array:
    """credit[total - j] for j = 0..k, 0 outside."""
    other = total - np.arange(credit.size)
    inside = (other >= 0) & (other < credit.size)
    return np.where(inside, credit[np.where(inside, other, 0)], 0.0)


def expected_credit(n: Array, c: Array, k: Array, level: Array, credit: Any) -> Any:
    """Hypergeometric expectation of credit(k, level), once for every distinct (n, c, k, level)."""
    n, c, k, level = np.broadcast_arrays(n, c, k, level)
    cases = np.stack([n.ravel(), c.ravel(), k.ravel(), level.ravel()])
    cases, place = np.unique(cases, axis=1, return_inverse=True)
    values = np.full(cases.shape[1], np.nan)
    for i, (rollouts, correct, draws, needed) in enumerate(cases.T):
        if draws <= rollouts:
            law = _kept_pmf if draws <= _MOST_KEPT else count_pmf
            pmf = law(int(draws), -correct, correct - rollouts)
            values[i] = pmf @ credit(int(draws), needed)
    return np.minimum(values, 1.0)[place.ravel()].reshape(n.shape)[()]


def count_pmf(k: int, a: float, b: float) -> Array:
    """Beta-binomial(k, a, b) probabilities of j = 0..k; a = -c, b = c - n is the hypergeometric.

    The ratios of neighbours are summed outward from the largest term, where sums stay small.
    """
    low, high = (max(0, int(k + b)), min(k, int(-a))) if a <= 0 and b <= 0 else (0, k)
    j = np.arange(low, high, dtype=float)
    steps = np.log((k - j) / (j + 1) * ((a + j) / (b + k - j - 1)))
    top = int(np.argmax(np.concatenate([[0.0], np.cumsum(steps)])))
    below = -np.cumsum(steps[:top][::-1])[::-1]
    terms = np.exp(np.concatenate([below, [0.0], np.cumsum(steps[top:])]))
    pmf = np.zeros(k + 1)
    pmf[low : high + 1] = terms / terms.sum()
    return pmf


@lru_cache(maxsize=4096)
def _kept_pmf(k: int, a: float, b: float) -> Array:
    """The counts of a training log are the same few at every step."""
    return count_pmf(k, a, b)
