"""What happens to a group of N rollouts: mixed, missed, and mixed while the tail is missed.

A rollout is correct with probability mu_pos and lands in the rare correct subset with probability
tau <= mu_pos. A group is *mixed* when it holds correct and wrong rollouts, so that a group-relative
update is active; it is a *tail miss* when it is mixed and holds no rollout of the subset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._group_events import (
    blockwise,
    log_tail_miss,
    minority_share,
    miss,
    mixed,
    tail_miss,
)

_LAST_N = 2**53


def mixed_group_prob(N: ArrayLike, mu_pos: ArrayLike) -> Any:
    r"""Probability that a group is mixed, :math:`1 - \mu^N - (1-\mu)^N`.

    Parameters
    ----------
    N : array_like of int, >= 1
        Group size.
    mu_pos : array_like in [0, 1]
        Probability that one rollout is correct.

    Returns
    -------
    float64 scalar or array in [0, 1], broadcast over the inputs.

    Raises
    ------
    ValueError
        N not whole or below 1; mu_pos outside [0, 1] or NaN.

    Notes
    -----
    [FGRPO] v2, Eq. 7. With q = min(mu, 1-mu) evaluated as -expm1(N log1p(-q)) - q^N; relative
    error below 1e-12 (tests/test_tail_miss.py, mpmath).

    Examples
    --------
    >>> mixed_group_prob(2, 0.5)
    np.float64(0.5)
    """
    N, mu_pos = check.whole("N", N), check.mass("mu_pos", mu_pos)
    return mixed(N, np.minimum(mu_pos, 1.0 - mu_pos))[()]


def miss_prob(N: ArrayLike, tau: ArrayLike) -> Any:
    r"""Probability that no rollout of a group lands in a set of mass tau, :math:`(1-\tau)^N`.

    Parameters
    ----------
    N : array_like of int, >= 1
        Group size.
    tau : array_like in [0, 1]
        Mass of the set.

    Returns
    -------
    float64 scalar or array in [0, 1].

    Raises
    ------
    ValueError
        N not whole or below 1; tau outside [0, 1] or NaN.

    Notes
    -----
    [FGRPO] v2, proof of Lemma 3.1. exp(N log1p(-tau)); relative error at most about
    1e-16 * (1 + N tau).

    Examples
    --------
    >>> miss_prob(2, 0.5)
    np.float64(0.25)
    """
    return miss(check.whole("N", N), check.mass("tau", tau))[()]


def tail_miss_prob(N: ArrayLike, mu_pos: ArrayLike, tau: ArrayLike) -> Any:
    r"""Probability that a group is mixed and yet misses the rare correct subset.

    .. math:: \Pr(B) = (1-\tau)^N - (\mu-\tau)^N - (1-\mu)^N

    Parameters
    ----------
    N : array_like of int, >= 1
        Group size; N = 1 gives 0.
    mu_pos : array_like in [0, 1]
        Probability that one rollout is correct.
    tau : array_like in [0, mu_pos]
        Probability that one rollout lands in the rare correct subset.

    Returns
    -------
    float64 scalar or array in [0, 1], broadcast over the inputs.

    Raises
    ------
    ValueError
        N not whole or below 1; a mass outside [0, 1] or NaN; tau > mu_pos.

    Notes
    -----
    [FGRPO] v2, Lemma 3.1. The printed difference loses all digits when the masses are small. It is
    the product (miss)(mixed given miss): with q = min(mu-tau, 1-mu) / (1-tau) evaluated as
    exp(N log1p(-tau)) * (-expm1(N log1p(-q)) - q^N). Relative error below 1e-12 wherever the value
    is above 1e-290, N up to 2**20 (tests/test_tail_miss.py, mpmath).

    Examples
    --------
    >>> round(tail_miss_prob(9, 0.3, 0.3 * 0.05), 4)
    np.float64(0.8325)
    >>> tail_miss_prob([1, 2], 0.5, 0.1).round(3)
    array([0. , 0.4])
    """
    N, mu_pos, tau = _checked(N, mu_pos, tau)
    return blockwise(tail_miss, N, mu_pos, tau)


def log_tail_miss_prob(N: ArrayLike, mu_pos: ArrayLike, tau: ArrayLike) -> Any:
    r"""Natural logarithm of :func:`tail_miss_prob`, also where that underflows.

    .. math:: N \ln(1-\tau) + \ln\bigl(1 - q^N - (1-q)^N\bigr),\quad
              q = \min(\mu-\tau, 1-\mu) / (1-\tau)

    Parameters
    ----------
    N, mu_pos, tau
        As for :func:`tail_miss_prob`.

    Returns
    -------
    float64 scalar or array <= 0; -inf where the probability is 0.

    Raises
    ------
    ValueError
        As :func:`tail_miss_prob`.

    Notes
    -----
    [FGRPO] v2, Lemma 3.1. Near probability 1 the second term is log1p(-(q^N + (1-q)^N)), so that
    both terms keep their digits; relative error below 1e-12 (tests/test_tail_miss.py, mpmath).

    Examples
    --------
    >>> round(log_tail_miss_prob(100_000, 0.5, 0.1), 3)
    np.float64(-10536.052)
    """
    N, mu_pos, tau = _checked(N, mu_pos, tau)
    return blockwise(log_tail_miss, N, mu_pos, tau)


def worst_group_size(mu_pos: ArrayLike, tau: ArrayLike) -> Any:
    r"""Group size that maximises the tail-miss probability.

    The real peak is the one root of :math:`s^N \ln s = c^N \ln c + w^N \ln w` with
    :math:`c = \mu-\tau,\ w = 1-\mu,\ s = c+w`; the better of the two whole numbers beside it.

    Parameters
    ----------
    mu_pos : array_like in (0, 1)
        Probability that one rollout is correct.
    tau : array_like in (0, mu_pos)
        Probability of the rare correct subset.

    Returns
    -------
    int64 scalar or array >= 2; the smaller one on a tie.

    Raises
    ------
    ValueError
        A mass outside (0, 1) or NaN; tau >= mu_pos; a peak past 2**53.

    Notes
    -----
    [FGRPO] v2, Lemma 3.1 and Fig. 3; uniqueness in ``symbolic.py``. Dividing by s^N ln s leaves a
    convex decreasing log-sum-exp whose root Newton's method reaches from the left without
    overshooting.

    Examples
    --------
    >>> worst_group_size(0.3, 0.3 * 0.05)
    np.int64(9)
    """
    mu_pos, tau = _checked_open(mu_pos, tau)
    return _worst(mu_pos, tau).astype(np.int64)[()]


def covering_group_size(mu_pos: ArrayLike, tau: ArrayLike, delta: ArrayLike) -> Any:
    r"""Smallest group size, at or past the worst one, with tail-miss probability <= delta.

    Parameters
    ----------
    mu_pos : array_like in (0, 1)
        Probability that one rollout is correct.
    tau : array_like in (0, mu_pos)
        Probability of the rare correct subset.
    delta : array_like in (0, 1)
        Accepted tail-miss probability.

    Returns
    -------
    int64 scalar or array.

    Raises
    ------
    ValueError
        A mass outside (0, 1) or NaN; tau >= mu_pos; a group size past 2**53.

    Notes
    -----
    Past the peak the probability falls, and it is at most (1-tau)^N; whole-number bisection between
    the peak and ln(delta) / ln(1-tau). Held by brute force in tests/test_tail_miss.py.

    Examples
    --------
    >>> N = covering_group_size(0.3, 0.015, 0.01)
    >>> bool(tail_miss_prob(N, 0.3, 0.015) <= 0.01 < tail_miss_prob(N - 1, 0.3, 0.015))
    True
    """
    mu_pos, tau = _checked_open(mu_pos, tau)
    delta = check.mass("delta", delta, inclusive=False)
    return _cover(mu_pos, tau, delta).astype(np.int64)[()]


def concentration_zone(mu_pos: ArrayLike, tau: ArrayLike, level: ArrayLike) -> tuple[Any, Any]:
    r"""First and last group size whose tail-miss probability is at least `level`.

    Parameters
    ----------
    mu_pos : array_like in (0, 1)
        Probability that one rollout is correct.
    tau : array_like in (0, mu_pos)
        Probability of the rare correct subset.
    level : array_like in (0, 1)
        Tail-miss probability that marks the zone.

    Returns
    -------
    first, last : int64 scalars or arrays; both 0 where no group size reaches the level.

    Raises
    ------
    ValueError
        A mass outside (0, 1) or NaN; tau >= mu_pos; a group size past 2**53.

    Notes
    -----
    Regime II of [FGRPO] v2, Sec. 5.1. The probability rises to its one peak and falls after it, so
    both ends are found by whole-number bisection.

    Examples
    --------
    >>> concentration_zone(0.3, 0.015, 0.8)
    (np.int64(7), np.int64(14))
    """
    mu_pos, tau = _checked_open(mu_pos, tau)
    mu_pos, tau, level = np.broadcast_arrays(
        mu_pos, tau, check.mass("level", level, inclusive=False)
    )
    peak = _worst(mu_pos, tau)
    exists = tail_miss(peak, mu_pos, tau) >= level
    first = _first_true(lambda N: tail_miss(N, mu_pos, tau) >= level, np.ones_like(peak), peak)
    past = _first_true(
        lambda N: tail_miss(N, mu_pos, tau) < level, peak, _miss_reaches(tau, level) + 1
    )
    return (
        np.where(exists, first, 0).astype(np.int64)[()],
        np.where(exists, past - 1, 0).astype(np.int64)[()],
    )


def _checked(N: ArrayLike, mu_pos: ArrayLike, tau: ArrayLike) -> tuple[NDArray[Any], ...]:
    N = check.whole("N", N)
    mu_pos, tau = check.mass("mu_pos", mu_pos), check.mass("tau", tau)
    check.at_most("tau", tau, "mu_pos", mu_pos)
    return N, mu_pos, tau


def _checked_open(mu_pos: ArrayLike, tau: ArrayLike) -> tuple[NDArray[Any], ...]:
    mu_pos = check.mass("mu_pos", mu_pos, inclusive=False)
    tau = check.mass("tau", tau, inclusive=False)
    check.at_most("tau", tau, "mu_pos", mu_pos, strict=True)
    return mu_pos, tau


def _worst(mu_pos: NDArray[Any], tau: NDArray[Any]) -> NDArray[Any]:
    q = minority_share(mu_pos - tau, 1.0 - mu_pos)
    log_s = np.log1p(-tau)
    # rates of decay of (1-q)^N and q^N, and their logarithmic weights in the stationarity condition
    slow, fast = np.log1p(-q), np.log(q)
    slow_weight, fast_weight = np.log1p(slow / log_s), np.log1p(fast / log_s)
    N = np.ones(np.broadcast(mu_pos, tau).shape)
    for _ in range(200):
        terms = slow_weight + N * slow, fast_weight + N * fast
        excess = np.logaddexp(*terms)
        share = np.exp(terms[0] - excess)
        step = excess / (share * slow + (1 - share) * fast)
        N = N - step
        if np.all(np.abs(step) <= 1e-12 * N):
            break
    _refuse_past_last(N, tau, "the worst group size")
    low = np.maximum(np.floor(N), 2.0)
    better = log_tail_miss(low + 1, mu_pos, tau) > log_tail_miss(low, mu_pos, tau)
    return low + better


def _cover(mu_pos: NDArray[Any], tau: NDArray[Any], delta: NDArray[Any]) -> NDArray[Any]:
    mu_pos, tau, delta = np.broadcast_arrays(mu_pos, tau, delta)
    return _first_true(
        lambda N: tail_miss(N, mu_pos, tau) <= delta,
        _worst(mu_pos, tau),
        _miss_reaches(tau, delta),
    )


def _miss_reaches(tau: NDArray[Any], level: NDArray[Any]) -> NDArray[Any]:
    """A group size by which the probability of missing the subset is below `level`."""
    N = np.ceil(np.log(level) / np.log1p(-tau)) + 2
    _refuse_past_last(N, tau, "the covering group size")
    return N


def _first_true(holds: Any, low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Smallest N in [low, high] where `holds`, false before it and true from it on."""
    low, high = low + 0.0, np.maximum(low, high)
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        found = holds(middle)
        low, high = (
            np.where(found, low, np.minimum(middle + 1, high)),
            np.where(found, middle, high),
        )
    return high


def _refuse_past_last(N: NDArray[Any], tau: NDArray[Any], what: str) -> None:
    enough = f"large enough for {what} to be at most 2**53"
    check.every("tau", np.broadcast_to(tau, N.shape), N <= _LAST_N, enough)
