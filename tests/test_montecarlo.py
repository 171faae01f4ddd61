"""Each estimator against its closed form, with stated error rates; and streams that repeat."""

import numpy as np
import pytest

from calibrated import assert_bernoulli, assert_mean
from naive import redistribution as naive
from tailmiss import (
    advantage_table,
    expected_missed_mass,
    mass_change,
    miss_prob,
    mixed_group_prob,
    montecarlo,
    tail_miss_prob,
)

POINTS = [(1, 0.5, 0.1), (2, 0.5, 0.25), (8, 0.3, 0.015), (64, 0.02, 0.01), (1000, 0.9, 0.002)]
GROUPS = 200_000


@pytest.mark.parametrize(("N", "mu", "tau"), POINTS)
def test_events(N, mu, tau, rng):
    draws = {"groups": GROUPS, "rng": rng}
    for found, p in (
        (montecarlo.estimate_tail_miss_prob(N, mu, tau, **draws), tail_miss_prob(N, mu, tau)),
        (montecarlo.estimate_mixed_group_prob(N, mu, **draws), mixed_group_prob(N, mu)),
        (montecarlo.estimate_miss_prob(N, tau, **draws), miss_prob(N, tau)),
    ):
        assert found.trials == GROUPS
        assert_bernoulli(found.hits, GROUPS, float(p), detects=0.015)


def test_missed_mass(rng):
    p, correct = rng.dirichlet(np.ones(30)), np.arange(30) < 12
    batches = [
        montecarlo.estimate_missed_mass(p, correct, 9, groups=1_000, rng=child).value
        for child in rng.spawn(100)
    ]
    exact = expected_missed_mass(p, correct, 9)
    assert_mean(np.array(batches), float(exact), detects=0.02 * exact)


@pytest.mark.parametrize("surrogate", ["probability", "ratio"])
@pytest.mark.parametrize("rule", [None, "maxrl"])
def test_one_drawn_group_is_what_mass_change_says(rule, surrogate, rng):
    """The sums over touched actions equal the dense ones, group by group."""
    p, correct, N = rng.dirichlet(np.ones(12)), np.arange(12) < 5, 7
    for seed in range(20):
        found = montecarlo.estimate_mass_change(
            p, correct, N, groups=1, rng=seed, eta=0.2, rule=rule, gamma=0.5, surrogate=surrogate
        )
        ((actions, _),) = montecarlo._draws(p, N, 1, seed)
        counts = np.bincount(actions[0], minlength=12)
        K = counts[correct].sum()
        if rule:
            a, b = (column[K] for column in advantage_table(rule, N, gamma=0.5))
        else:
            a, b = (1 - K / N) ** 0.5, -((1 - K / N) ** 0.5)
        dense = mass_change(
            p, correct, counts, group_size=N, eta=0.2,
            reward_correct=a, reward_wrong=b, surrogate=surrogate,
        )  # fmt: skip
        for name in vars(dense):
            assert getattr(found, name).value == pytest.approx(getattr(dense, name), abs=3e-15)
            assert getattr(found, name).trials == 1


def test_draws_follow_the_policy(rng):
    p = np.array([0.0, 0.5, 0.0, 0.25, 0.25, 0.0])
    seen = np.zeros(6, int)
    pairs = {}
    for actions, first in montecarlo._draws(p, 2, 100_000, rng):
        seen += np.bincount(actions.ravel(), minlength=6)
        assert first[:, 0].all()
        for a, b in ((1, 1), (1, 3), (3, 4)):
            hit = (actions[:, 0] == a) & (actions[:, 1] == b)
            pairs[a, b] = pairs.get((a, b), 0) + int(hit.sum())
            assert np.all(first[hit, 1] == (a != b))
    assert seen[[0, 2, 5]].sum() == 0
    exact = {tuple(np.repeat(np.arange(6), c)): q for c, q in naive.groups(p.tolist(), 2)}
    for pair, hits in pairs.items():
        assert_bernoulli(hits, 100_000, float(exact[pair]), detects=0.015)


def test_a_seed_repeats_and_streams_pool():
    def run(rng, groups=3_000):
        return montecarlo.estimate_tail_miss_prob(8, 0.3, 0.03, groups=groups, rng=rng)

    assert run(5) == run(5)
    assert run(5) != run(6)
    pooled = run(1) + run(2)
    assert pooled.trials == 6_000
    assert run(3, groups=0).trials == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, d: m.estimate_tail_miss_prob(8, 0.3, 0.4, **d), r"^tau must be <= mu_pos"),
        (lambda m, d: m.estimate_miss_prob(0, 0.3, **d), r"^N must be whole, >= 1; got 0$"),
        (lambda m, d: m.estimate_miss_prob(2, 1.3, **d), r"^tau must be in \[0, 1\]; got 1\.3$"),
        (lambda m, d: m.estimate_miss_prob(2, 0.3, groups=-1, rng=0), r"^groups must be whole"),
        (lambda m, d: m.estimate_miss_prob(2, 0.3, groups=1.5, rng=0), r"^groups must be whole"),
        (
            lambda m, d: m.estimate_tail_miss_prob(8, [0.3, 0.4], 0.1, **d),
            r"^mu_pos must be one number; got shape \(2,\)$",
        ),
        (lambda m, d: m.estimate_miss_prob(8, [0.3], **d), r"^tau must be one number; got shape"),
        (
            lambda m, d: m.estimate_miss_prob(8, 0.3, groups=9, rng="seed"),
            r"^rng must be a whole number >= 0, .*; got 'seed'$",
        ),
        (lambda m, d: m.estimate_missed_mass([1.0], [1, 0], 2, **d), r"^p and correct must"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(montecarlo, {"groups": 9, "rng": 0})
