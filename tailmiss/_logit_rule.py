"""Means over a Beta law of group events, by the trapezoidal rule in the log-odds of the rate.

The nodes do not depend on the law unless it is narrow, so what an event has there is kept: over the
hundreds of populations of a training log each mean is one scalar product.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._group_events import blockwise, tail_miss

Array = NDArray[np.float64]
_STEP = 0.2
_REACH = 40.0
_NEGLIGIBLE = 1e-25
_MOST_KEPT = 1000


def mean_tail_miss(alpha: float, beta: float, N: Array, rho: Array) -> Array:
    r"""Tail miss at each (N, rho) with a rare mass of rho * p, averaged over p ~ Beta(alpha, beta).

    An integrand that is analytic in a strip of half-width pi/2 and falls off as p and 1 - p, so the
    error is exp(-pi^2 / step) < 1e-21 and what lies past log-odds of 40 is below 1e-17; a law
    of spread s has a step of at most s / 1.5, where a normal law's error is 1e-19.
    """
    spread = np.sqrt(1 / alpha + 1 / beta)
    finer = max(0, int(np.ceil(np.log2(_STEP * 1.5 / spread))))
    step = _STEP / 2**finer
    odds = _odds(finer)
    weight = step * np.exp(_log_beta_density(odds, alpha, beta))
    if finer or N.size > _MOST_KEPT:
        held = weight > _NEGLIGIBLE * weight.max()
        return _values(N, rho, odds[held]) @ weight[held]
    return _kept_values(tuple(N.tolist()), tuple(rho.tolist())) @ weight


def _log_beta_density(odds: Array, alpha: float, beta: float) -> Array:
    """Of the log-odds."""
    from scipy.special import betaln

    right, left = np.logaddexp(0, -odds), np.logaddexp(0, odds)
    return np.asarray(-alpha * right - beta * left - betaln(alpha, beta))


@lru_cache(maxsize=16)
def _odds(finer: int) -> Array:
    half = round(_REACH / _STEP) * 2**finer
    return np.arange(-half, half + 1) * (_STEP / 2**finer)


@lru_cache(maxsize=256)
def _kept_values(N: tuple[float, ...], rho: tuple[float, ...]) -> Array:
    return _values(np.array(N), np.array(rho), _odds(0))


def _values(N: Array, rho: Array, odds: Array) -> Array:
    p = 1 / (1 + np.exp(-odds))
    values: Array = blockwise(tail_miss, N[:, None], p, rho[:, None] * p)
    return values
