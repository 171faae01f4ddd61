"""What a set of answers shows of the answers it does not show, and how varied its texts are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from .passk import log_all_wrong_prob
from .saturation import rare_nll_shift, variance_profile
from .text_diversity import distinct_n, ngram_similarity, self_bleu, vendi_score
from .text_groups import group_diversity, text_measures

__all__ = [
    "UnseenAnswers",
    "distinct_n",
    "expected_unsampled_correct_mass",
    "group_diversity",
    "ngram_similarity",
    "rare_nll_shift",
    "self_bleu",
    "text_measures",
    "unseen_answers",
    "unseen_correct_mass",
    "variance_profile",
    "vendi_score",
]


@dataclass(frozen=True)
class UnseenAnswers:
    """Distinct correct answers among the rollouts of one prompt, and what they say of the rest.

    Attributes
    ----------
    rollouts, correct : int
        All rollouts, and the correct ones.
    distinct, singletons, doubletons : int
        Distinct correct answers; those seen exactly once; exactly twice.
    unseen_mass : float
        Good-Turing: chance that the next rollout is a correct answer not seen yet.
    chao1 : float
        Lower estimate of the number of distinct correct answers the policy has.
    """

    rollouts: int
    correct: int
    distinct: int
    singletons: int
    doubletons: int
    unseen_mass: float
    chao1: float


def unseen_answers(answers: Iterable[Hashable], correct: ArrayLike) -> UnseenAnswers:
    r"""Good-Turing unseen correct mass and Chao1 richness of one prompt's rollouts.

    .. math:: \hat U = f_1 / n, \qquad
              \hat S = S + \frac{f_1 (f_1 - 1)}{2 (f_2 + 1)}

    with f_1, f_2 the correct answers seen once and twice, S the distinct ones, n all rollouts.

    Parameters
    ----------
    answers : iterable of hashable
        The answer of each rollout; two answers are the same when they are equal.
    correct : array_like of bool or 0/1
        Whether each one is correct.

    Returns
    -------
    UnseenAnswers

    Raises
    ------
    ValueError
        Lengths that differ, no rollout, a flag that is not 0 or 1, a correct answer that is None.

    Notes
    -----
    Good (1953); Chao (1984) in its bias-corrected form. Wrong rollouts count in n and in nothing
    else, so the mass is a share of all rollouts. The estimator is unbiased for the mass unseen
    after n - 1 rollouts (tests/test_diversity.py, by enumeration).

    Examples
    --------
    >>> unseen_answers(["a", "a", "b", "c"], [1, 1, 1, 0]).unseen_mass
    0.25
    """
    counts, n = _correct_counts(answers, correct)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return UnseenAnswers(
        rollouts=n,
        correct=int(counts.sum()),
        distinct=counts.size,
        singletons=once,
        doubletons=twice,
        unseen_mass=once / n,
        chao1=chao1(counts.size, once, twice),
    )


def chao1(distinct: Any, once: Any, twice: Any) -> Any:
    """Chao's lower estimate of how many answers there are, from those seen, once and twice."""
    return distinct + once * (once - 1) / (2 * (twice + 1))


def unseen_correct_mass(answers: Iterable[Hashable], correct: ArrayLike) -> float:
    r"""Good-Turing chance that the next rollout is a correct answer not seen yet.

    .. math:: \hat U = f_1 / n

    with f_1 the correct answers seen exactly once and n all rollouts.

    Parameters
    ----------
    answers, correct
        As for :func:`unseen_answers`.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        As :func:`unseen_answers`.

    Notes
    -----
    Good (1953); unbiased for the mass unseen after n - 1 rollouts (tests/test_diversity.py).

    Examples
    --------
    >>> unseen_correct_mass(["a", "a", "b", "c"], [1, 1, 1, 1])
    0.5
    """
    return unseen_answers(answers, correct).unseen_mass


def expected_unsampled_correct_mass(
    answers: Iterable[Hashable], correct: ArrayLike, N: ArrayLike
) -> NDArray[np.float64]:
    r"""Unbiased estimate of the correct mass that a group of N rollouts leaves unsampled.

    .. math:: E\Bigl[\sum_{a\ \mathrm{correct}} p_a (1 - p_a)^N\Bigr] \approx
              \sum_a \frac{X_a}{n} \frac{C(n - X_a, N)}{C(n - 1, N)}

    Parameters
    ----------
    answers, correct
        As for :func:`unseen_answers`; X_a of the n rollouts gave answer a.
    N : array_like of int, >= 0
        Group size.

    Returns
    -------
    float64 array in [0, 1]; NaN where N > n - 1, where no unbiased estimator exists.

    Raises
    ------
    ValueError
        As :func:`unseen_answers`; N negative or not whole.

    Notes
    -----
    At N = n - 1 it is the Good-Turing mass, at N = 0 the success rate. Enumerated in
    tests/test_diversity.py.

    Examples
    --------
    >>> expected_unsampled_correct_mass(["a", "a", "b", "c"], [1, 1, 1, 0], [0, 1, 3, 4])
    array([0.75      , 0.58333333, 0.25      ,        nan])
    """
    N = check.whole("N", N, 0)
    counts, n = _correct_counts(answers, correct)
    if not counts.size:
        return np.where(n - 1 < N, np.nan, 0.0)
    return unsampled_mass(n, counts[:, *[None] * N.ndim], N).sum(axis=0)


def unsampled_mass(n: Any, x: Any, N: ArrayLike) -> NDArray[np.float64]:
    r"""Unbiased estimate of :math:`p (1-p)^N` for an answer given x >= 1 times in n rollouts."""
    mass: NDArray[np.float64] = x / n * np.exp(log_all_wrong_prob(n - 1, x - 1, N))
    return mass


def _correct_counts(
    answers: Iterable[Hashable], correct: ArrayLike
) -> tuple[NDArray[np.int64], int]:
    """How often each distinct correct answer was given, and the number of all rollouts."""
    answers, flags = list(answers), check.mass("correct", correct)
    if flags.shape != (len(answers),):
        raise ValueError(
            f"correct must have one flag for each of {len(answers)} answers; got {flags.shape}"
        )
    if not answers:
        raise ValueError("answers must hold at least one rollout")
    check.whole("correct", flags, 0)
    right = [answer for answer, flag in zip(answers, flags, strict=True) if flag]
    if None in right:
        raise ValueError("answers must not be None where correct")
    return np.array(list(Counter(right).values()), dtype=np.int64), len(answers)
