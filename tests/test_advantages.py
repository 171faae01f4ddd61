"""Every rule against raw rewards, its weight function against enumeration, and bad input."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import advantages as naive
from tailmiss import RULES, advantage_table, learning_rate_multiplier, weight_function

OPTIONS = [
    *((rule, {}) for rule in RULES),
    ("reinforce", {"reward_wrong": -1.0}),
    ("reinforce", {"reward_wrong": 0.25}),
    *((rule, {"ddof": 1, "eps": 1e-4}) for rule in ("grpo", "dapo", "grpo_lead")),
    ("grpo", {"eps": 1e-6}),
    ("grpo", {"ddof": 1}),
    ("maxrl", {"keep_all_wrong": True}),
    *(("pkpo", {"k": k, "leave_out": out}) for k in (1, 2, 3) for out in (False, True)),
    *(("passk", {"k": k}) for k in (1, 3)),
    ("w_reinforce", {"lam": 0.5}),
]
IDS = [f"{rule}-{options}" for rule, options in OPTIONS]


def smallest(rule, options):
    """The smallest group a rule is defined for."""
    return max(2 if rule == "rloo" else 1, options.get("k", 2 if rule in ("pkpo", "passk") else 1))


def test_every_rule_is_tested():
    assert {rule for rule, _ in OPTIONS} == set(RULES) == set(naive.RULES)


@pytest.mark.parametrize("gamma", [0, 0.5, 1, 2])
@pytest.mark.parametrize(("rule", "options"), OPTIONS, ids=IDS)
def test_table_against_raw_rewards(rule, options, gamma):
    for N in range(smallest(rule, options), 8):
        correct, wrong = advantage_table(rule, N, gamma=gamma, **options)
        assert correct.shape == wrong.shape == (N + 1,)
        assert correct[0] == wrong[N] == 0
        for rewards in product((0, 1), repeat=N):
            K = sum(rewards)
            given_ = [float(a) for a in naive.focal(rule, rewards, gamma, **options)]
            found = [correct[K] if r else wrong[K] for r in rewards]
            np.testing.assert_allclose(found, given_, rtol=2e-14, atol=2e-15)


@pytest.mark.parametrize("gamma", [0, 1])
@pytest.mark.parametrize(("rule", "options"), OPTIONS, ids=IDS)
def test_weight_function_by_enumeration(rule, options, gamma):
    shares = [Fraction(1, 64), Fraction(1, 4), Fraction(1, 2), Fraction(7, 8)]
    for N in range(smallest(rule, options), 7):
        found = weight_function(rule, N, [float(p) for p in shares], gamma=gamma, **options)
        for p, value in zip(shares, found.tolist(), strict=True):
            exact = naive.weight(rule, N, p, gamma, **options)
            assert abs(Fraction(value) - exact) <= 1e-14 * max(1, abs(exact))


@pytest.mark.parametrize(("rule", "options"), OPTIONS, ids=IDS)
def test_weight_at_the_ends(rule, options):
    N = max(smallest(rule, options), 5)
    correct, wrong = advantage_table(rule, N, gamma=0.5, **options)
    ends = weight_function(rule, N, [[0.0, 1.0]], gamma=0.5, **options)
    assert ends.shape == (1, 2)
    assert ends.tolist() == [[correct[1] - wrong[0], correct[N] - wrong[N - 1]]]


@pytest.mark.parametrize("N", [1_000, 100_000])
def test_weight_of_large_groups(N):
    p = np.array([1e-6, 0.01, 0.3, 0.999])
    assert weight_function("rloo", N, p) == pytest.approx(1, rel=1e-12)
    powers = -np.expm1((N - 1) * np.log1p(-p)) / p
    np.testing.assert_allclose(weight_function("maxrl", N, p), powers, rtol=1e-12)


def test_closed_forms_of_the_weight():
    p, N, k = np.linspace(0.01, 0.99, 33), 16, 4
    q = 1 - p
    assert weight_function("rloo", N, p) == pytest.approx(1, rel=1e-13)
    assert weight_function("dr_grpo", N, p) == pytest.approx((N - 1) / N, rel=1e-13)
    np.testing.assert_allclose(weight_function("maxrl", N, p), (1 - q ** (N - 1)) / p, rtol=1e-12)
    np.testing.assert_allclose(
        weight_function("maxrl", N, p, keep_all_wrong=True), (1 - q**N) / p, rtol=1e-12
    )
    np.testing.assert_allclose(weight_function("best_of_n", N, p), q ** (N - 1), rtol=1e-12)
    for leave_out in (False, True):
        found = weight_function("pkpo", N, p, k=k, leave_out=leave_out)
        np.testing.assert_allclose(found, k * q ** (k - 1), rtol=1e-11)
    for rule, limit in (("psr", 1), ("nsr", 1), ("w_reinforce", 1.1)):
        assert weight_function(rule, N, p) == pytest.approx(limit, rel=1e-13)
    assert weight_function("grpo", 8, [0, 1], gamma=1).round(3).tolist() == [2.315, 0.331]
    assert round(float(weight_function("passk", 8, 0.01, k=4)), 2) == 0.98


@pytest.mark.parametrize("rule", ["rloo", "grpo", "dr_grpo", "centered", "maxrl", "dapo"])
@given(N=st.integers(2, 3000), gamma=st.floats(0, 5))
def test_centred_rules_sum_to_zero_in_every_group(rule, N, gamma):
    correct, wrong = advantage_table(rule, N, gamma=gamma)
    K = np.arange(N + 1.0)
    size = np.abs(K * correct) + np.abs((N - K) * wrong)
    assert np.all(np.abs(K * correct + (N - K) * wrong) <= 1e-12 * size)


@given(rule=st.sampled_from(RULES), N=st.integers(2, 200_000))
def test_large_groups_give_finite_tables(rule, N):
    correct, wrong = advantage_table(rule, N)
    assert np.isfinite(correct).all()
    assert np.isfinite(wrong).all()


def test_learning_rate_multiplier():
    assert learning_rate_multiplier([0, 0.5, 1, 2]).round(5).tolist() == [1, 0.67906, 0.5, 0.3125]
    assert learning_rate_multiplier(0.0) == 1
    rate = np.linspace(0, 1, 200_001)[1:-1]
    for gamma in (0.5, 1.5):
        size = np.sqrt(rate * (1 - rate))
        mean = (size * (1 - rate) ** gamma).sum() / size.sum()
        assert learning_rate_multiplier(gamma) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: advantage_table("ppo", 8), r"^rule must be one of 'reinforce', 'rloo', .*"),
        (lambda: advantage_table("grpo", 0), r"^N must be whole, >= 1; got 0$"),
        (lambda: advantage_table("grpo", 8.5), r"^N must be whole, >= 1; got 8\.5$"),
        (lambda: advantage_table("grpo", [8]), r"^N must be one number; got shape \(1,\)$"),
        (lambda: advantage_table("rloo", 1), r"^N must be >= 2 for rule 'rloo'.*got 1$"),
        (
            lambda: advantage_table("grpo", 8, gamma=-1),
            r"^gamma must be finite and >= 0; got -1\.0$",
        ),
        (
            lambda: advantage_table("grpo", 8, gamma=float("inf")),
            r"^gamma must be finite .*got inf$",
        ),
        (lambda: advantage_table("grpo", 8, ddof=2), r"^ddof must be one of 0, 1; got 2$"),
        (
            lambda: advantage_table("grpo", 8, eps=-1e-6),
            r"^eps must be finite and >= 0; got -1e-06$",
        ),
        (
            lambda: advantage_table("rloo", 8, eps=1),
            r"^rule 'rloo' has no option 'eps'; it has none$",
        ),
        (
            lambda: advantage_table("grpo", 8, k=2),
            r"^rule 'grpo' has no option 'k'; it has ddof, eps$",
        ),
        (lambda: advantage_table("pkpo", 8, k=9), r"^k must be <= N \(8\); got 9$"),
        (
            lambda: advantage_table("pkpo", 8, leave_out="no"),
            r"^leave_out must be one of False, True; got 'no'$",
        ),
        (
            lambda: advantage_table("maxrl", 8, keep_all_wrong="no"),
            r"^keep_all_wrong must be one of False, True; got 'no'$",
        ),
        (lambda: advantage_table("passk", 8, k=0), r"^k must be whole, >= 1; got 0$"),
        (lambda: weight_function("grpo", 8, 1.5), r"^p must be in \[0, 1\]; got 1\.5$"),
        (
            lambda: weight_function("grpo", 8, [0.5, float("nan")]),
            r"^p must be a number; got nan at ",
        ),
        (
            lambda: learning_rate_multiplier([0, -0.5]),
            r"^gamma must be finite and >= 0; got -0\.5 at index 1$",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
