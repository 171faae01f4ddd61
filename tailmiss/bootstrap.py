"""Means over problems, with intervals from resampled problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _validate as check
from ._rng import RNG, generator

_MOST_CLUSTERS = 5000


@dataclass(frozen=True)
class MeanOverProblems:
    """A mean over problems with its interval.

    Attributes
    ----------
    value : float
        Mean over the problems used; NaN if there is none.
    low, high : float
        Interval for the mean over the population of problems; NaN below two problems.
    used, left_out : int
        Problems with n >= k, and the others.
    """

    value: float
    low: float
    high: float
    used: int
    left_out: int


def mean_over_problems(
    values: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 4000,
    rng: RNG = 0,
) -> MeanOverProblems:
    """Mean and percentile bootstrap interval of one value a problem; NaN marks a problem left out.

    Parameters
    ----------
    values : array_like, shape (m,)
        One value a problem; NaN where it has none.
    counts : array_like of int, shape (m,), optional
        How many problems have each value; 1 by default.
    clusters : array_like of int, shape (m,), optional
        Values of one cluster (a prompt seen at several training steps) are drawn together.
    confidence : float in (0, 1)
        Of the interval.
    resamples : int
        Bootstrap samples.
    rng : int, SeedSequence or Generator
        Source of them.

    Returns
    -------
    MeanOverProblems

    Raises
    ------
    ValueError
        confidence outside (0, 1).

    Notes
    -----
    Past 5,000 clusters the interval is the normal one, to which the bootstrap has converged.
    Coverage is held in tests/test_passk.py.

    Examples
    --------
    >>> mean_over_problems([0.5, float("nan")])
    MeanOverProblems(value=0.5, low=nan, high=nan, used=1, left_out=1)
    """
    values = np.asarray(values, float).ravel()
    check.mass("confidence", confidence, inclusive=False)
    number = np.ones(values.size) if counts is None else np.asarray(counts, float)
    kept = ~np.isnan(values)
    used, left_out = int(number[kept].sum()), int(number[~kept].sum())
    value = float(values[kept] @ number[kept] / used) if used else float("nan")
    sums, sizes, number = values[kept], np.ones(int(kept.sum())), number[kept]
    if clusters is not None:
        place = np.asarray(clusters)[kept]
        sums, sizes = np.bincount(place, sums), np.bincount(place).astype(float)
        sums, sizes = sums[sizes > 0], sizes[sizes > 0]
        number = np.ones(sums.size)
    elif counts is None:
        sums, number = np.unique(sums, return_counts=True)
        sizes = np.ones(sums.size)
    draws = int(number.sum())
    if draws < 2:
        return MeanOverProblems(value, float("nan"), float("nan"), used, left_out)
    tail = (1 - confidence) / 2
    if clusters is not None and draws > _MOST_CLUSTERS:
        from scipy.special import ndtri

        spread = np.sqrt(((sums - value * sizes) ** 2).sum()) / used
        reach = float(spread * ndtri(1 - tail))
        return MeanOverProblems(value, value - reach, value + reach, used, left_out)
    source, batch = generator(rng), max(1, 2**22 // sums.size)
    means = np.empty(resamples)
    for start in range(0, resamples, batch):
        part = means[start : start + batch]
        drawn = source.multinomial(draws, number / draws, size=part.size)
        part[:] = (drawn @ sums) / (drawn @ sizes)
    low, high = (float(end) for end in np.quantile(means, [tail, 1 - tail]))
    return MeanOverProblems(value, min(low, value), max(high, value), used, left_out)
