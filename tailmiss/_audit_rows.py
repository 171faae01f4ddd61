"""Numbers at one k or N: mean over prompts, by a fitted population, and what any would allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .bootstrap import MeanOverProblems, means_over_problems
from .passk import pass_at_k, pass_hat_k
from .prompts import PromptPopulation, mixed_share

Array = NDArray[np.float64]
NAN = float("nan")
DOUBTFUL = 0.05
CAUTION = (
    "past the rollouts: it assumes that success rates follow the fitted Beta law, and its interval"
    " does not allow for another law"
)


@dataclass(frozen=True)
class Row:
    """One number at one k or N: from the rollouts, and from the fitted population.

    `value` is NaN where no prompt has enough rollouts, `fitted` where no population was fitted.
    Past the rollouts of every prompt, `least` and `most` are what any population allows that agrees
    with them up to their own interval: success rates need not follow a Beta law.
    """

    value: float
    low: float
    high: float
    prompts: int
    fitted: float = NAN
    fitted_low: float = NAN
    fitted_high: float = NAN
    naive: float = NAN
    least: float = NAN
    most: float = NAN

    @property
    def extrapolated(self) -> bool:
        """Whether all that is known rests on the fitted population."""
        return not self.prompts and not math.isnan(self.fitted)

    @property
    def bounded(self) -> bool:
        """Whether there is a range for any population."""
        return not math.isnan(self.least)


class Wanted(NamedTuple):
    """An estimator, where to evaluate it, and what the population calls the same number."""

    estimator: Any
    points: Sequence[int]
    fitted: str
    extra: tuple[float, ...] = ()


class Rows:
    """Makes the rows of an audit; `asked` are points that get an interval of the fit, if any do."""

    def __init__(
        self,
        n: Array,
        c: Array,
        clusters: NDArray[Any] | None,
        population: PromptPopulation | None,
        options: Mapping[str, Any],
        asked: set[int] | None,
    ) -> None:
        self.population, self.asked, self._clusters = population, asked, clusters
        self.confidence, self._rng = options["confidence"], options["rng"]
        self.largest, self.smallest = int(n.max()), int(n[n > 0].min())
        self._pairs, self._place, self._counts = np.unique(
            np.stack([n, c]), axis=1, return_inverse=True, return_counts=True
        )

    def at(self, *wanted: Wanted) -> list[dict[int, Row]]:
        """For each of the wanted the rows at its points, all from the same bootstrap samples."""
        ends = [Wanted(f, [self.smallest], "") for f in (pass_at_k, pass_hat_k, mixed_share)]
        tables = [
            np.atleast_2d(each.estimator(*self._pairs[:, None], at, *each.extra))
            for each in (*wanted, *ends)
            for at in [np.array(each.points)[:, None]]
        ]
        spread: dict[str, Any] = {"counts": self._counts}
        values = np.concatenate(tables)
        if self._clusters is not None:
            values, spread = values[:, self._place.ravel()], {"clusters": self._clusters}
        found = iter(
            means_over_problems(values, confidence=self.confidence, rng=self._rng, **spread)
        )
        means = [[next(found) for _ in each.points] for each in (*wanted, *ends)]
        self._ends = {
            each.estimator.__name__: self._end(mean)
            for each, [mean] in zip(ends, means[len(wanted) :], strict=True)
        }
        return [self._rows(each, own) for each, own in zip(wanted, means, strict=False)]

    def _rows(self, wanted: Wanted, means: list[MeanOverProblems]) -> dict[int, Row]:
        points = wanted.points
        fitted = np.full(len(points), NAN)
        if self.population is not None:
            fitted = getattr(self.population, wanted.fitted)(np.array(points), *wanted.extra)
        rows = {}
        for x, mean, value in zip(points, means, fitted.tolist(), strict=True):
            low, high = self._interval(wanted, x)
            least, most = (NAN, NAN) if mean.used else self._any_law(wanted.fitted, x)
            rows[x] = Row(
                mean.value, mean.low, mean.high, mean.used, value, low, high, least=least, most=most
            )
        return rows

    def _interval(self, wanted: Wanted, x: int) -> tuple[float, float]:
        """Of the fit, past the rollouts, where it was asked for or at a power of four."""
        population, fitted = self.population, wanted.fitted
        if population is None or self.asked is None or x <= self.largest:
            return NAN, NAN
        if fitted == "tail_miss_prob" or not (x in self.asked or x.bit_length() % 2):
            return NAN, NAN
        return population.interval(
            lambda p: getattr(p, fitted)(x, *wanted.extra), confidence=self.confidence
        )

    def _any_law(self, fitted: str, x: int) -> tuple[float, float]:
        """Range over all populations that agree with the rollouts up to the smallest n, m.

        E[(1-p)^x] lies between E[(1-p)^m]^(x/m), by Jensen, and E[(1-p)^m]; likewise for p^x.
        """
        if self.population is None:
            return NAN, NAN
        solved, always = self._ends["pass_at_k"], self._ends["pass_hat_k"]
        never = (1 - solved[1]) ** (x / self.smallest)
        if fitted == "pass_at_k":
            return solved[0], 1 - never
        if fitted == "mixed_group_prob":
            least = self._ends["mixed_share"][0]
            return least, max(least, 1 - never - always[0] ** (x / self.smallest))
        return NAN, NAN

    def _end(self, mean: MeanOverProblems) -> tuple[float, float]:
        """An interval of a mean of shares, also where all of them are 0 or all are 1.

        All m shares are 1 with chance at most (their mean)^m.
        """
        reach = float(((1 - self.confidence) / 2) ** (1 / max(mean.used, 1)))
        low = min(mean.low, reach) if mean.value == 1 else mean.low
        high = max(mean.high, 1 - reach) if mean.value == 0 else mean.high
        return low, high
