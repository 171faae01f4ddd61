"""Means over problems, with intervals from resampled problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._rng import RNG, generator

Array = NDArray[np.float64]
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
    resamples : int >= 1
        Bootstrap samples.
    rng : int, SeedSequence or Generator
        Source of them.

    Returns
    -------
    MeanOverProblems

    Raises
    ------
    ValueError
        confidence outside (0, 1); resamples below 1 or not whole.

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
    if counts is None and clusters is None:
        values, counts = np.unique(values, return_counts=True)
    options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "rng": rng}
    return means_over_problems([values], counts=counts, clusters=clusters, **options)[0]


def means_over_problems(
    values: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 4000,
    rng: RNG = 0,
) -> list[MeanOverProblems]:
    """:func:`mean_over_problems` of several values a problem, shape (R, m), on the same samples.

    Rows that leave out the same problems share their samples: drawing them is what costs time.

    Examples
    --------
    >>> [mean.value for mean in means_over_problems([[0.0, 1.0], [1.0, 1.0]])]
    [0.5, 1.0]
    """
    table = np.asarray(values, float)
    check.mass("confidence", confidence, inclusive=False)
    resamples = check.whole_number("resamples", resamples)
    number = np.ones(table.shape[1]) if counts is None else np.asarray(counts, float)
    patterns, place = np.unique(~np.isnan(table), axis=0, return_inverse=True)
    found: dict[int, MeanOverProblems] = {}
    for i, kept in enumerate(patterns):
        rows = np.flatnonzero(place.ravel() == i)
        part, times = table[np.ix_(rows, kept)], number[kept]
        used, left_out = int(times.sum()), int(number[~kept].sum())
        means = part @ times / used if used else np.full(rows.size, np.nan)
        sums, sizes = part, np.ones(times.size)
        if clusters is not None:
            owner = np.unique(np.asarray(clusters)[kept], return_inverse=True)[1].ravel()
            sums = np.array([np.bincount(owner, row) for row in part])
            sizes = np.bincount(owner).astype(float)
            times = np.ones(sizes.size)
        normal = clusters is not None and times.size > _MOST_CLUSTERS
        ends = _normal_ends if normal else _bootstrap_ends
        low, high = ends(means, sums, sizes, times, (1 - confidence) / 2, resamples, rng)
        for row, mean, a, b in zip(rows.tolist(), means, low, high, strict=True):
            found[row] = MeanOverProblems(float(mean), float(a), float(b), used, left_out)
    return [found[row] for row in range(len(table))]


def _bootstrap_ends(
    means: Array, sums: Array, sizes: Array, times: Array, tail: float, resamples: int, rng: RNG
) -> tuple[Array, Array]:
    """Percentiles of sum / size over samples of as many clusters; NaN below two."""
    draws = int(times.sum())
    if draws < 2:
        return np.full_like(means, np.nan), np.full_like(means, np.nan)
    source, batch = generator(rng), max(1, 2**22 // times.size)
    drawn_means = np.empty((resamples, means.size))
    for start in range(0, resamples, batch):
        part = drawn_means[start : start + batch]
        drawn = source.multinomial(draws, times / draws, size=len(part)).astype(float)
        part[:] = (drawn @ sums.T) / (drawn @ sizes)[:, None]
    low, high = np.quantile(drawn_means, [tail, 1 - tail], axis=0)
    return np.minimum(low, means), np.maximum(high, means)


def _normal_ends(
    means: Array, sums: Array, sizes: Array, times: Array, tail: float, resamples: int, rng: RNG
) -> tuple[Array, Array]:
    """What the percentiles converge to; the samples are not needed."""
    from scipy.special import ndtri

    spread = np.sqrt(((sums - means[:, None] * sizes) ** 2).sum(axis=1)) / sizes.sum()
    reach = spread * float(ndtri(1 - tail))
    return means - reach, means + reach
