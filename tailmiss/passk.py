"""pass@k and its relatives from n rollouts of which c are correct.

Every measure here is the expected *credit* of k rollouts with j correct ones, drawn without
replacement from the n at hand: pass@k credits j >= 1, pass^k credits j = k, G-Pass@k credits
j >= tau k, maj@k credits j > k/2, mG-Pass@k credits (2/k) max(j - ceil(k/2), 0). Where k > n no
unbiased estimator exists and the value is NaN, never 1. How sure the values are is told by
``passk_uncertainty.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._credit import at_least, excess_share, expected_credit, needed_correct

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
    n, c, k = checked_counts(n, c, k)
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
    n, c, k = checked_counts(n, c, k)
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
    n, c, k = checked_counts(n, c, k)
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
    n, c, k = checked_counts(n, c, k)
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
    n, c, k = checked_counts(n, c, k)
    return expected_credit(n, c, k, np.ceil(k / 2), excess_share)


MEASURES = {
    "pass_at_k": pass_at_k,
    "pass_hat_k": pass_hat_k,
    "maj_at_k": maj_at_k,
    "mg_pass_at_k": mg_pass_at_k,
}


def checked_counts(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> tuple[Array, Array, Array]:
    """n, c and k as float64, whole and in range."""
    n, c, k = check.whole("n", n, 0), check.whole("c", c, 0), check.whole("k", k)
    check.at_most("c", c, "n", n)
    return n, c, k
