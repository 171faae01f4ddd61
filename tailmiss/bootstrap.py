"""Means over problems, with intervals from resampled problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _validate as check
from ._rng import RNG, generator

_MOST_CELLS = 5000


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
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 4000,
    rng: RNG = 0,
) -> MeanOverProblems:
    """Mean and percentile bootstrap interval of one value a problem; NaN marks a problem left out.

    Values of one cluster (a prompt seen at several training steps) are drawn together. Past 5,000
    distinct cells the interval is the normal one, to which the bootstrap has converged.

    Examples
    --------
    >>> mean_over_problems([0.5, float("nan")])
    MeanOverProblems(value=0.5, low=nan, high=nan, used=1, left_out=1)
    """
    values = np.asarray(values, float).ravel()
    check.mass("confidence", confidence, inclusive=False)
    kept = ~np.isnan(values)
    used, left_out = int(kept.sum()), int((~kept).sum())
    value = float(values[kept].mean()) if used else float("nan")
    if clusters is None:
        sums, sizes = values[kept], np.ones(used)
    else:
        _, place = np.unique(np.asarray(clusters)[kept], return_inverse=True)
        sums, sizes = np.bincount(place, values[kept]), np.bincount(place).astype(float)
    if sums.size < 2:
        return MeanOverProblems(value, float("nan"), float("nan"), used, left_out)
    cells, counts = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    tail = (1 - confidence) / 2
    if counts.size > _MOST_CELLS:
        from scipy.special import ndtri

        spread = np.sqrt(counts @ (cells[0] - value * cells[1]) ** 2) / used
        reach = spread * float(ndtri(1 - tail))
        low, high = value - reach, value + reach
    else:
        source, batch = generator(rng), max(1, 2**22 // counts.size)
        means = np.empty(resamples)
        for start in range(0, resamples, batch):
            part = means[start : start + batch]
            draws = source.multinomial(sums.size, counts / sums.size, size=part.size)
            part[:] = (draws @ cells[0]) / (draws @ cells[1])
        low, high = np.quantile(means, [tail, 1 - tail])
    return MeanOverProblems(value, min(float(low), value), max(float(high), value), used, left_out)
