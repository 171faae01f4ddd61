"""How sure a pass@k is: sampling variance, posterior of one problem, interval over problems."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._credit import count_pmf, credit_of, squared_credit
from ._rng import RNG
from .bootstrap import MeanOverProblems, mean_over_problems
from .passk import MEASURES, checked_counts, g_pass_at_k, log_all_wrong_prob

Array = NDArray[np.float64]
_NAMES = (*MEASURES, "g_pass_at_k")


def pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of the sampling variance of :func:`tailmiss.pass_at_k` of one problem.

    .. math:: U^2 - \frac{C(n-c, 2k)}{C(n, 2k)}, \quad U = \frac{C(n-c, k)}{C(n, k)}

    Parameters
    ----------
    n, c, k
        As for :func:`tailmiss.pass_at_k`.

    Returns
    -------
    float64 scalar or array; NaN where n < 2k. Can be slightly negative, as unbiased ones can.

    Raises
    ------
    ValueError
        As :func:`tailmiss.pass_at_k`.

    Notes
    -----
    The second term is the unbiased estimate of (1-p)^(2k); its expectation is enumerated in
    tests/test_passk.py.

    Examples
    --------
    >>> pass_at_k_variance(4, 2, 1).round(12)
    np.float64(0.083333333333)
    """
    n, c, k = checked_counts(n, c, k)
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
        As for :func:`tailmiss.pass_at_k`.
    k : int >= 1
        Attempts; may exceed n.
    measure : str
        A key of ``passk.MEASURES``, or "g_pass_at_k" with `tau`.
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
        As :func:`tailmiss.pass_at_k`; an unknown measure; a prior that is not two positive numbers.

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
    n, c, _ = np.broadcast_arrays(*checked_counts(n, c, k))
    weights = check.within("prior", prior, 0, np.inf, inclusive=False)
    if weights.shape != (2,):
        raise ValueError(f"prior must be two numbers; got {prior!r}")
    alpha, beta = weights.tolist()
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
        A key of ``passk.MEASURES``, or "g_pass_at_k" with `tau`.
    tau : float in [0, 1], optional
        Share that must be correct, for "g_pass_at_k".
    confidence : float in (0, 1)
        Of the interval.
    resamples : int >= 1
        Bootstrap samples of problems.
    rng : int, SeedSequence or Generator
        Source of the bootstrap samples; fixed by default, so equal inputs give equal intervals.

    Returns
    -------
    MeanOverProblems

    Raises
    ------
    ValueError
        As :func:`tailmiss.pass_at_k`; an unknown measure; confidence outside (0, 1); resamples
        below 1.

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


def _share(tau: float | None) -> float:
    if tau is None:
        raise ValueError("tau must be given for measure 'g_pass_at_k'")
    return float(check.mass("tau", tau))
