"""Monte Carlo results as counts that add up; rates and intervals are derived from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from . import _validate as check


@dataclass(frozen=True)
class Estimate:
    """A probability estimated by counting: `hits` among `trials`.

    Estimates of the same event add: ``a + b`` pools their counts.

    Raises
    ------
    ValueError
        Unless 0 <= hits <= trials.

    Examples
    --------
    >>> e = Estimate(30, 80) + Estimate(10, 20)
    >>> e.value
    0.4
    >>> low, high = e.interval()
    >>> bool(low < 0.4 < high)
    True
    """

    hits: int
    trials: int

    def __post_init__(self) -> None:
        check.whole_number("trials", self.trials, 0)
        check.whole_number("hits", self.hits, 0)
        if self.hits > self.trials:
            raise ValueError(f"hits must be <= trials ({self.trials}); got {self.hits}")

    @property
    def value(self) -> float:
        """hits / trials; NaN without trials."""
        return self.hits / self.trials if self.trials else float("nan")

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Exact (Clopper-Pearson) interval; covers at least `confidence`, also at 0 hits."""
        from scipy.special import betaincinv

        check.mass("confidence", confidence, inclusive=False)
        tail, misses = (1 - confidence) / 2, self.trials - self.hits
        low = betaincinv(self.hits, misses + 1, tail) if self.hits else 0.0
        high = betaincinv(self.hits + 1, misses, 1 - tail) if misses else 1.0
        return float(low), float(high)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.hits + other.hits, self.trials + other.trials)


@dataclass(frozen=True)
class MeanEstimate:
    """A mean estimated from `trials` draws, kept with the sum of squared deviations from it.

    Estimates of the same mean add: ``a + b`` pools their draws, without cancellation however far
    the mean is from 0.

    Examples
    --------
    >>> e = MeanEstimate.of([1.0, 2.0]) + MeanEstimate.of([3.0])
    >>> e.value, round(e.standard_error, 6)
    (2.0, 0.57735)
    """

    value: float
    squared_deviations: float
    trials: int

    @classmethod
    def of(cls, draws: ArrayLike) -> MeanEstimate:
        """From the draws themselves; NaN without any."""
        values = check.real("draws", draws).ravel()
        if not values.size:
            return cls(float("nan"), 0.0, 0)
        mean = float(values.mean())
        deviations = values - mean
        return cls(mean, float(deviations @ deviations), values.size)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean (unbiased variance); NaN below two trials."""
        if self.trials < 2:
            return float("nan")
        return math.sqrt(self.squared_deviations / (self.trials - 1) / self.trials)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Normal interval of the mean; use it with hundreds of trials."""
        from scipy.special import ndtri

        check.mass("confidence", confidence, inclusive=False)
        reach = float(ndtri((1 + confidence) / 2)) * self.standard_error
        return self.value - reach, self.value + reach

    def __add__(self, other: MeanEstimate) -> MeanEstimate:
        if not self.trials or not other.trials:
            return self if self.trials else other
        trials = self.trials + other.trials
        share, apart = other.trials / trials, other.value - self.value
        return MeanEstimate(
            self.value + apart * share,
            self.squared_deviations + other.squared_deviations + apart**2 * self.trials * share,
            trials,
        )
