"""Unseen correct mass against enumeration of every sample."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from tailmiss.diversity import (
    expected_unsampled_correct_mass,
    unseen_answers,
    unseen_correct_mass,
)

POLICY = {"a": Fraction(1, 2), "b": Fraction(1, 6), "c": Fraction(1, 12), "wrong": Fraction(1, 4)}


def expectation(n, statistic):
    return sum(
        float(prod(POLICY[x] for x in sample))
        * np.asarray(statistic(list(sample), [x != "wrong" for x in sample]))
        for sample in product(POLICY, repeat=n)
    )


def left_unsampled(N):
    return sum(float(p * (1 - p) ** N) for answer, p in POLICY.items() if answer != "wrong")


def test_good_turing_is_unbiased_for_the_mass_unseen_one_rollout_earlier():
    for n in (1, 3, 5):
        assert expectation(n, unseen_correct_mass) == pytest.approx(left_unsampled(n - 1))


def test_unsampled_mass_is_unbiased_at_every_group_size():
    n, N = 5, np.arange(5)
    got = expectation(n, lambda a, c: expected_unsampled_correct_mass(a, c, N))
    assert got == pytest.approx([left_unsampled(i) for i in N], rel=1e-12)


def test_ends_of_the_unsampled_mass():
    answers, correct = ["x", "y", "y", "z", "w"], [1, 1, 1, 1, 0]
    values = expected_unsampled_correct_mass(answers, correct, [0, 4, 5])
    assert values[:2] == pytest.approx([0.8, unseen_correct_mass(answers, correct)])
    assert np.isnan(values[2])
    assert expected_unsampled_correct_mass(["w"] * 3, [0, 0, 0], 2) == 0.0
    assert expected_unsampled_correct_mass(answers, correct, 4).shape == ()


def test_counts_of_answers():
    found = unseen_answers(["a", "b", "b", "c", "d", "a2", "d"], [1, 1, 1, 1, 0, 1, 0])
    assert (found.rollouts, found.correct, found.distinct) == (7, 5, 4)
    assert (found.singletons, found.doubletons) == (3, 1)
    assert found.unseen_mass == pytest.approx(3 / 7)
    assert found.chao1 == pytest.approx(4 + 3 * 2 / (2 * 2))
    assert unseen_answers(["a"] * 4, [0] * 4).chao1 == 0


@pytest.mark.parametrize(
    ("answers", "correct", "message"),
    [
        (["a"], [1, 0], "one flag for each of 1 answers"),
        ([], [], "at least one rollout"),
        (["a"], [2], "correct must be in"),
        (["a"], [0.5], "correct must be whole"),
        (["a", None], [1, 1], "must not be None"),
        (["a"], [np.nan], "correct must be a number"),
    ],
)
def test_bad_answers_are_named(answers, correct, message):
    with pytest.raises(ValueError, match=message):
        unseen_answers(answers, correct)
