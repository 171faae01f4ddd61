"""Populations of prompts: averages against other formulas, recovery and calibrated intervals."""

from __future__ import annotations

from itertools import combinations
from math import comb

import mpmath
import numpy as np
import pytest
from scipy import stats

from calibrated import assert_bernoulli
from tailmiss._audit_regime import _landmarks, regime
from tailmiss.prompts import PromptPopulation, mixed_share, tail_miss_share
from tailmiss.tail_miss import mixed_group_prob, tail_miss_prob

LAWS = [(0.6, 1.2, 0.15, 0.1), (0.3, 0.9, 0.0, 0.0), (1.5, 2.0, 0.3, 0.0), (0.5, 0.5, 0.1, 0.2)]


def simulate(rng, law, prompts=2000, n=16):
    alpha, beta, zero, one = law
    p, u = rng.beta(alpha, beta, prompts), rng.random(prompts)
    return rng.binomial(n, np.where(u < zero, 0.0, np.where(u < zero + one, 1.0, p)))


def test_shares_equal_counting_subsets():
    for n in range(2, 7):
        for c in range(n + 1):
            flags = [1] * c + [0] * (n - c)
            for N in range(1, n + 1):
                wins = [sum(s) for s in combinations(flags, N)]
                mixed = [w for w in wins if 0 < w < N]
                assert mixed_share(n, c, N) == pytest.approx(len(mixed) / len(wins), abs=1e-15)
                for rho in (0.0, 0.2, 1.0):
                    missed = sum((1 - rho) ** w for w in mixed) / len(wins)
                    assert tail_miss_share(n, c, N, rho) == pytest.approx(missed, abs=1e-15)


def test_shares_are_unbiased():
    n, N, rho = 9, 5, 0.3
    c = np.arange(n + 1)
    for p in (0.05, 0.4, 0.9):
        chance = np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in c])
        assert chance @ mixed_share(n, c, N) == pytest.approx(mixed_group_prob(N, p))
        expected = tail_miss_prob(N, p, rho * p)
        assert chance @ tail_miss_share(n, c, N, rho) == pytest.approx(expected)


@pytest.mark.parametrize("law", LAWS)
def test_averages_against_mpmath(law):
    population = PromptPopulation(*law)
    a, b, zero, one = law
    rest = 1 - zero - one
    with mpmath.workdps(30):
        for N, rhos in ((2, (0.01, 0.3)), (8, (0.05,)), (64, (0.05, 0.3)), (4096, (0.01, 0.05))):
            right = mpmath.beta(a + N, b) / mpmath.beta(a, b)
            wrong = mpmath.beta(a, b + N) / mpmath.beta(a, b)
            assert float(population.mixed_group_prob(N)) == pytest.approx(
                float(rest * (1 - right - wrong)), rel=1e-10
            )
            assert float(population.pass_at_k(N)) == pytest.approx(
                float(1 - zero - rest * wrong), rel=1e-10
            )
            for rho in rhos:
                none = mpmath.hyp2f1(-N, b, a + b, rho / (rho - 1)) * (1 - mpmath.mpf(rho)) ** N
                missed = none - (1 - mpmath.mpf(rho)) ** N * right - wrong
                assert float(population.tail_miss_prob(N, rho)) == pytest.approx(
                    float(rest * missed), rel=1e-7
                ), (N, rho)


def test_average_and_counts_agree():
    population = PromptPopulation(*LAWS[0])
    assert population.average(lambda p: p) == pytest.approx(population.mean_rate)
    assert population.expected_counts(12) @ np.arange(13) / 12 == pytest.approx(
        population.mean_rate
    )
    assert population.expected_counts(12).sum() == pytest.approx(1)
    grid = np.linspace(0, 1, 100_001)[1:-1]
    part = PromptPopulation(1.5, 2.0, 0.3, 0.0)
    assert part.density(grid).mean() == pytest.approx(0.7, abs=1e-4)
    assert population.pass_hat_k([1, 3]) == pytest.approx(
        population.average(lambda p: p ** np.array([[1], [3]]))
    )
    shape = population.tail_miss_prob([[2], [4]], [0.1, 0.2, 0.3]).shape
    assert shape == (2, 3)


def test_gradient_of_the_likelihood(rng):
    from scipy.optimize import approx_fprime

    from tailmiss._population_fit import _loss, distinct_counts

    cells = distinct_counts(16, simulate(rng, LAWS[0]))
    for x in ([-0.3, 0.4, 0.2, 0.1], [1.0, -1.0, 1e-3, 0.5]):
        x = np.array(x)
        numeric = approx_fprime(x, lambda y: _loss(y, cells)[0], 1e-7)
        assert _loss(x, cells)[1] == pytest.approx(numeric, rel=1e-3, abs=1e-2)


def test_fit_is_the_best_of_a_grid(rng):
    c = simulate(rng, LAWS[2], prompts=400)
    best = PromptPopulation.fit(16, c)
    from tailmiss._population_fit import _loss

    for a in (0.5, 1.0, 2.0, 4.0):
        for b in (0.5, 1.0, 2.0, 4.0):
            for z in (0.0, 0.1, 0.3, 0.5):
                x = np.array([np.log(a), np.log(b), z, 0.0])
                assert -_loss(x, best.cells)[0] <= best.log_likelihood + 1e-6


STATISTICS = {
    "alpha": lambda p: np.log(p.alpha),
    "beta": lambda p: np.log(p.beta),
    "zero": lambda p: p.zero,
    "one": lambda p: p.one,
    "mixed share at 64": lambda p: p.mixed_group_prob(64),
    "pass@256": lambda p: p.pass_at_k(256),
}


def coverage(rng, law, names, repeats):
    truth, covered = PromptPopulation(*law), dict.fromkeys(names, 0)
    for _ in range(repeats):
        fit = PromptPopulation.fit(16, simulate(rng, law))
        for name in names:
            low, high = fit.interval(STATISTICS[name])
            covered[name] += low - 1e-6 <= STATISTICS[name](truth) <= high + 1e-6
    return covered


def test_predicted_mixed_share_is_covered(rng):
    covered = sum(
        coverage(rng, law, ["mixed share at 64"], 12)["mixed share at 64"] for law in LAWS
    )
    assert covered >= 40  # of 48; at a rate of 0.95 fewer come once in 1,500 runs


@pytest.mark.long
def test_intervals_cover_at_their_rate(rng):
    """200 simulated populations, 50 of each law; where a mass is 0 more are covered than stated."""
    total = dict.fromkeys(STATISTICS, 0)
    for law in LAWS:
        for name, count in coverage(rng, law, STATISTICS, 50).items():
            total[name] += count
    for name in ("alpha", "beta", "mixed share at 64", "pass@256"):
        assert_bernoulli(total[name], 200, 0.95, false_fail=1e-4, detects=0.17)
    assert min(total.values()) >= stats.binom.ppf(1e-4, 200, 0.95)


def zone_end_covered(rng, repeats):
    """How often the interval of the zone's end holds the truth: Beta(0.5, 1), 50 prompts x 8."""
    truth = _landmarks(PromptPopulation(0.5, 1.0), 0.05)[1]
    covered = 0
    for _ in range(repeats):
        fit = PromptPopulation.fit(np.full(50, 8), rng.binomial(8, rng.beta(0.5, 1, 50)))
        low, high = fit.interval(lambda p: _landmarks(p, 0.05)[1])
        covered += low - 1e-3 <= truth <= high + 1e-3
    return covered


def test_the_end_of_the_zone_is_covered(rng):
    assert zone_end_covered(rng, 25) >= 18  # at a rate of 0.93 fewer come once in 4,000 runs


@pytest.mark.long
def test_the_end_of_the_zone_is_covered_at_its_rate(rng):
    """0.95 is stated; of 700 other draws 652, 0.93, were covered."""
    assert_bernoulli(zone_end_covered(rng, 400), 400, 0.93, false_fail=1e-4, detects=0.12)


@pytest.mark.parametrize("law", [(0.5, 1, 0.05), (0.3, 3, 0.01), (2, 3, 0.1), (0.8, 0.5, 0.05)])
def test_landmarks_between_sizes_are_those_of_whole_sizes(law):
    population = PromptPopulation(*law[:2])
    found, (worst, end) = regime(population, 8, law[2]), np.exp(_landmarks(population, law[2]))
    assert end == pytest.approx(found.last + 0.5, rel=0.01, abs=0.6)
    curve = population.tail_miss_prob([round(worst)], law[2])
    assert curve[0] == pytest.approx(found.peak, rel=1e-3)


def test_masses_need_enough_rollouts():
    few = PromptPopulation.fit([3] * 6, [0, 0, 1, 2, 3, 3])
    assert (few.zero, few.one) == (0, 0)
    low, high = few.interval(lambda p: p.pass_at_k(8))
    assert low < few.pass_at_k(8) < high
    plain = PromptPopulation.fit([8] * 6, [0, 0, 0, 4, 5, 6], masses=False)
    assert (plain.zero, plain.one) == (0, 0)


def test_interval_of_a_statistic_that_hardly_moves():
    """Past a narrow law pass@k is 1 and the likelihood falls by less than rounding."""
    population = PromptPopulation.fit([8, 8], [1, 3])
    for k in (16, 64, 256, 4096):
        low, high = population.interval(lambda p, k=k: p.pass_at_k(k))
        assert 0 < low <= population.pass_at_k(k) <= high <= 1


def test_the_fit_is_tested_at_its_level(rng):
    """Under the law p-values are uniform; a law of two points is found out every time."""
    hits = 0
    for _ in range(40):
        rates = np.where(rng.random(150) < 0.2, 0.0, rng.beta(0.8, 2.0, 150))
        fit = PromptPopulation.fit(8, rng.binomial(8, rates))
        hits += fit.fit_p_value(rng=rng) <= 0.3
    assert_bernoulli(hits, 40, 0.3, false_fail=1e-6, detects=0.65)
    for _ in range(3):
        two = PromptPopulation.fit(16, rng.binomial(16, rng.choice([0.1, 0.6], 300)))
        assert two.fit_p_value(rng=rng) == 1 / 60


def test_what_cannot_be_tested_is_nan_and_a_seed_decides():
    for n in (2, 4):
        few = PromptPopulation.fit([n] * 30, [0, 1, n] * 10)
        assert np.isnan(few.fit_p_value())
    fit = PromptPopulation.fit([8] * 40, [0, 1, 3, 8] * 10)
    assert fit.fit_p_value(rng=1) == fit.fit_p_value(rng=1)
    assert fit.fit_p_value(draws=9) >= 0.1
    with pytest.raises(ValueError, match="no fit to test"):
        PromptPopulation(1, 1).fit_p_value()
    with pytest.raises(ValueError, match="draws must be whole"):
        fit.fit_p_value(draws=0)


@pytest.mark.parametrize("n", [16, 1000, 100_000])
def test_any_number_of_rollouts_can_be_fitted(n, rng):
    p = rng.beta(1.0, 1.0, 1000)
    fit = PromptPopulation.fit(n, rng.binomial(n, p))
    assert (fit.alpha, fit.beta) == pytest.approx((1.0, 1.0), abs=0.3)
    assert fit.pass_at_k(2) == pytest.approx(2 / 3, abs=0.05)
    assert fit.zero + fit.one < 0.05


def test_the_likelihood_is_that_of_the_counts():
    fit = PromptPopulation.fit([4, 4, 6, 6], [1, 4, 0, 3])
    pairs = zip([4, 4, 6, 6], [1, 4, 0, 3], strict=True)
    direct = sum(np.log(fit.expected_counts(n)[c]) for n, c in pairs)
    assert fit.log_likelihood == pytest.approx(direct, rel=1e-9)


def test_different_numbers_of_rollouts_fit_together(rng):
    n = np.repeat([4, 32], 1500)
    p = rng.beta(0.8, 1.6, n.size)
    fit = PromptPopulation.fit(n, rng.binomial(n, p))
    low, high = fit.interval(lambda q: q.mixed_group_prob(128))
    assert low < PromptPopulation(0.8, 1.6).mixed_group_prob(128) < high


@pytest.mark.parametrize(
    ("n", "c", "message"),
    [
        ([1, 1], [0, 1], "at least 2 rollouts"),
        ([8, 8], [0, 8], "no prompt has both outcomes"),
        ([8], [4], "at least 2 prompts"),
        ([8, 8], [4, 9], "c must be <= n"),
        ([8, np.nan], [4, 4], "n must be a number"),
        ([], [], "at least 2 rollouts"),
    ],
)
def test_what_cannot_be_fitted_is_said(n, c, message):
    with pytest.raises(ValueError, match=message):
        PromptPopulation.fit(n, c)


def test_bad_populations_are_named():
    for arguments in ((0, 1), (1, -1), (1, np.nan), (1, 1, 0.7, 0.4), (1, 1, -0.1, 0)):
        with pytest.raises(ValueError, match="must be"):
            PromptPopulation(*arguments)
    with pytest.raises(ValueError, match="not fitted to counts"):
        PromptPopulation(1, 1).interval(lambda p: p.alpha)
