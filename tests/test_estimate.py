"""Counts and means: pooling, intervals that cover, and bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tailmiss import Estimate, MeanEstimate

counts = st.integers(0, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, counts)
def test_counts_pool(a, b):
    both = Estimate(*a) + Estimate(*b)
    assert both == Estimate(a[0] + b[0], a[1] + b[1]) == Estimate(*b) + Estimate(*a)
    low, high = both.interval()
    assert 0 <= low <= high <= 1
    if both.trials:
        assert low <= both.value <= high


def test_interval_is_clopper_pearson():
    for hits, trials in ((0, 10), (3, 10), (10, 10), (57, 1000)):
        expected = stats.binomtest(hits, trials).proportion_ci(0.99, method="exact")
        assert Estimate(hits, trials).interval(0.99) == pytest.approx(tuple(expected), rel=1e-12)
    assert Estimate(0, 0).interval() == (0, 1)
    assert np.isnan(Estimate(0, 0).value)


@pytest.mark.parametrize("p", [0.001, 0.3, 0.97])
def test_interval_covers_as_often_as_it_says(p):
    trials = 60
    hits = np.arange(trials + 1)
    intervals = [Estimate(int(h), trials).interval() for h in hits]
    covered = [low <= p <= high for low, high in intervals]
    coverage = stats.binom.pmf(hits, trials, p)[covered].sum()
    assert 0.95 <= coverage <= 1


draws = st.lists(st.floats(-1e3, 1e3), min_size=0, max_size=30)


@given(draws, draws, draws)
def test_means_pool_as_if_drawn_together(a, b, c):
    parts = [MeanEstimate.of(np.array(x)) for x in (a, b, c)]
    pooled, whole = parts[0] + parts[1] + parts[2], MeanEstimate.of(np.array(a + b + c))
    assert pooled.trials == whole.trials
    for name in ("value", "standard_error"):
        assert getattr(pooled, name) == pytest.approx(
            getattr(whole, name), rel=1e-9, abs=1e-10, nan_ok=True
        )


def test_mean_keeps_its_digits_far_from_zero(rng):
    values = 1e9 + rng.normal(size=10_000)
    pooled = sum((MeanEstimate.of(x) for x in values.reshape(100, 100)), MeanEstimate.of([]))
    assert pooled.value == pytest.approx(values.mean(), rel=1e-15)
    assert pooled.standard_error == pytest.approx(stats.sem(values), rel=1e-6)


def test_mean_interval_is_normal(rng):
    values = rng.normal(2, 3, 5_000)
    expected = stats.norm.interval(0.9, values.mean(), stats.sem(values))
    assert MeanEstimate.of(values).interval(0.9) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(MeanEstimate.of([1.0]).standard_error)
    assert np.isnan(MeanEstimate.of([]).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Estimate(3, 2), r"^hits must be <= trials \(2\); got 3$"),
        (lambda: Estimate(-1, 2), r"^hits must be whole, >= 0; got -1$"),
        (lambda: Estimate(1, 2.5), r"^trials must be whole, >= 0; got 2\.5$"),
        (lambda: Estimate(1, 2).interval(1.0), r"^confidence must be in \(0, 1\); got 1\.0$"),
        (
            lambda: MeanEstimate.of([1.0, float("nan")]),
            r"^draws must be a number; .*at index 1$",
        ),
        (lambda: MeanEstimate.of([1.0]).interval(0), r"^confidence must be in \(0, 1\); got 0\.0$"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
