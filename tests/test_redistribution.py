"""Exact expectations against enumeration, the softmax itself, Monte Carlo and the double sum."""

from dataclasses import astuple
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrated import assert_mean
from naive import redistribution as naive
from tailmiss import (
    RULES,
    advantage_table,
    expected_baseline,
    expected_mass_change,
    expected_missed_mass,
    expected_sampled_mass,
    mass_change,
    mixed_group_prob,
    tail_miss_prob,
)
from tailmiss import _occupancy as occupancy
from tailmiss.montecarlo import estimate_mass_change

F = Fraction
T, W = True, False
POLICIES = [
    ([F(1)], [T]),
    ([F(1)], [W]),
    ([F(3, 4), F(1, 4)], [T, W]),
    ([F(1, 8), F(7, 8)], [T, T]),
    ([F(1, 2), F(1, 4), F(1, 4)], [T, T, W]),
    ([F(31, 32), F(1, 64), F(1, 64)], [T, W, W]),
    ([F(1, 4), F(1, 4), F(1, 4), F(1, 4)], [T, T, T, W]),
    ([F(5, 8), F(1, 16), F(1, 4), F(1, 16)], [T, T, W, W]),
    ([F(1, 16), F(3, 16), F(0), F(3, 4)], [T, T, T, W]),
]
SURROGATES = ("probability", "ratio")


def floats(p):
    return [float(x) for x in p]


def assert_exact(change, exact):
    for found, true in zip(astuple(change), exact, strict=True):
        assert abs(F(found) - true) <= 1e-14 * max(1, abs(true))


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize(("p", "correct"), POLICIES)
def test_expectation_by_enumeration(p, correct, surrogate):
    for N in range(1, 7):
        for a, b in ((1, -1), (F(1, 2), F(1, 8))):
            table = [F(a)] * (N + 1), [F(b)] * (N + 1)
            found = expected_mass_change(
                floats(p),
                correct,
                N,
                reward_correct=float(a),
                reward_wrong=float(b),
                surrogate=surrogate,
            )
            assert_exact(found, naive.expected_change(p, correct, N, table, surrogate))


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("rule", RULES)
def test_expectation_of_every_rule_by_enumeration(rule, surrogate, gamma, monkeypatch):
    for p, correct in POLICIES:
        for N in (2, 3, 6):
            table = [
                [F(float(x)) for x in column] for column in advantage_table(rule, N, gamma=gamma)
            ]
            exact = naive.expected_change(p, correct, N, table, surrogate)
            for pairs_directly in (2**23, 0):  # or by Poissonisation
                monkeypatch.setattr(occupancy, "_DIRECT_TERMS", pairs_directly)
                found = expected_mass_change(
                    floats(p), correct, N, rule=rule, gamma=gamma, surrogate=surrogate
                )
                assert_exact(found, exact)


@pytest.mark.parametrize(("p", "correct"), POLICIES)
def test_sampled_and_missed_mass_by_enumeration(p, correct):
    for N in range(1, 7):
        exact = naive.mass_given_k(p, correct, N)
        found = expected_sampled_mass(floats(p), correct, N)
        baseline = expected_baseline(floats(p), correct, N, reward_correct=2, reward_wrong=-0.5)
        for k in range(N + 1):
            if exact[0][k] is not None:
                pair = exact[0][k], exact[1][k]
                assert abs(F(found[0][k].item()) - pair[0]) <= 1e-15
                assert abs(F(found[1][k].item()) - pair[1]) <= 1e-15
                assert abs(F(baseline[k].item()) - 2 * pair[0] + pair[1] / 2) <= 4e-15
        missed = float(naive.missed_mass(p, correct, N))
        assert expected_missed_mass(floats(p), correct, N) == pytest.approx(missed, rel=1e-14)
    sizes = expected_missed_mass(floats(p), correct, np.arange(1, 7).reshape(2, 3))
    assert sizes.shape == (2, 3)
    assert sizes[1, 2] == expected_missed_mass(floats(p), correct, 6)


def test_event_probabilities_by_enumeration():
    for p, correct in POLICIES:
        for rare_count in range(sum(correct) + 1):
            right = [i for i, is_right in enumerate(correct) if is_right]
            rare = [i in right[:rare_count] for i in range(len(p))]
            mu = sum((p[i] for i in right), F(0))
            tau = sum((p[i] for i in right[:rare_count]), F(0))
            for N in range(1, 7):
                exact = naive.tail_miss(p, rare, correct, N)
                found = tail_miss_prob(N, float(mu), float(tau))
                assert float(found) == pytest.approx(float(exact), rel=1e-14, abs=0)
                if not rare_count:
                    assert mixed_group_prob(N, float(mu)) == pytest.approx(float(exact), rel=1e-14)


def literal_change(z, correct, counts, N, rewards, surrogate):
    """The same by differentiating softmax and surrogate themselves (complex step)."""

    def policy(z):
        y = np.exp(z)
        return y / y.sum()

    old = policy(z)
    pay = np.where(correct, *rewards)

    def objective(z):
        if surrogate == "probability":
            return (pay * policy(z))[counts > 0].sum() / N
        return (counts * pay * policy(z) / old).sum() / N

    tiny = 1e-30
    unit = np.eye(z.size)
    step = np.array([objective(z + 1j * tiny * e).imag / tiny for e in unit])
    moved = policy(z + 1j * tiny * step).imag / tiny
    missed = correct & (counts == 0)
    return moved[correct].sum(), moved[missed].sum()


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_one_group_against_the_softmax_itself(surrogate, rng):
    for _ in range(30):
        z, correct = rng.normal(0, 2, 9), rng.random(9) < 0.5
        p = np.exp(z) / np.exp(z).sum()
        counts = rng.multinomial(6, p)
        rewards = rng.normal(size=2)
        found = mass_change(
            p,
            correct,
            counts,
            group_size=6,
            eta=0.3,
            reward_correct=rewards[0],
            reward_wrong=rewards[1],
            surrogate=surrogate,
        )
        expected = literal_change(z, correct, counts, 6, rewards, surrogate)
        np.testing.assert_allclose(found.delta_pos, 0.3 * expected[0], atol=1e-15)
        np.testing.assert_allclose(found.delta_unsampled_pos, 0.3 * expected[1], atol=1e-15)
        assert found.direct_drift + found.normalization_coupling == found.delta_unsampled_pos


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_one_group_by_enumeration_and_in_a_batch(surrogate):
    p, correct = [F(5, 8), F(1, 16), F(1, 4), F(1, 16)], [T, T, W, W]
    batch = np.array([counts for counts, _ in naive.groups(p, 3)])
    many = mass_change(floats(p), correct, batch, group_size=3, surrogate=surrogate)
    for row, counts in enumerate(batch.tolist()):
        exact = naive.one_step(p, correct, counts, 3, 1, -1, surrogate)
        one = mass_change(floats(p), correct, counts, group_size=3, surrogate=surrogate)
        assert_exact(one, exact)
        assert [column[row] for column in astuple(many)] == list(astuple(one))
    mask = mass_change(floats(p), correct, batch > 0, group_size=3)
    if surrogate == "probability":
        np.testing.assert_array_equal(mask.delta_pos, many.delta_pos)


def scattered(rng, size, n_correct, top):
    """A policy of all distinct probabilities; `top` sets the largest, correct, logit."""
    z = rng.normal(0, 2, size)
    z[0] = top
    p = np.exp(z - z.max())
    return p / p.sum(), np.arange(size) < n_correct


@pytest.mark.parametrize("top", [0.0, 7.0, 30.0])
@pytest.mark.parametrize("N", [1, 2, 9, 250, 3_000, 131_072])
def test_transform_equals_double_sum(N, top, rng, monkeypatch):
    p, correct = scattered(rng, 160, 120, top)
    found = []
    for limit in (2**60, 0):
        monkeypatch.setattr(occupancy, "_DIRECT_TERMS", limit)
        pos = occupancy.group_actions(p[correct])
        low, chance = occupancy.binomial(N, pos.total, p[~correct].sum())
        pairs = [(pos.p, pos.p), (pos.p**2, pos.p), (pos.p, pos.p**2)]
        sums = occupancy.pair_sums(pos, pairs, low, low + chance.size - 1, N * pos.total)
        found.append([float(chance @ s) for s in sums])
    scale = [f.sum() * g.sum() for f, g in pairs]
    np.testing.assert_array_less(np.abs(np.subtract(*found)), 1e-14 * np.array(scale))
    if N >= 2:
        np.testing.assert_allclose(*found, rtol=1e-9)


def test_conditional_expectations_recombine_to_the_unconditional_one(rng):
    """Without a rule a group is N plain draws from p: one double sum over all actions."""
    p, correct = scattered(rng, 90, 40, 3.0)
    for N in (2, 30, 1_000):
        absent, apart = (1 - p) ** N, (1 - p[:, None] - p) ** N
        np.fill_diagonal(apart, 0.0)
        both = absent[:, None] - apart  # i unsampled and j sampled
        np.fill_diagonal(both, 0.0)
        R = np.where(correct, 1.0, -0.3)
        drift = -(p**2 * correct) @ both @ (R * p) / N
        coupling = -(p * correct) @ both @ (R * p**2 - (p @ p) * R * p) / N
        found = expected_mass_change(p, correct, N, reward_wrong=-0.3)
        assert found.direct_drift == pytest.approx(drift, rel=1e-11, abs=1e-17)
        assert found.normalization_coupling == pytest.approx(coupling, rel=1e-11, abs=1e-17)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_monte_carlo_of_the_simulation_at_full_size(surrogate, rng):
    """K = 128,000, N = 8: all probabilities distinct, so that nothing is grouped."""
    logits = np.concatenate([[5.0], np.full(9_999, 3.0), np.zeros(118_000)])
    p = np.exp(logits + 0.3 * rng.normal(size=logits.size))
    p /= p.sum()
    correct = np.arange(p.size) < 10_000
    options = {"rule": "centered", "gamma": 1.0, "surrogate": surrogate}
    exact = expected_mass_change(p, correct, 8, **options)
    batches = [
        estimate_mass_change(p, correct, 8, groups=2_000, rng=child, **options)
        for child in rng.spawn(100)
    ]
    # what an error of this share of the exact value means: the drift is 0 for the ratio surrogate
    shares = {"delta_pos": 0.05, "delta_unsampled_pos": 0.1, "normalization_coupling": 0.1}
    if surrogate == "probability":
        shares |= {"direct_drift": 0.1, "baseline": 0.05}
    for name, share in shares.items():
        means = np.array([getattr(batch, name).value for batch in batches])
        true = getattr(exact, name)
        assert_mean(means, true, detects=share * abs(true))


@pytest.mark.parametrize("rule", ["grpo", "rloo", "dr_grpo", "maxrl", "centered"])
def test_centred_rules_leave_unsampled_logits_alone_under_the_ratio(rule, rng):
    p, correct = scattered(rng, 200, 50, 2.0)
    change = expected_mass_change(p, correct, 16, rule=rule, surrogate="ratio")
    assert abs(change.direct_drift) < 1e-15 * abs(change.normalization_coupling)
    assert abs(change.baseline) < 1e-14
    literal = expected_mass_change(p, correct, 16, rule=rule, surrogate="probability")
    assert abs(literal.direct_drift) > 1e-3 * abs(literal.normalization_coupling)


policies = st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda x: sum(x) > 1e-3)


@given(policies, st.integers(1, 40), st.integers(0, 2**6 - 1), st.sampled_from(SURROGATES))
def test_every_policy_gives_finite_consistent_numbers(weights, N, bits, surrogate):
    p = np.array(weights) / sum(weights)
    correct = np.array([bits >> i & 1 for i in range(p.size)], bool)
    change = expected_mass_change(p, correct, N, surrogate=surrogate)
    assert np.isfinite(astuple(change)).all()
    assert change.direct_drift + change.normalization_coupling == change.delta_unsampled_pos
    positive, negative = expected_sampled_mass(p, correct, N)
    assert np.all(np.diff(positive) >= -1e-15)  # Lemma H.1
    assert np.all(np.diff(negative) <= 1e-15)
    assert np.all(np.diff(expected_baseline(p, correct, N)) >= -1e-15)  # Cor. H.2
    with pytest.raises(ValueError, match=r"^reward_correct must be one number; got shape \(2,\)$"):
        expected_baseline(p, correct, N, reward_correct=[1.0, 2.0])
    assert 0 <= expected_missed_mass(p, correct, N) <= p[correct].sum() * (1 + 1e-12)


def test_actions_can_be_repeated_split_or_impossible(rng):
    """Grouping equal actions, zero probabilities and the order of the actions change nothing."""
    p = np.repeat([0.04, 0.02, 0.0, 0.01], [10, 20, 5, 20])
    correct = np.arange(55) % 3 == 0
    order = rng.permutation(55)
    for surrogate in SURROGATES:
        one = expected_mass_change(p, correct, 12, rule="grpo", surrogate=surrogate)
        two = expected_mass_change(p[order], correct[order], 12, rule="grpo", surrogate=surrogate)
        np.testing.assert_allclose(astuple(one), astuple(two), rtol=1e-12, atol=1e-17)
        nudged = p * (1 + 1e-9 * rng.normal(size=55))
        near = expected_mass_change(
            nudged / nudged.sum(), correct, 12, rule="grpo", surrogate=surrogate
        )
        np.testing.assert_allclose(astuple(near), astuple(one), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.5, 0.6]}, r"^p must sum to 1; got a sum of 1\.1$"),
        ({"p": [1.5, -0.5]}, r"^p must be in \[0, 1\]; got 1\.5 at index 0$"),
        (
            {"p": [[0.5, 0.5]]},
            r"^p and correct must be of one shape \(K,\); got \(1, 2\) and \(2,\)$",
        ),
        ({"correct": [True]}, r"^p and correct must be of one shape"),
        ({"correct": [0, 2]}, r"^correct must be whole, >= 0 and <= 1; got 2 at index 1$"),
        ({"correct": ["a", "b"]}, r"^correct must be real numbers; got "),
        ({"N": 10**9}, r"^N must be whole, >= 1 and <= 1.67772e\+07; got 1000000000$"),
        ({"N": 0}, r"^N must be whole, >= 1; got 0$"),
        ({"N": [2, 3]}, r"^N must be one number; got shape \(2,\)$"),
        ({"surrogate": "log"}, r"^surrogate must be one of 'probability', 'ratio'; got 'log'$"),
        ({"rule": "ppo"}, r"^rule must be one of 'reinforce', .*; got 'ppo'$"),
        ({"rule": "grpo", "eps": -1}, r"^eps must be finite and >= 0; got -1\.0$"),
        (
            {"rule": "grpo", "reward_wrong": 0.0},
            r"^reward_correct and reward_wrong are for updates",
        ),
        ({"gamma": -1}, r"^gamma must be finite and >= 0; got -1\.0$"),
        ({"k": 2}, r"^options need a rule; got k$"),
        ({"reward_correct": float("nan")}, r"^reward_correct must be a number; got nan$"),
        ({"reward_correct": [1.0, 2.0]}, r"^reward_correct must be one number; got shape \(2,\)$"),
        ({"eta": float("inf")}, r"^eta must be finite; got inf$"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"p": [0.5, 0.5], "correct": [True, False], "N": 4} | change
    with pytest.raises(ValueError, match=message):
        expected_mass_change(**arguments)
    with pytest.raises(ValueError, match=message):
        estimate_mass_change(**arguments, groups=10, rng=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [1, 0, 1]}, r"^counts must have shape \(\.\.\., 2\) as p; got \(3,\)$"),
        ({"counts": [1, -1]}, r"^counts must be whole, >= 0; got -1 at index 1$"),
        ({"counts": [0.5, 1]}, r"^counts must be whole, >= 0; got 0\.5 at index 0$"),
        (
            {"counts": [[1, 1], [2, 1]]},
            r"^the sum of counts must be <= group_size \(2\.0\); got 3\.0 at index 1$",
        ),
        (
            {"reward_wrong": [1, 2]},
            r"^reward_wrong must be one number or of shape \(\); got \(2,\)$",
        ),
        ({"group_size": 0}, r"^group_size must be whole, >= 1; got 0$"),
        ({"surrogate": "log"}, r"^surrogate must be one of"),
        ({"eta": float("nan")}, r"^eta must be a number; got nan$"),
        ({"reward_correct": float("inf")}, r"^reward_correct must be finite; got inf$"),
    ],
)
def test_bad_groups_are_named(change, message):
    arguments = {"p": [0.5, 0.5], "correct": [True, False], "counts": [1, 1], "group_size": 2}
    with pytest.raises(ValueError, match=message):
        mass_change(**(arguments | change))
