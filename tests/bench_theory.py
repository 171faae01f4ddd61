"""Timing bars of the theory, in processor time: each prints its number and asserts its bar."""

import json
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

from tailmiss import expected_mass_change, log_tail_miss_prob, tail_miss_prob

pytestmark = pytest.mark.bench

MILLION = 1_000_000


def seconds(function, repeats=7):
    """Median time of a call after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times[1:])


def three_terms(N, mu, tau):
    return (1 - tau) ** N - (mu - tau) ** N - (1 - mu) ** N


@pytest.mark.parametrize("sizes", ["2..64", "2..2^20", "8"])
@pytest.mark.parametrize("function", [tail_miss_prob, log_tail_miss_prob])
def test_tail_miss_takes_at_most_three_times_the_printed_formula(function, sizes, rng):
    """On a million points; measured 0.7 to 2.1 times."""
    last = {"2..64": 6, "2..2^20": 20}.get(sizes)
    N = np.floor(2 ** rng.uniform(1, last, MILLION)) if last else 8.0
    mu = rng.random(MILLION)
    tau = mu * rng.random(MILLION)
    ratios = []
    for _ in range(3):
        plain = seconds(lambda: three_terms(N, mu, tau))
        ratios.append(seconds(lambda: function(N, mu, tau)) / plain)
    print(f"{function.__name__}, N in {sizes}: {statistics.median(ratios):.2f} times")
    assert statistics.median(ratios) <= 3


def scattered_policy(rng):
    """The simulation's initial policy with every probability made distinct: nothing is grouped."""
    logits = np.concatenate([[5.0], np.full(9_999, 3.0), np.zeros(118_000)])
    p = np.exp(logits + 0.1 * rng.normal(size=logits.size))
    return p / p.sum(), np.arange(p.size) < 10_000


@pytest.mark.parametrize(("N", "bar"), [(8, 3.0), (131_072, 60.0)])
@pytest.mark.parametrize("surrogate", ["probability", "ratio"])
@pytest.mark.parametrize("n_correct", [10_000, 120_000])
def test_expected_mass_change(surrogate, N, bar, n_correct, rng):
    """K = 128,000 on one core."""
    p, _ = scattered_policy(rng)
    correct = np.arange(p.size) < n_correct
    options = {"rule": "grpo", "gamma": 1.0, "surrogate": surrogate}
    start = time.process_time()
    expected_mass_change(p, correct, N, **options)
    took = time.process_time() - start
    print(f"K = 128,000, {n_correct} correct, N = {N}, {surrogate}: {took:.2f} s")
    assert took <= bar


def test_import_takes_under_0_4_seconds():
    """Median of five fresh interpreters."""
    code = "import time; s = time.process_time(); import tailmiss; print(time.process_time() - s)"
    run = [sys.executable, "-c", code]
    times = [json.loads(subprocess.check_output(run)) for _ in range(5)]
    print(f"import tailmiss: {statistics.median(times):.3f} s")
    assert statistics.median(times) < 0.4
