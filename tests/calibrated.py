"""Statistical assertions that state their false-alarm rate and what they can detect.

`false_fail` is the chance that the assertion fails on correct code; an error of size `detects` is
caught with probability at least 1 - MISS. Both hold for any seed, so a failure is never retried.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

MISS = 1e-3


def assert_bernoulli(
    hits: int, trials: int, p: float, *, false_fail: float = 1e-9, detects: float
) -> None:
    """The hits are binomial(trials, p): exact two-sided test that would see `detects`."""
    low = stats.binom.ppf(false_fail / 2, trials, p)
    high = stats.binom.isf(false_fail / 2, trials, p)
    for other in (p - detects, p + detects):
        if 0 <= other <= 1:
            missed = stats.binom.cdf(high, trials, other) - stats.binom.cdf(low - 1, trials, other)
            assert missed <= MISS, (
                f"{trials} trials cannot tell {p:.6g} from {other:.6g}:"
                f" missed {missed:.2g} of the time"
            )
    assert low <= hits <= high, (
        f"{hits} of {trials} = {hits / trials:.6g}, expected {p:.6g}: outside [{low:g}, {high:g}]"
        f" at false-alarm rate {false_fail:g}"
    )


def assert_mean(
    draws: np.ndarray, expected: float, *, false_fail: float = 1e-9, detects: float
) -> None:
    """The draws have mean `expected`: normal two-sided test; needs many draws of light tail."""
    draws = np.asarray(draws, float)
    error = float(draws.std(ddof=1) / np.sqrt(draws.size))
    reach = float(stats.norm.isf(false_fail / 2)) * error
    power = reach + float(stats.norm.isf(MISS)) * error
    assert power <= detects, f"{draws.size} draws see an error of {power:.3g}, not {detects:.3g}"
    off = float(draws.mean()) - expected
    assert abs(off) <= reach, (
        f"mean {draws.mean():.8g}, expected {expected:.8g}: {off / error:.1f} standard errors off"
    )
