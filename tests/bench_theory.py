"""Timing bars of the theory, in processor time."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats
from scorio import eval as scorio
from timings import in_turns

from tailmiss import expected_mass_change, log_tail_miss_prob, pass_at_k, tail_miss_prob

pytestmark = pytest.mark.bench

MILLION = 1_000_000


def three_terms(N, mu, tau):
    return (1 - tau) ** N - (mu - tau) ** N - (1 - mu) ** N


@pytest.mark.parametrize("sizes", ["2..64", "2..2^20", "8"])
@pytest.mark.parametrize("function", [tail_miss_prob, log_tail_miss_prob])
def test_tail_miss_takes_at_most_three_times_the_printed_formula(function, sizes, rng, measured):
    """On a million points."""
    last = {"2..64": 6, "2..2^20": 20}.get(sizes)
    N = np.floor(2 ** rng.uniform(1, last, MILLION)) if last else 8.0
    mu = rng.random(MILLION)
    tau = mu * rng.random(MILLION)
    ours, plain = in_turns(lambda: function(N, mu, tau), lambda: three_terms(N, mu, tau), repeats=9)
    what = f"{function.__name__}, a million points, N in {sizes}"
    measured(what, ours, "the three-term formula, up to 1e-3 off", plain, faster=1 / 3)


def product_form(n, c, k):
    """As HumanEval's script writes it, one problem after the other."""
    return [1.0 if n - x < k else 1 - np.prod(1 - k / np.arange(n - x + 1, n + 1)) for x in c]


def test_pass_at_32_of_a_hundred_thousand_problems(rng, measured):
    n, k = 64, 32
    c = rng.integers(0, n + 1, size=100_000)
    flags = (np.arange(n) < c[:, None]).astype(int)
    others = {
        "scipy.stats.hypergeom.sf": lambda: stats.hypergeom.sf(0, n, c, k),
        "scipy.special.comb": lambda: 1 - special.comb(n - c, k) / special.comb(n, k),
        "scorio, mean from 0/1 flags": lambda: scorio.pass_at_k(flags, k),
        "the product form, in a loop": lambda: product_form(n, c, k),
    }
    truth = pass_at_k(n, c, k)
    ours, *theirs = in_turns(lambda: pass_at_k(n, c, k), *others.values(), repeats=5)
    for (name, call), seconds in zip(others.items(), theirs, strict=True):
        np.testing.assert_allclose(np.mean(call()), truth.mean(), rtol=1e-9)
        measured("pass@32 of 100,000 problems, n = 64", ours, name, seconds, within=0.5)


def scattered_policy(rng):
    """The simulation's initial policy with every probability made distinct: nothing is grouped."""
    logits = np.concatenate([[5.0], np.full(9_999, 3.0), np.zeros(118_000)])
    p = np.exp(logits + 0.1 * rng.normal(size=logits.size))
    return p / p.sum()


@pytest.mark.parametrize(("N", "bar"), [(8, 3.0), (131_072, 60.0)])
@pytest.mark.parametrize("surrogate", ["probability", "ratio"])
@pytest.mark.parametrize("n_correct", [10_000, 120_000])
def test_expected_mass_change(surrogate, N, bar, n_correct, rng, measured):
    """K = 128,000 on one core."""
    p = scattered_policy(rng)
    correct = np.arange(p.size) < n_correct
    options = {"rule": "grpo", "gamma": 1.0, "surrogate": surrogate}
    (ours,) = in_turns(lambda: expected_mass_change(p, correct, N, **options), repeats=1, warm_up=0)
    what = f"expected mass change, K = 128,000, {n_correct:,} correct, N = {N:,}, {surrogate}"
    measured(what, ours, within=bar)


def test_import_takes_under_0_4_seconds(measured):
    """Median of five fresh interpreters."""
    code = "import time; s = time.process_time(); import tailmiss; print(time.process_time() - s)"
    run = [sys.executable, "-c", code]
    times = [float(subprocess.check_output(run)) for _ in range(5)]
    measured("import tailmiss", times, within=0.4)
