"""Group events against mpmath, the published peaks, brute force, and bad input."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailmiss import (
    concentration_zone,
    covering_group_size,
    log_tail_miss_prob,
    miss_prob,
    mixed_group_prob,
    tail_miss_prob,
    worst_group_size,
)


def spread(rng, size):
    """Masses from 1e-12 to 1 - 1e-12, as many near 1 as near 0."""
    small = 10.0 ** rng.uniform(-12, np.log10(0.5), size)
    return np.where(rng.random(size) < 0.5, small, 1 - small)


@pytest.fixture(scope="module")
def table():
    """N, mu_pos, tau, true value and true logarithm at some 24,000 points.

    Recipe: mpmath.mp.dps = 80; t, m = mpf(tau), mpf(mu); (1 - t)**N - (m - t)**N - (1 - m)**N
    """
    rng = np.random.default_rng(20260206)
    size = 24_000
    N = np.floor(2.0 ** rng.uniform(1, 20.0001, size))
    mu = np.clip(spread(rng, size), 1e-12, 1 - 1e-12)
    tau = mu * spread(rng, size)
    # in half the points a group of that size may well miss the subset
    tau = np.where(rng.random(size) < 0.5, np.minimum(tau, 10.0 ** rng.uniform(-3, 2.5) / N), tau)
    keep = (tau > 0) & (tau < mu)
    N, mu, tau = N[keep], mu[keep], tau[keep]
    value, log = np.empty((2, N.size))
    with mpmath.workdps(80):
        for i in range(N.size):
            n, m, t = int(N[i]), mpmath.mpf(mu[i].item()), mpmath.mpf(tau[i].item())
            miss = (1 - t) ** n
            true = miss - (m - t) ** n - (1 - m) ** n
            assert true > miss * mpmath.mpf(10) ** -60  # 20 digits left at least
            value[i], log[i] = float(true), float(mpmath.log(true))
    return N, mu, tau, value, log


def test_relative_error_against_mpmath(table):
    N, mu, tau, value, _ = table
    normal = value > 1e-290
    assert normal.sum() >= 20_000
    assert mu[normal].min() < 1e-11
    assert mu[normal].max() > 1 - 1e-11
    assert N[normal].max() > 2**19.9
    found = tail_miss_prob(N, mu, tau)[normal]
    assert np.max(np.abs(found / value[normal] - 1)) <= 1e-12


def test_relative_error_of_the_logarithm_everywhere(table):
    N, mu, tau, _, log = table
    assert np.min(log) < -100_000
    assert np.max(np.abs(log_tail_miss_prob(N, mu, tau) / log - 1)) <= 1e-12


def test_miss_and_mixed_against_mpmath(table):
    N, mu, tau, *_ = (column[::10] for column in table)
    mixed, miss = [], []
    with mpmath.workdps(80):
        for n, m, t in zip(N.tolist(), mu.tolist(), tau.tolist(), strict=True):
            mixed.append(float(1 - mpmath.mpf(m) ** int(n) - (1 - mpmath.mpf(m)) ** int(n)))
            miss.append(float((1 - mpmath.mpf(t)) ** int(n)))
    np.testing.assert_allclose(mixed_group_prob(N, mu), mixed, rtol=1e-12)
    seen = np.array(miss) > 1e-290
    np.testing.assert_allclose(miss_prob(N, tau)[seen], np.array(miss)[seen], rtol=1e-12)


masses = st.floats(0, 1)
sizes = st.integers(1, 2**20)


@given(sizes, masses, masses)
def test_always_a_probability(N, mu, share):
    tau = min(mu * share, mu)
    value, log = tail_miss_prob(N, mu, tau), log_tail_miss_prob(N, mu, tau)
    assert 0 <= value <= 1
    assert log <= 0
    assert np.exp(log) == pytest.approx(value, rel=1e-12, abs=1e-300)
    assert 0 <= value <= min(miss_prob(N, tau), mixed_group_prob(N, mu)) * (1 + 1e-14)


@given(sizes, masses)
def test_edges(N, mu):
    assert tail_miss_prob(N, mu, 0.0) == pytest.approx(mixed_group_prob(N, mu), rel=1e-13)
    assert tail_miss_prob(N, mu, mu) == 0  # a group without the subset is then all wrong
    assert tail_miss_prob(1, mu, mu / 2) == 0
    assert tail_miss_prob(N, 1.0, mu) == 0
    assert mixed_group_prob(1, mu) == 0
    assert miss_prob(N, 1.0) == 0 if N else 1
    assert log_tail_miss_prob(N, 1.0, mu) == -np.inf


def test_a_large_array_gives_what_its_elements_give(rng):
    N, mu = rng.integers(1, 2000, (300, 1)), rng.random(200)
    tau = mu * 0.1
    for function in (tail_miss_prob, log_tail_miss_prob):
        whole = function(N, mu, tau)
        assert whole.shape == (300, 200)
        assert whole[17, 5] == function(N[17, 0], mu[5], tau[5])
        assert whole[-1, -1] == function(N[-1, 0], mu[-1], tau[-1])
    assert tail_miss_prob([], 0.5, 0.1).shape == (0,)


PEAKS = """0.3 .05 9 .8325; 0.3 .1 8 .7261; 0.3 .2 6 .5720; 0.8 .01 15 .8562; 0.8 .05 8 .6101;
0.8 .1 6 .4670; 0.8 .2 4 .3285; 0.5 .01 8 .9532; 0.5 .05 6 .8320; 0.5 .1 5 .7241; 0.5 .2 4 .5680;
0.2 .01 21 .9496; 0.2 .05 15 .8249; 0.2 .1 12 .7160; 0.2 .2 9 .5583"""


@pytest.mark.parametrize("row", PEAKS.split(";"))
def test_peaks_of_figures_1_and_3(row):
    mu, rho, N, peak = map(float, row.split())
    curve = tail_miss_prob(np.arange(1, 513), mu, mu * rho)
    assert worst_group_size(mu, mu * rho) == N == 1 + np.argmax(curve)
    assert round(float(curve.max()), 4) == peak


CURVE = """2 .4608; 4 .8152; 8 .9711; 16 .9982; 64 .9960; 256 .9840; 4096 .7726; 16384 .3562;
32768 .1269; 65536 .0161; 131072 .000259"""


@pytest.mark.parametrize("row", CURVE.split(";"))
def test_curve_of_figure_5(row):
    N, value = map(float, row.split())
    found = float(tail_miss_prob(N, 0.64, 6.3e-5))
    assert round(found, 4) == value or float(f"{found:.2e}") == value


interior = st.floats(1e-3, 0.999)


@given(interior, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_peak_covering_size_and_zone_by_brute_force(mu, rho, level):
    tau = mu * rho
    worst = int(worst_group_size(mu, tau))
    cover = int(covering_group_size(mu, tau, level))
    first, last = concentration_zone(mu, tau, level)
    N = np.arange(1, max(worst, cover, int(last)) + 50)
    curve = tail_miss_prob(N, mu, tau)
    assert curve[worst - 1] == pytest.approx(curve.max(), rel=1e-13)
    rises, falls = curve[:worst], curve[worst - 1 :]
    assert np.all(np.diff(rises) >= -1e-15)
    assert np.all(np.diff(falls) <= 1e-15)
    assert cover == worst + np.argmax(falls <= level)
    inside = N[curve >= level]
    assert (first, last) == ((inside[0], inside[-1]) if inside.size else (0, 0))


def test_peak_and_covering_size_of_tiny_masses():
    mu, tau = 1e-9, 1e-12
    worst = worst_group_size(mu, tau)
    nearby = tail_miss_prob(worst + np.arange(-3, 4) * (worst // 1000), mu, tau)
    assert np.argmax(nearby) == 3
    cover = covering_group_size(mu, tau, 0.01)
    assert tail_miss_prob(cover, mu, tau) <= 0.01 < tail_miss_prob(cover - 1, mu, tau)
    assert worst_group_size([0.3, 0.5], 0.015).tolist() == [9, 6 + 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tail_miss_prob(8, 0.3, 0.4), r"^tau must be <= mu_pos \(0\.3\); got 0\.4$"),
        (lambda: tail_miss_prob(8, [0.3, 0.5], [0.1, 0.6]), r"got 0\.6 at index 1$"),
        (
            lambda: tail_miss_prob(8, [[0.3, 1.5]], 0.1),
            r"^mu_pos must be in \[0, 1\]; got 1\.5 at ",
        ),
        (lambda: tail_miss_prob(8, 0.5, float("nan")), r"^tau must be a number; got nan$"),
        (lambda: tail_miss_prob(0, 0.5, 0.1), r"^N must be whole, >= 1; got 0$"),
        (
            lambda: tail_miss_prob([8, 2.5], 0.5, 0.1),
            r"^N must be whole, >= 1; got 2\.5 at index 1$",
        ),
        (lambda: tail_miss_prob("8", 0.5, 0.1), r"^N must be real numbers; got '8'$"),
        (lambda: log_tail_miss_prob(8, -0.1, 0.0), r"^mu_pos must be in \[0, 1\]; got -0\.1$"),
        (lambda: mixed_group_prob(8, 2), r"^mu_pos must be in \[0, 1\]; got 2\.0$"),
        (lambda: miss_prob(-1, 0.5), r"^N must be whole, >= 1; got -1$"),
        (lambda: worst_group_size(0.5, 0.5), r"^tau must be < mu_pos \(0\.5\); got 0\.5$"),
        (lambda: worst_group_size(1.0, 0.5), r"^mu_pos must be in \(0, 1\); got 1\.0$"),
        (lambda: covering_group_size(0.5, 0.1, 0), r"^delta must be in \(0, 1\); got 0\.0$"),
        (
            lambda: covering_group_size(0.5, [0.1, 1e-20], 0.1),
            r"^tau must be large enough for the covering .* 2\*\*53; got 1e-20 at index 1$",
        ),
        (
            lambda: worst_group_size(1e-300, 1e-301),
            r"^tau must be large enough for the worst .* 2\*\*53; got 1e-301$",
        ),
        (
            lambda: miss_prob([8, 2**60], 0.5),
            r"^N must be whole, >= 1 and <= .*; got 1152921504606846976 at index 1$",
        ),
        (lambda: concentration_zone(0.5, 0.1, 1.0), r"^level must be in \(0, 1\); got 1\.0$"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
