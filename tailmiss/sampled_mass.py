"""How much probability mass the rollouts of a group cover, and how much correct mass they miss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._group_events import minority_share, miss, mixed
from ._occupancy import group_actions, single_sums
from .advantages import LARGEST_GROUP


def expected_sampled_mass(
    p: ArrayLike, correct: ArrayLike, N: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Expected mass of the sampled correct and of the sampled wrong actions, given X = k.

    .. math:: E[P_{pos} \mid X=k] = \sum_{i\,correct} p_i \bigl[1 - (1-p_i/Q_{pos})^k\bigr], \quad
              E[P_{neg} \mid X=k] = \sum_{i\,wrong} p_i \bigl[1 - (1-p_i/Q_{neg})^{N-k}\bigr]

    Parameters
    ----------
    p, correct : array_like, shape (K,)
        Policy and correctness, as for :func:`mass_change`.
    N : int >= 1
        Group size.

    Returns
    -------
    positive, negative : float64 arrays of length N + 1, indexed by k
        The first never falls with k, the second never rises.

    Raises
    ------
    ValueError
        As :func:`mass_change`.

    Notes
    -----
    [FGRPO] v2, Lemma H.1. No cancellation: relative error of a few 1e-16. Cost of N times the
    number of distinct probabilities, as a matrix product.

    Examples
    --------
    >>> expected_sampled_mass([0.5, 0.25, 0.25], [True, True, False], 2)[1]
    array([0.25, 0.25, 0.  ])
    """
    p, correct = checked_policy(p, correct)
    N = check.whole_number("N", N, high=LARGEST_GROUP)
    pos, neg = group_actions(p[correct]), group_actions(p[~correct])
    return (
        single_sums(pos, pos.p[None], 0, N)[1][0],
        single_sums(neg, neg.p[None], 0, N)[1][0][::-1],
    )


def expected_baseline(
    p: ArrayLike,
    correct: ArrayLike,
    N: int,
    *,
    reward_correct: float = 1.0,
    reward_wrong: float = -1.0,
) -> NDArray[np.float64]:
    r"""Expected batch baseline given X = k.

    .. math:: E[S_R \mid X=k] = R_c E[P_{pos} \mid X=k] + R_w E[P_{neg} \mid X=k]

    Parameters
    ----------
    p, correct, N
        As for :func:`expected_sampled_mass`.
    reward_correct, reward_wrong : float
        Rewards.

    Returns
    -------
    float64 array of length N + 1, indexed by k; never falls with k if R_c >= 0 >= R_w.

    Raises
    ------
    ValueError
        As :func:`expected_sampled_mass`.

    Notes
    -----
    [FGRPO] v2, Cor. H.2; S_R is the sum over distinct sampled actions.

    Examples
    --------
    >>> expected_baseline([0.5, 0.25, 0.25], [True, True, False], 2)
    array([-0.25      ,  0.16666667,  0.58333333])
    """
    positive, negative = expected_sampled_mass(p, correct, N)
    a = check.number("reward_correct", reward_correct)
    b = check.number("reward_wrong", reward_wrong)
    return a * positive + b * negative


def expected_missed_mass(p: ArrayLike, correct: ArrayLike, N: ArrayLike) -> Any:
    r"""Expected unsampled-correct mass, counted only in mixed groups.

    .. math:: E[Q_{u,pos};\, 0 < X < N] = \sum_{i\,correct} p_i \Pr(\text{mixed, } i \text{ missed})

    Parameters
    ----------
    p, correct : array_like, shape (K,)
        Policy and correctness, as for :func:`mass_change`.
    N : array_like of int >= 1
        Group size.

    Returns
    -------
    float64 scalar or array, of the shape of N.

    Raises
    ------
    ValueError
        As :func:`mass_change`.

    Notes
    -----
    Lemma 3.1 of [FGRPO] v2 with each correct action as the subset, evaluated as
    :func:`tail_miss_prob` is but from the masses themselves; relative error below 1e-12.

    Examples
    --------
    >>> expected_missed_mass([0.5, 0.25, 0.25], [True, True, False], 2).round(12)
    np.float64(0.125)
    """
    p, correct = checked_policy(p, correct)
    N = check.whole("N", N)
    pos, neg = group_actions(p[correct]), group_actions(p[~correct])
    q = minority_share(pos.total * np.exp(pos.log_absent), np.asarray(neg.total))
    missed = [pos.copies * pos.p @ (miss(n, pos.p) * mixed(n, q)) for n in N.ravel()]
    return np.array(missed, float).reshape(N.shape)[()]


def checked_policy(
    p: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A distribution over actions, scaled to sum to 1, and which of them are correct."""
    p = check.mass("p", p)
    correct = np.asarray(correct)
    if p.ndim != 1 or correct.shape != p.shape:
        raise ValueError(
            f"p and correct must be of one shape (K,); got {p.shape} and {correct.shape}"
        )
    if correct.dtype != bool:
        check.whole("correct", correct, 0, high=1)
    if abs(p.sum() - 1) > 1e-6:
        raise ValueError(f"p must sum to 1; got a sum of {p.sum().item()!r}")
    return p / p.sum(), correct.astype(bool)
