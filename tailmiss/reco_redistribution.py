"""How ReCo's response weight changes the mass that one step moves: exact, and by Monte Carlo."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._first_order import (
    ExpectedMassChange,
    GroupSums,
    MassChange,
    expected_change,
    first_order,
)
from ._occupancy import group_actions
from ._rng import RNG, generator
from .advantages import advantage_table
from .estimate import MeanEstimate
from .redistribution import SURROGATES
from .sampled_mass import checked_policy
from .weights import response_weight

_BLOCK = 2**20


def expected_reco_mass_change(
    p: ArrayLike,
    correct: ArrayLike,
    N: int,
    *,
    length: float = 1.0,
    cap: float = 5.0,
    rule: str = "grpo",
    gamma: float = 0.0,
    eta: float = 1.0,
    surrogate: str = "ratio",
    **options: Any,
) -> ExpectedMassChange:
    r"""Exact expected first step on a categorical policy under ReCo's response weight.

    :func:`tailmiss.expected_mass_change` with every sampled action's advantage multiplied by

    .. math:: \omega_i = G w_i = \min(\mathrm{cap},\; p_i^{-1/L})

    Parameters
    ----------
    p, correct, N, rule, gamma, eta, surrogate, options
        As for :func:`tailmiss.expected_mass_change`.
    length : float >= 1
        L, tokens over which the probability of an answer is spread: pibar = p_i^(1/L).
    cap : float >= 1
        Largest G w; infinite for none.

    Returns
    -------
    ExpectedMassChange
        ``baseline`` / N is the expected net push, E[sum_i w_i A_i].

    Raises
    ------
    ValueError
        As :func:`tailmiss.expected_mass_change`; length or cap below 1.

    Notes
    -----
    The weight depends on the action alone, so the argument of ``redistribution.py`` holds with
    omega-weighted sums: given X = k the correct and the wrong draws stay independent. With the
    ratio surrogate an answer's own rollouts push its logit by p omega = p^(1 - 1/L) in expectation:
    alike for common and rare answers at L = 1 without a cap, and as in GRPO, by p, for L of a few
    tokens and more. The net push adds -p S to every logit, sampled or not, which for S < 0 favours
    what is likely. Self-normalised weights couple all draws and do not factorise:
    :func:`estimate_reco_mass_change`. Equal to expected_mass_change at cap 1 and to enumeration in
    tests/test_reco.py.

    Examples
    --------
    >>> p, correct = [0.5, 0.25, 0.25], [True, True, False]
    >>> expected_reco_mass_change(p, correct, 2, cap=1).delta_pos
    0.0546875
    >>> expected_reco_mass_change(p, correct, 2).baseline < 0
    True
    """
    p, correct = checked_policy(p, correct)
    N = check.whole_number("N", N)
    check.one_of("surrogate", surrogate, SURROGATES)
    _check_weight(length, cap)
    a, b = advantage_table(rule, N, gamma=gamma, **options)
    pos, neg = group_actions(p[correct]), group_actions(p[~correct])
    return expected_change(
        pos, neg, a, b, lambda p: _relative_weight(p, length, cap), surrogate,
        check.number("eta", eta),
    )  # fmt: skip


def estimate_reco_mass_change(
    p: ArrayLike,
    correct: ArrayLike,
    N: int,
    *,
    groups: int,
    rng: RNG = None,
    length: float = 1.0,
    cap: float = 5.0,
    self_normalize: bool = False,
    rule: str = "grpo",
    gamma: float = 0.0,
    eta: float = 1.0,
    **options: Any,
) -> MassChange:
    """Monte Carlo twin of :func:`expected_reco_mass_change`, ratio surrogate.

    Parameters
    ----------
    p, correct, N, length, cap, rule, gamma, eta, options
        As for :func:`expected_reco_mass_change`.
    groups : int >= 1
        Groups to draw.
    rng : int, SeedSequence, Generator or None
    self_normalize : bool
        Divide the weights of a group by their mean, which has no closed form.

    Returns
    -------
    MassChange
        Each field a :class:`tailmiss.MeanEstimate`.

    Raises
    ------
    ValueError
        As :func:`expected_reco_mass_change`; groups below 1.

    Notes
    -----
    Each group is one multinomial draw of how often every action is sampled; the change follows from
    the group's sums as in ``redistribution.py``. Compared with the exact value in
    tests/test_reco.py.

    Examples
    --------
    >>> change = estimate_reco_mass_change([0.5, 0.3, 0.2], [1, 1, 0], 4, groups=1000, rng=0)
    >>> low, high = change.delta_pos.interval(0.999)
    >>> low < expected_reco_mass_change([0.5, 0.3, 0.2], [1, 1, 0], 4).delta_pos < high
    True
    """
    p, correct = checked_policy(p, correct)
    N, groups = check.whole_number("N", N), check.whole_number("groups", groups)
    _check_weight(length, cap)
    a, b = advantage_table(rule, N, gamma=gamma, **options)
    omega = np.zeros(p.size)
    omega[p > 0] = _relative_weight(p[p > 0], length, cap)
    rng, rate = generator(rng), check.number("eta", eta) / N
    pos, neg = group_actions(p[correct]), group_actions(p[~correct])
    block = max(_BLOCK // p.size, 1)
    found: list[list[MeanEstimate]] = []
    for start in range(0, groups, block):
        counts = rng.multinomial(N, p, size=min(block, groups - start))
        weighted = counts * omega
        if self_normalize:
            weighted *= N / weighted.sum(axis=1, keepdims=True)
        K = counts[:, correct].sum(axis=1)
        w = weighted * np.where(correct, a[K][:, None], b[K][:, None])
        unsampled = (counts == 0) & correct
        sums = GroupSums(
            S=w.sum(axis=1),
            W_pos=w @ (p * correct),
            W_neg=w @ (p * ~correct),
            Q_u=unsampled @ p,
            U_2=unsampled @ p**2,
        )
        change = first_order(sums, pos, neg, rate)
        found.append([MeanEstimate.of(field) for field in astuple(change)])
    total = [sum(parts[1:], parts[0]) for parts in zip(*found, strict=True)]
    return MassChange(*total)


def _relative_weight(p: NDArray[Any], length: float, cap: float) -> NDArray[Any]:
    """G w of answers of probability p."""
    return np.minimum(response_weight(np.log(p) / length, 1), cap)


def _check_weight(length: float, cap: float) -> None:
    check.number("length", length, 1)
    check.one("cap", check.within("cap", cap, 1.0, np.inf))
