"""pass@k and its relatives against integers, enumeration, another package, and coverage counts."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb, floor

import numpy as np
import pytest

from calibrated import assert_bernoulli, assert_mean
from tailmiss import mean_pass_at_k, pass_at_k_variance, passk, posterior_pass_at_k
from tailmiss.advantages import advantage_table
from tailmiss.bootstrap import mean_over_problems


def exact_all_wrong(n: int, c: int, k: int) -> Fraction:
    """C(n-c, k) / C(n, k), by whole numbers."""
    few, many = min(c, k), max(c, k)
    top = bottom = 1
    for i in range(few):
        top *= max(n - many - i, 0)
        bottom *= n - i
    return Fraction(top, bottom)


def relative_error(value: float, truth: Fraction) -> float:
    return float(abs(Fraction(float(value)) / truth - 1)) if truth else abs(float(value))


def test_all_measures_equal_counting_subsets():
    for n in range(1, 8):
        for c in range(n + 1):
            flags = [1] * c + [0] * (n - c)
            for k in range(1, n + 1):
                wins = [sum(s) for s in combinations(flags, k)]
                size = len(wins)
                expected = {
                    passk.pass_at_k: sum(w >= 1 for w in wins) / size,
                    passk.pass_hat_k: sum(w == k for w in wins) / size,
                    passk.maj_at_k: sum(2 * w > k for w in wins) / size,
                    passk.mg_pass_at_k: 2
                    / k
                    * sum(sum(w >= i for w in wins) / size for i in range((k + 1) // 2 + 1, k + 1)),
                }
                for measure, value in expected.items():
                    assert measure(n, c, k) == pytest.approx(value, rel=1e-13, abs=1e-15)
                for j in range(k + 1):
                    share = sum(w >= max(1, j) for w in wins) / size
                    assert passk.g_pass_at_k(n, c, k, j / k) == pytest.approx(share, rel=1e-13)


def test_pass_at_k_against_integers_up_to_100_000():
    n = sorted({int(a) for a in np.geomspace(2, 100_000, 25)})
    cases = [
        (a, c, k)
        for a in n
        for c in {0, 1, 2, a // 100, a // 3, a - 1, a}
        for k in {1, 2, 10, a // 50, a // 3, a - 1, a}
        if 0 <= c <= a and 1 <= k <= a and min(c, k) <= 40_000
    ]
    big = [case for case in cases if min(case[1], case[2]) > 400]
    cases = [case for case in cases if min(case[1], case[2]) <= 400] + big[:: len(big) // 25]
    cases += [(100_000, 1, 10), (100_000, 33_333, 20_000), (100_000, 7, 99_000), (2048, 3, 1024)]
    got = passk.pass_at_k(*np.array(cases).T)
    hat = passk.pass_hat_k(*np.array([(n, n - c, k) for n, c, k in cases]).T)
    for (n_, c_, k_), value, all_wrong in zip(cases, got, hat, strict=True):
        truth = exact_all_wrong(n_, c_, k_)
        assert relative_error(value, 1 - truth) <= 1e-12, (n_, c_, k_)
        if truth > Fraction(1, 10**290):
            assert relative_error(all_wrong, truth) <= 1e-12, (n_, c_, k_)
    assert len(cases) > 500


def test_log_all_wrong_prob_keeps_digits_where_the_probability_underflows():
    value = passk.log_all_wrong_prob(100_000, 40_000, 20_000)
    import mpmath

    with mpmath.workdps(40):
        truth = mpmath.log(mpmath.mpf(comb(60_000, 20_000)) / comb(100_000, 20_000))
        assert abs(value / truth - 1) < 1e-14


def test_g_pass_and_mg_pass_against_integers_at_large_n():
    for n, c, k in [(1000, 370, 200), (5000, 40, 900), (20_000, 15_000, 2000), (3000, 2990, 1500)]:
        weights = [comb(c, j) * comb(n - c, k - j) for j in range(k + 1)]
        total = comb(n, k)
        for tau in (0.01, 0.3, 0.5, 0.8, 1.0):
            needed = max(1, -floor(-Fraction(str(tau)) * k))
            truth = Fraction(sum(weights[needed:]), total)
            if truth > Fraction(1, 10**290):
                assert relative_error(passk.g_pass_at_k(n, c, k, tau), truth) < 1e-12, (n, c, k)
        majority = (k + 1) // 2
        truth = Fraction(2, k) * sum((j - majority) * weights[j] for j in range(majority, k + 1))
        if truth > Fraction(total, 10**290):
            assert relative_error(passk.mg_pass_at_k(n, c, k), truth / total) < 1e-12, (n, c, k)


def test_share_that_rounds_above_a_whole_number_needs_that_number():
    assert passk.g_pass_at_k(100, 50, 100, 0.07 / 0.14) == 1.0
    for k in range(1, 40):
        for j in range(1, k + 1):
            assert passk.g_pass_at_k(k, j, k, j / k) == 1.0
            assert passk.g_pass_at_k(k, j - 1, k, j / k) == 0.0


@pytest.mark.parametrize("k", [1, 2, 3, 5, 16])
def test_agrees_with_scorio_on_its_whole_pass_family(k, rng):
    from scorio import eval as scorio

    flags = (rng.random((30, 16)) < rng.beta(0.5, 0.8, size=(30, 1))).astype(int)
    n, c = np.full(30, 16), flags.sum(1)
    pairs = [
        (passk.pass_at_k, scorio.pass_at_k, scorio.pass_at_k_ci, "pass_at_k", {}),
        (passk.pass_hat_k, scorio.pass_hat_k, scorio.pass_hat_k_ci, "pass_hat_k", {}),
        (passk.maj_at_k, scorio.maj_at_k, scorio.maj_at_k_ci, "maj_at_k", {}),
        (passk.mg_pass_at_k, scorio.mg_pass_at_k, scorio.mg_pass_at_k_ci, "mg_pass_at_k", {}),
    ]
    pairs += [
        (
            lambda *a, tau=tau: passk.g_pass_at_k(*a, tau),
            lambda R, k, tau=tau: scorio.g_pass_at_k_tau(R, k, tau),
            lambda R, k, tau=tau, **o: scorio.g_pass_at_k_tau_ci(R, k, tau, **o),
            "g_pass_at_k",
            {"tau": tau},
        )
        for tau in (0.0, 0.25, 0.5, 0.7, 1.0)
    ]
    for ours, theirs, their_interval, measure, options in pairs:
        value = float(np.mean(ours(n, c, k)))
        assert value == pytest.approx(theirs(flags, k), rel=1e-12, abs=1e-15)
        average = mean_pass_at_k(n, c, k, measure=measure, **options)
        assert average.value == pytest.approx(value, rel=1e-12)
        for prior in ((1.0, 1.0), (0.5, 2.0)):
            mean, sd = posterior_pass_at_k(n, c, k, measure=measure, prior=prior, **options)
            mu, sigma, *_ = their_interval(flags, k, alpha0=prior[0], beta0=prior[1])
            assert mean.mean() == pytest.approx(mu, rel=1e-10, abs=1e-13)
            assert np.sqrt((sd**2).sum()) / 30 == pytest.approx(sigma, rel=1e-7, abs=1e-9)
    mean, sd = posterior_pass_at_k(n, c, 1)
    mu, sigma = scorio.bayes(flags)
    assert (mean.mean(), np.sqrt((sd**2).sum()) / 30) == pytest.approx((mu, sigma), rel=1e-12)


def test_posterior_lifts_a_hopeless_problem():
    mean, _ = posterior_pass_at_k(64, 0, 64)
    assert float(mean) == pytest.approx(64 / 129, rel=1e-12)


def test_no_value_where_k_exceeds_n():
    assert np.isnan(passk.pass_at_k(2, 0, 5))
    assert np.isnan(passk.pass_at_k(2, 2, 5))
    for measure in passk.MEASURES.values():
        assert np.isnan(measure([2, 4], [2, 4], 3)).tolist() == [True, False]
    assert np.isnan(passk.g_pass_at_k(2, 2, 3, 0.5))
    assert np.isnan(pass_at_k_variance(3, 1, 2))
    result = mean_pass_at_k([2, 8], [2, 0], 5)
    assert (result.value, result.used, result.left_out) == (0.0, 1, 1)
    none = mean_pass_at_k([2, 3], [2, 0], 5)
    assert np.isnan([none.value, none.low, none.high]).all()
    assert (none.used, none.left_out) == (0, 2)


def test_variance_estimate_is_unbiased_by_enumeration():
    n, k = 6, 2
    for p in (Fraction(1, 5), Fraction(2, 3)):
        chance = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
        values = [1 - exact_all_wrong(n, c, k) for c in range(n + 1)]
        mean = sum(w * v for w, v in zip(chance, values, strict=True))
        truth = sum(w * v * v for w, v in zip(chance, values, strict=True)) - mean**2
        estimates = pass_at_k_variance(n, np.arange(n + 1), k)
        assert np.dot([float(w) for w in chance], estimates) == pytest.approx(float(truth))


def test_estimates_are_unbiased_and_the_plug_in_is_not(rng):
    n, k, p = 16, 8, 0.1
    c = rng.binomial(n, p, size=200_000)
    truth = 1 - (1 - p) ** k
    assert_mean(passk.pass_at_k(n, c, k), truth, detects=0.01)
    assert np.mean(1 - (1 - c / n) ** k) < truth - 0.03


def test_interval_over_problems_covers_at_its_rate(rng):
    trials, problems, n, k = 1200, 120, 16, 4
    truth = 1 - np.prod([(2.0 + i) / (3.0 + i) for i in range(k)])
    covered = 0
    for _ in range(trials):
        c = rng.binomial(n, rng.beta(1.0, 2.0, size=problems))
        interval = mean_pass_at_k([n] * problems, c, k, resamples=400, rng=rng)
        covered += interval.low <= truth <= interval.high
    assert_bernoulli(covered, trials, 0.942, detects=0.08)


def test_interval_is_reproducible_and_ordered(rng):
    c = rng.integers(0, 9, size=40)
    first = mean_pass_at_k([8] * 40, c, 4)
    assert first == mean_pass_at_k([8] * 40, c, 4)
    assert first.low < first.value < first.high
    wider = mean_pass_at_k([8] * 40, c, 4, confidence=0.99)
    assert wider.low <= first.low
    assert wider.high >= first.high
    many = mean_over_problems(rng.random(100_000), resamples=20)
    assert many.used == 100_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 5, 1), r"c must be <= n \(4.0\); got 5.0"),
        (([4, 4], [1, 6], 1), r"c must be <= n \(4.0\); got 6.0 at index 1"),
        ((4, 1, 0), "k must be whole, >= 1; got 0"),
        ((4, 1, [1, 2.5]), "k must be whole, >= 1; got 2.5 at index 1"),
        ((4, [1, np.nan], 1), "c must be a number; got nan at index 1"),
        ((-1, 0, 1), "n must be whole, >= 0; got -1"),
        (("many", 0, 1), "n must be real numbers; got 'many'"),
        ((None, 0, 1), "n must be real numbers; got None"),
    ],
)
def test_bad_counts_are_named(arguments, message):
    for function in (*passk.MEASURES.values(), pass_at_k_variance):
        with pytest.raises(ValueError, match=f"^{message}$"):
            function(*arguments)
    with pytest.raises(ValueError, match=f"^{message}$"):
        passk.g_pass_at_k(*arguments, 0.5)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match=r"tau must be in \[0, 1\]; got 1.5"):
        passk.g_pass_at_k(4, 1, 2, 1.5)
    with pytest.raises(ValueError, match="tau must be given"):
        mean_pass_at_k([4], [1], 2, measure="g_pass_at_k")
    with pytest.raises(ValueError, match="measure must be one of"):
        mean_pass_at_k([4], [1], 2, measure="passes")
    with pytest.raises(ValueError, match="prior must be in"):
        posterior_pass_at_k(4, 1, 2, prior=(0.0, 1.0))
    for prior in (1.0, (1.0,), (1.0, 1.0, 1.0)):
        with pytest.raises(ValueError, match="prior must be two numbers"):
            posterior_pass_at_k(4, 1, 2, prior=prior)
    for resamples in (0, -1, 1.5):
        with pytest.raises(ValueError, match="resamples must be whole, >= 1"):
            mean_pass_at_k([4, 4], [1, 2], 2, resamples=resamples)
    with pytest.raises(ValueError, match="confidence must be in"):
        mean_pass_at_k([4, 4], [1, 2], 2, confidence=1.0)


def test_results_keep_the_shape_of_their_inputs():
    assert passk.pass_at_k(4, 2, 2).shape == ()
    assert passk.pass_at_k(np.full((3, 1), 8), [1, 2], 4).shape == (3, 2)
    assert passk.mg_pass_at_k(np.full((3, 1), 8), [1, 2], 4).shape == (3, 2)
    assert passk.pass_at_k([], [], 1).shape == (0,)
    assert passk.g_pass_at_k([], [], 1, 0.5).shape == (0,)


def test_advantage_tables_stand_on_it():
    correct, _ = advantage_table("pkpo", 8, k=3, leave_out=True)
    assert correct[2] == pytest.approx(3 * comb(6, 2) / comb(7, 2))
