"""The formulas of group events, unchecked: products, which keep their digits.

Outside the rare subset a rollout is correct or wrong; q <= 1/2 is the share of the rarer kind.
A tail miss is then (all N rollouts outside the subset) times (mixed, given that).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**13


def blockwise(formula: Any, *arrays: NDArray[Any]) -> Any:
    """An elementwise formula, in blocks whose temporaries stay in the processor's cache."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    out = np.empty(shape)
    if out.size <= _BLOCK:
        return formula(*arrays)[()]
    flat = out.ravel()
    columns = [x.ravel() if x.size == 1 else np.broadcast_to(x, shape).ravel() for x in arrays]
    for start in range(0, out.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        flat[part] = formula(*(x if x.size == 1 else x[part] for x in columns))
    return out


def miss(N: NDArray[Any], tau: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(divide="ignore", under="ignore"):
        return np.exp(N * np.log1p(-tau))


def minority_share(other_correct: NDArray[Any], wrong: NDArray[Any]) -> NDArray[Any]:
    """Share q <= 1/2 of the rarer kind, correct or wrong, among rollouts outside the subset."""
    outside = other_correct + wrong
    with np.errstate(invalid="ignore"):
        share = np.minimum(other_correct, wrong) / outside
    return np.where(outside > 0, share, 0.0) if np.min(outside, initial=1.0) <= 0 else share


def mixed(N: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(under="ignore"):
        active = -np.expm1(N * np.log1p(-q)) - q**N
    return np.where(N == 1, 0.0, np.maximum(active, 0.0))


def tail_miss(N: NDArray[Any], mu_pos: NDArray[Any], tau: NDArray[Any]) -> NDArray[Any]:
    return miss(N, tau) * mixed(N, minority_share(mu_pos - tau, 1.0 - mu_pos))


def log_tail_miss(N: NDArray[Any], mu_pos: NDArray[Any], tau: NDArray[Any]) -> NDArray[Any]:
    q = minority_share(mu_pos - tau, 1.0 - mu_pos)
    with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
        log_all_other, all_q = N * np.log1p(-q), q**N
        active = np.maximum(-np.expm1(log_all_other) - all_q, 0.0)
        inactive = np.exp(log_all_other) + all_q
        log_active = np.log(np.where(N == 1, 0.0, active))
        log_mixed = np.where(inactive < 0.5, np.log1p(-inactive), log_active)
        return np.asarray(N * np.log1p(-tau) + log_mixed)
