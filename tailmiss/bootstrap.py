"""Means over problems, with intervals from resampled problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _validate as check
from ._rng import RNG, generator


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
    values: ArrayLike, *, confidence: float = 0.95, resamples: int = 4000, rng: RNG = 0
) -> MeanOverProblems:
    """Mean and percentile bootstrap interval of one value a problem; NaN marks a problem left out.

    Examples
    --------
    >>> mean_over_problems([0.5, float("nan")])
    MeanOverProblems(value=0.5, low=nan, high=nan, used=1, left_out=1)
    """
    values = np.asarray(values, float).ravel()
    check.mass("confidence", confidence, inclusive=False)
    kept = values[~np.isnan(values)]
    left_out = values.size - kept.size
    if kept.size < 2:
        value = float(kept[0]) if kept.size else float("nan")
        return MeanOverProblems(value, float("nan"), float("nan"), kept.size, left_out)
    levels, counts = np.unique(kept, return_counts=True)
    source, batch = generator(rng), max(1, 2**22 // levels.size)
    means = np.empty(resamples)
    for start in range(0, resamples, batch):
        part = means[start : start + batch]
        part[:] = source.multinomial(kept.size, counts / kept.size, size=part.size) @ levels
    tail = (1 - confidence) / 2
    low, high = np.quantile(means / kept.size, [tail, 1 - tail])
    value = float(kept.mean())
    return MeanOverProblems(
        value, min(float(low), value), max(float(high), value), kept.size, left_out
    )
