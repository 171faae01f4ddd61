"""pass@k and its relatives from n rollouts of which c are correct: values, variances, intervals.

Every measure here is the expected *credit* of k rollouts with j correct ones, drawn without
replacement from the n at hand: pass@k credits j >= 1, pass^k credits j = k, G-Pass@k credits
j >= tau k, maj@k credits j > k/2, mG-Pass@k credits (2/k) max(j - ceil(k/2), 0). Where k > n no
unbiased estimator exists and the value is NaN, never 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._credit import (
    at_least,
    count_pmf,
    credit_of,
    excess_share,
    expected_credit,
    needed_correct,
    squared_credit,
)
from ._rng import RNG
from .bootstrap import MeanOverProblems, mean_over_problems

Array = NDArray[np.float64]
_BLOCK = 2**17


def log_all_wrong_prob(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Array:
    r"""Log-probability that k rollouts drawn without replacement are all wrong.

    .. math:: \ln \frac{C(n-c, k)}{C(n, k)}
              = \sum_{i < \min(c,k)} \ln\Bigl(1 - \frac{\max(c,k)}{n-i}\Bigr)

    Parameters
    ----------
    n, c, k : array_like of whole numbers, 0 <= c <= n, k >= 0
        Rollouts, correct ones, rollouts drawn. Not checked: the callers do.

    Returns
    -------
    float64 array <= 0; -inf where a correct one is certain, NaN where k > n.

    Notes
    -----
    A sum of terms of one sign, so the relative error stays near 1e-15 where differences of
    log-gamma lose up to ten digits (tests/test_passk.py). Costs min(c, k) logarithms a value.

    Examples
    --------
    >>> np.exp(log_all_wrong_prob(4, [0, 1, 3], 2)).round(12)
    array([1. , 0.5, 0. ])
    """
    n, c, k = np.broadcast_arrays(*(np.asarray(v, float) for v in (n, c, k)))
    few = np.minimum(c, k).ravel()
    order = np.argsort(-few, kind="stable")
    few, many = few[order], np.maximum(c, k).ravel()[order]
    left = n.ravel()[order]
    total = np.zeros(few.size)
    start = 0
    with np.errstate(divide="ignore"):
        while live := int(np.searchsorted(-few, -start)):
            i = np.arange(start, start + max(1, _BLOCK // live))
            i = i[i < few[0]]
            remaining = np.maximum(left[:live, None] - i, 1.0)
            wrong = np.maximum(remaining - many[:live, None], 0.0)
            share = many[:live, None] / remaining
            terms = np.where(
                share < 0.5, np.log1p(-np.minimum(share, 0.5)), np.log(wrong / remaining)
            )
            total[:live] += np.where(i < few[:live, None], terms, 0.0).sum(axis=1)
            start += i.size
    result = np.empty_like(total)
    result[order] = total
    return np.where(k > n, np.nan, result.reshape(n.shape))


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of pass@k, the chance that k rollouts hold a correct one.

    .. math:: 1 - \frac{C(n-c, k)}{C(n, k)}

    Parameters
    ----------
    n : array_like of int, >= 0
        Rollouts of a problem.
    c : array_like of int, 0 <= c <= n
        Correct ones among them.
    k : array_like of int, >= 1
        Attempts.

    Returns
    -------
    float64 scalar or array in [0, 1], broadcast over the inputs; NaN where k > n.

    Raises
    ------
    ValueError
        A value that is NaN, not whole or out of range; c > n. The message names argument, value and
        index.

    Notes
    -----
    Chen et al., arXiv 2107.03374, Eq. 1. -expm1 of :func:`log_all_wrong_prob`; relative error below
    1e-12 against integer arithmetic for n up to 100,000 (tests/test_passk.py). Averaging c/n first
    and raising it to a power is biased; so is resampling rollouts.

    Examples
    --------
    >>> pass_at_k(10, [0, 1, 10], 5)
    array([0. , 0.5, 1. ])
    >>> pass_at_k(2, 0, 5)
    np.float64(nan)
    """
    n, c, k = _counts(n, c, k)
    return (-np.expm1(log_all_wrong_prob(n, c, k)) + 0.0)[()]


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of pass^k, the chance that k rollouts are all correct.

    .. math:: C(c, k) / C(n, k)

    Parameters
    ----------
    n, c, k
        As for :func:`pass_at_k`.

    Returns
    -------
    float64 scalar or array in [0, 1]; NaN where k > n.

    Raises
    ------
    ValueError
        As :func:`pass_at_k`.

    Notes
    -----
    tau-bench, arXiv 2406.12045. Relative error below 1e-12 (tests/test_passk.py).

    Examples
    --------
    >>> pass_hat_k(4, [2, 4], 2).round(12)
    array([0.16666667, 1.        ])
    """
    n, c, k = _counts(n, c, k)
    return np.exp(log_all_wrong_prob(n, n - c, k))[()]


def g_pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike, tau: ArrayLike) -> Any:
    r"""Unbiased estimate of G-Pass@k, the chance that at least a share tau of k is correct.

    .. math:: \sum_{j \ge \max(1, \lceil \tau k \rceil)} \frac{C(c, j)\, C(n-c, k-j)}{C(n, k)}

    Parameters
    ----------
    n, c, k
        As for :func:`pass_at_k`.
    tau : array_like in [0, 1]
        Share that must be correct; 0 is pass@k, 1 is pass^k.

    Returns
    -------
    float64 scalar or array in [0, 1]; NaN where k > n.

    Raises
    ------
    ValueError
        As :func:`pass_at_k`; tau outside [0, 1].

    Notes
    -----
    arXiv 2412.13147. tau = j/k means j also where tau * k rounds above j. Hypergeometric terms by
    their ratios, outward from the largest: relative error below 1e-12 (tests/test_passk.py).

    Examples
    --------
    >>> g_pass_at_k(5, 3, 2, [0, 0.5, 1]).round(12)
    array([0.9, 0.9, 0.3])
    """
    n, c, k = _counts(n, c, k)
    return expected_credit(n, c, k, needed_correct(k, check.mass("tau", tau)), at_least)


def maj_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of the chance that more than half of k rollouts are correct.

    Parameters
    ----------
    n, c, k
        As for :func:`pass_at_k`.

    Returns
    -------
    float64 scalar or array in [0, 1]; NaN where k > n.

    Raises
    ------
    ValueError
        As :func:`pass_at_k`.

    Notes
    -----
    The strict majority of correctness flags, G-Pass@k at (floor(k/2) + 1)/k; a vote among answers
    can also win without one. Relative error below 1e-12 (tests/test_passk.py).

    Examples
    --------
    >>> maj_at_k(5, 3, [1, 2, 3]).round(12)
    array([0.6, 0.3, 0.7])
    """
    n, c, k = _counts(n, c, k)
    return expected_credit(n, c, k, np.floor(k / 2) + 1, at_least)


def mg_pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of mG-Pass@k, G-Pass@k averaged over tau from 1/2 to 1.

    .. math:: \frac{2}{k} \sum_{i = \lceil k/2 \rceil + 1}^{k} \Pr(X \ge i)

    Parameters
    ----------
    n, c, k
        As for :func:`pass_at_k`.

    Returns
    -------
    float64 scalar or array in [0, 1]; NaN where k > n. Always 0 for k = 1.

    Raises
    ------
    ValueError
        As :func:`pass_at_k`.

    Notes
    -----
    arXiv 2412.13147, the published sum. Relative error below 1e-12 (tests/test_passk.py).

    Examples
    --------
    >>> mg_pass_at_k(5, [3, 5], 4).round(12)
    array([0.2, 1. ])
    """
    n, c, k = _counts(n, c, k)
    return expected_credit(n, c, k, np.ceil(k / 2), excess_share)


MEASURES = {
    "pass_at_k": pass_at_k,
    "pass_hat_k": pass_hat_k,
    "maj_at_k": maj_at_k,
    "mg_pass_at_k": mg_pass_at_k,
}


def pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of the sampling variance of :func:`pass_at_k` of one problem.

    .. math:: U^2 - \frac{C(n-c, 2k)}{C(n, 2k)}, \quad U = \frac{C(n-c, k)}{C(n, k)}

    Parameters
    ----------
    n, c, k
        As for :func:`pass_at_k`.

    Returns
    -------
    float64 scalar or array; NaN where n < 2k. Can be slightly negative, as unbiased ones can.

    Raises
    ------
    ValueError
        As :func:`pass_at_k`.

    Notes
    -----
    The second term is the unbiased estimate of (1-p)^(2k); its expectation is enumerated in
    tests/test_passk.py.

    Examples
    --------
    >>> pass_at_k_variance(4, 2, 1).round(12)
    np.float64(0.083333333333)
    """
    n, c, k = _counts(n, c, k)
    square = 2 * log_all_wrong_prob(n, c, k)
    return (np.exp(square) - np.exp(log_all_wrong_prob(n, c, 2 * k)))[()]


def posterior_pass_at_k(
    n: ArrayLike,
    c: ArrayLike,
    k: int,
    *,
    measure: str = "pass_at_k",
    tau: float | None = None,
    prior: tuple[float, float] = (1.0, 1.0),
) -> tuple[Array, Array]:
    r"""Posterior mean and standard deviation of a measure, for each problem by itself.

    .. math:: p \mid c \sim \mathrm{Beta}(\alpha + c, \beta + n - c)

    Parameters
    ----------
    n, c
        As for :func:`pass_at_k`.
    k : int >= 1
        Attempts; may exceed n.
    measure : str
        A key of ``MEASURES``, or "g_pass_at_k" with `tau`.
    tau : float in [0, 1], optional
        Share that must be correct, for "g_pass_at_k".
    prior : (alpha, beta), both > 0
        Beta prior of a problem's success rate. The uniform one lifts hard problems at large k:
        c = 0, n = k = 64 gives 0.496. A population fitted to all problems does better.

    Returns
    -------
    mean, sd : float64 arrays

    Raises
    ------
    ValueError
        As :func:`pass_at_k`; an unknown measure; a prior that is not positive.

    Notes
    -----
    Bayes@N, arXiv 2510.04265. Beta-binomial terms by their ratios; the square of a measure is
    again a credit, of 2k attempts. For the mean over m problems the standard deviation is
    sqrt(sum of squares) / m.

    Examples
    --------
    >>> mean, sd = posterior_pass_at_k(4, [0, 2], 2)
    >>> mean.round(6), sd.round(6)
    (array([0.285714, 0.714286]), array([0.212959, 0.193429]))
    """
    k = check.whole_number("k", k)
    n, c, _ = np.broadcast_arrays(*_counts(n, c, k))
    alpha, beta = (float(v) for v in check.within("prior", prior, 0, np.inf, inclusive=False))
    check.one_of("measure", measure, _NAMES)
    credit = credit_of(measure, k, _share(tau) if measure == "g_pass_at_k" else None)
    squared = squared_credit(credit)
    pairs, place = np.unique(np.stack([n.ravel(), c.ravel()]), axis=1, return_inverse=True)
    first, second = np.empty(pairs.shape[1]), np.empty(pairs.shape[1])
    for i, (rollouts, correct) in enumerate(pairs.T):
        a, b = alpha + correct, beta + rollouts - correct
        first[i] = count_pmf(k, a, b) @ credit
        second[i] = count_pmf(2 * k, a, b) @ squared
    sd = np.sqrt(np.maximum(second - first**2, 0.0))
    return first[place.ravel()].reshape(n.shape), sd[place.ravel()].reshape(n.shape)


def mean_pass_at_k(
    n: ArrayLike,
    c: ArrayLike,
    k: int,
    *,
    measure: str = "pass_at_k",
    tau: float | None = None,
    confidence: float = 0.95,
    resamples: int = 4000,
    rng: RNG = 0,
) -> MeanOverProblems:
    r"""pass@k averaged over problems, with a bootstrap interval over problems.

    Parameters
    ----------
    n, c : array_like of int
        Rollouts and correct ones of each problem.
    k : int >= 1
        Attempts. Problems with n < k are left out and counted.
    measure : str
        A key of ``MEASURES``, or "g_pass_at_k" with `tau`.
    tau : float in [0, 1], optional
        Share that must be correct, for "g_pass_at_k".
    confidence : float in (0, 1)
        Of the interval.
    resamples : int
        Bootstrap samples of problems.
    rng : int, SeedSequence or Generator
        Source of the bootstrap samples; fixed by default, so equal inputs give equal intervals.

    Returns
    -------
    MeanOverProblems

    Raises
    ------
    ValueError
        As :func:`pass_at_k`; an unknown measure.

    Notes
    -----
    Problems are resampled, never rollouts: resampled rollouts centre on the biased plug-in value.
    The interval is the percentile one and holds both kinds of scatter, since every problem's value
    already carries the noise of its rollouts. Coverage is held in tests/test_passk.py.

    Examples
    --------
    >>> mean_pass_at_k([4, 4, 4, 2], [0, 2, 4, 2], 4)
    MeanOverProblems(value=0.6666666666666666, low=0.0, high=1.0, used=3, left_out=1)
    """
    k = check.whole_number("k", k)
    if measure == "g_pass_at_k":
        values = np.atleast_1d(g_pass_at_k(n, c, k, _share(tau)))
    else:
        values = np.atleast_1d(MEASURES[check.one_of("measure", measure, _NAMES)](n, c, k))
    return mean_over_problems(values, confidence=confidence, resamples=resamples, rng=rng)


_NAMES = (*MEASURES, "g_pass_at_k")


def _counts(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> tuple[Array, Array, Array]:
    n, c, k = check.whole("n", n, 0), check.whole("c", c, 0), check.whole("k", k)
    check.at_most("c", c, "n", n)
    return n, c, k


def _share(tau: float | None) -> float:
    if tau is None:
        raise ValueError("tau must be given for measure 'g_pass_at_k'")
    return float(check.mass("tau", tau))
