"""Monte Carlo twins of the closed forms: ``estimate_x`` counts what ``x`` computes.

Rollouts are drawn and events are counted; no closed form about groups is used. Results are counts
that add up, so independent runs pool with ``+``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._first_order import GroupSums, MassChange, first_order
from ._occupancy import group_actions
from ._rng import RNG, generator
from .advantages import LARGEST_GROUP
from .estimate import Estimate, MeanEstimate
from .redistribution import SURROGATES, advantages
from .sampled_mass import checked_policy

_BLOCK = 2**19  # rollouts drawn at a time


def estimate_mixed_group_prob(N: int, mu_pos: float, *, groups: int, rng: RNG) -> Estimate:
    r"""Share of mixed groups among `groups` drawn ones; twin of :func:`mixed_group_prob`.

    Parameters
    ----------
    N : int >= 1
        Group size.
    mu_pos : float in [0, 1]
        Probability that one rollout is correct.
    groups : int >= 0
        Number of groups drawn.
    rng : int, SeedSequence or Generator
        Source of randomness.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        As :func:`mixed_group_prob`; groups not whole.

    Notes
    -----
    A tail miss of an empty set.

    Examples
    --------
    >>> low, high = estimate_mixed_group_prob(2, 0.5, groups=10_000, rng=0).interval(0.999)
    >>> low < 0.5 < high
    True
    """
    return estimate_tail_miss_prob(N, mu_pos, 0.0, groups=groups, rng=rng)


def estimate_miss_prob(N: int, tau: float, *, groups: int, rng: RNG) -> Estimate:
    """Share of groups without a rollout in a set of mass tau; twin of :func:`miss_prob`.

    Parameters
    ----------
    N, groups, rng
        As for :func:`estimate_mixed_group_prob`.
    tau : float in [0, 1]
        Mass of the set.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        As :func:`miss_prob`; groups not whole.

    Notes
    -----
    Each group is one multinomial draw of how many rollouts are in the set.

    Examples
    --------
    >>> estimate_miss_prob(2, 1.0, groups=10, rng=0)
    Estimate(hits=0, trials=10)
    """
    hits = 0
    for kinds in _kinds(N, check.share("tau", tau), 0.0, groups, rng):
        hits += int(np.count_nonzero(kinds[:, 0] == 0))
    return Estimate(hits, groups)


def estimate_tail_miss_prob(
    N: int, mu_pos: float, tau: float, *, groups: int, rng: RNG
) -> Estimate:
    r"""Share of mixed groups without a rare correct rollout; twin of :func:`tail_miss_prob`.

    Parameters
    ----------
    N, mu_pos, groups, rng
        As for :func:`estimate_mixed_group_prob`.
    tau : float in [0, mu_pos]
        Probability that one rollout lands in the rare correct subset.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        As :func:`tail_miss_prob`; groups not whole.

    Notes
    -----
    Each group is one multinomial draw of how many rollouts are rare correct, other correct, wrong.
    Compared with the closed form in tests/test_montecarlo.py.

    Examples
    --------
    >>> estimate_tail_miss_prob(1, 0.5, 0.1, groups=100, rng=0)
    Estimate(hits=0, trials=100)
    """
    mu, rare = check.share("mu_pos", mu_pos), check.share("tau", tau)
    check.at_most("tau", np.asarray(rare), "mu_pos", np.asarray(mu))
    hits = 0
    for kinds in _kinds(N, rare, mu - rare, groups, rng):
        found_rare, other, wrong = kinds.T
        hits += int(np.count_nonzero((found_rare == 0) & (other > 0) & (wrong > 0)))
    return Estimate(hits, groups)


def estimate_missed_mass(
    p: ArrayLike, correct: ArrayLike, N: int, *, groups: int, rng: RNG
) -> MeanEstimate:
    """Mean unsampled-correct mass, 0 unless mixed; twin of :func:`expected_missed_mass`.

    Parameters
    ----------
    p, correct : array_like, shape (K,)
        Policy and correctness, as for :func:`mass_change`.
    N, groups, rng
        As for :func:`estimate_mixed_group_prob`.

    Returns
    -------
    MeanEstimate

    Raises
    ------
    ValueError
        As :func:`expected_missed_mass`; groups not whole.

    Notes
    -----
    Each group is N draws of actions; the mass is that of all correct actions less the sampled ones.

    Examples
    --------
    >>> p, correct = [0.5, 0.25, 0.25], [True, True, False]
    >>> low, high = estimate_missed_mass(p, correct, 2, groups=10_000, rng=0).interval(0.999)
    >>> low < 0.125 < high
    True
    """
    p, correct = checked_policy(p, correct)
    N = check.whole_number("N", N)
    total = MeanEstimate.of([])
    for actions, first in _draws(p, N, groups, rng):
        right = correct[actions]
        K = right.sum(axis=1)
        missed = p[correct].sum() - (p[actions] * (first & right)).sum(axis=1)
        total += MeanEstimate.of(np.where((0 < K) & (K < N), missed, 0.0))
    return total


def estimate_mass_change(
    p: ArrayLike,
    correct: ArrayLike,
    N: int,
    *,
    groups: int,
    rng: RNG,
    eta: float = 1.0,
    reward_correct: float = 1.0,
    reward_wrong: float = -1.0,
    rule: str | None = None,
    gamma: float = 0.0,
    surrogate: str = "probability",
    **options: Any,
) -> MassChange:
    r"""Means of :func:`mass_change` over drawn groups; twin of :func:`expected_mass_change`.

    Parameters
    ----------
    p, correct, N, eta, reward_correct, reward_wrong, rule, gamma, surrogate, options
        As for :func:`expected_mass_change`.
    groups, rng
        As for :func:`estimate_mixed_group_prob`.

    Returns
    -------
    MassChange
        Its fields are :class:`MeanEstimate`.

    Raises
    ------
    ValueError
        As :func:`expected_mass_change`; groups not whole.

    Notes
    -----
    Cost per group O(N log K), whatever the number of actions K: sums over unsampled actions are
    totals less the sampled ones.

    Examples
    --------
    >>> p, correct = [0.5, 0.25, 0.25], [True, True, False]
    >>> change = estimate_mass_change(p, correct, 2, groups=10_000, rng=0)
    >>> low, high = change.delta_unsampled_pos.interval(0.999)
    >>> low < -0.010498046875 < high
    True
    """
    p, correct = checked_policy(p, correct)
    N = check.whole_number("N", N, high=LARGEST_GROUP)
    check.one_of("surrogate", surrogate, SURROGATES)
    a, b = advantages(N, reward_correct, reward_wrong, rule, gamma, options)
    rate = check.number("eta", eta) / N
    pos, neg = group_actions(p[correct]), group_actions(p[~correct])
    total = [MeanEstimate.of([])] * 5
    for actions, first in _draws(p, N, groups, rng):
        right, mass = correct[actions], p[actions]
        K = right.sum(axis=1)
        w = np.where(right, a[K][:, None], b[K][:, None])
        if surrogate == "probability":
            w = w * first * mass
        new = first & right
        sums = GroupSums(
            S=w.sum(axis=1),
            W_pos=(w * mass * right).sum(axis=1),
            W_neg=(w * mass * ~right).sum(axis=1),
            Q_u=pos.total - (mass * new).sum(axis=1),
            U_2=pos.square - (mass**2 * new).sum(axis=1),
        )
        change = first_order(sums, pos, neg, rate)
        total = [t + MeanEstimate.of(x) for t, x in zip(total, astuple(change), strict=True)]
    return MassChange(*total)


def _kinds(
    N: int, first: float, second: float, groups: int, rng: RNG
) -> Iterator[NDArray[np.int64]]:
    """How many of a group's N rollouts are of each of three kinds, for blocks of groups."""
    N = check.whole_number("N", N)
    random = generator(rng)
    chances = [first, second, max(1 - first - second, 0.0)]
    for size in _blocks(groups, 1):
        yield random.multinomial(N, chances, size=size)


def _draws(
    p: NDArray[np.float64], N: int, groups: int, rng: RNG
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
    """Sampled actions, sorted within each group, and which of them are first of their kind."""
    random = generator(rng)
    last = int(np.flatnonzero(p)[-1])
    edges = np.cumsum(p)[:last]
    for size in _blocks(groups, N):
        actions = np.searchsorted(edges, random.random((size, N)), side="right")
        actions.sort(axis=1)
        first = np.ones(actions.shape, bool)
        first[:, 1:] = actions[:, 1:] != actions[:, :-1]
        yield actions, first


def _blocks(groups: int, rollouts: int) -> Iterator[int]:
    left, size = check.whole_number("groups", groups, 0), max(_BLOCK // rollouts, 1)
    while left:
        yield min(size, left)
        left -= min(size, left)
