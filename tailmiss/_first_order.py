"""First-order change of masses from sums over a group, or over all groups in expectation.

The derivations are in ``redistribution.py``. Here every rollout of action i may carry a weight
omega(p_i) besides its advantage: 1 in the papers' updates, G w in ReCo's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._occupancy import Actions, binomial, pair_sums, single_sums

Weight = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class MassChange:
    """First-order change of correct mass by the update of one group; arrays over a batch of groups.

    Attributes
    ----------
    delta_pos : change of the correct mass Q_pos.
    delta_unsampled_pos : change of the mass of the correct actions that were not sampled.
    direct_drift : its part from those actions' own logits.
    normalization_coupling : its part from the softmax normaliser, as all other logits move.
    baseline : S, the sum of all weights; the papers' S_R with the probability surrogate.
    """

    delta_pos: Any
    delta_unsampled_pos: Any
    direct_drift: Any
    normalization_coupling: Any
    baseline: Any


@dataclass(frozen=True)
class ExpectedMassChange(MassChange):
    """Exact expectations, over groups of N rollouts, of the fields of :class:`MassChange`."""


class GroupSums(NamedTuple):
    """What an update needs of a group: sums of w, of w p by kind, and of unsampled p and p^2."""

    S: Any
    W_pos: Any
    W_neg: Any
    Q_u: Any
    U_2: Any


def first_order(group: GroupSums, pos: Actions, neg: Actions, rate: float) -> MassChange:
    """The change of masses by an update of step `rate` = eta / N."""
    S, W_pos, W_neg, Q_u, U_2 = group
    drift = 0.0 - rate * S * U_2
    coupling = 0.0 - rate * Q_u * (W_pos + W_neg - S * (pos.square + neg.square))
    delta_pos = rate * _delta_pos(W_pos, W_neg, S, pos, neg)
    return MassChange(delta_pos, drift + coupling, drift, coupling, S)


def _delta_pos(W_pos: Any, W_neg: Any, S: Any, pos: Actions, neg: Actions) -> Any:
    """Change of the correct mass per unit of eta / N; Eq. 17 without its cancelling terms."""
    shrinkage = neg.total * pos.square - pos.total * neg.square
    return neg.total * W_pos - pos.total * W_neg - S * shrinkage


def expected_change(
    pos: Actions,
    neg: Actions,
    a: NDArray[Any],
    b: NDArray[Any],
    omega: Weight,
    surrogate: str,
    eta: float,
) -> ExpectedMassChange:
    """Expectation over groups of N rollouts, N + 1 entries in a and b: sums given X = k, averaged.

    Given X = k the weights a_k, b_k are constants and the draws of correct and wrong actions are
    independent, so every expectation is a factor of the one kind times one of the other.
    """
    N = a.size - 1
    first, chance = binomial(N, pos.total, neg.total)
    k = first + np.arange(chance.size)
    a, b = a[k], b[k]
    S_pos, W_pos = _sampled(pos, k, omega, surrogate)
    S_neg, W_neg = (x[::-1] for x in _sampled(neg, N - k[::-1], omega, surrogate))
    with_unsampled = _with_each_draw if surrogate == "ratio" else _with_each_action
    Q_u, U_2, U_2_S, Q_u_S, Q_u_W = with_unsampled(pos, k, omega, N * pos.total)
    S = a * S_pos + b * S_neg
    change = _delta_pos(a * W_pos, b * W_neg, S, pos, neg)
    drift = a * U_2_S + b * U_2 * S_neg
    coupling = a * Q_u_W + b * Q_u * W_neg
    coupling = coupling - (pos.square + neg.square) * (a * Q_u_S + b * Q_u * S_neg)
    rate = eta / N
    drift, coupling = 0.0 - rate * float(chance @ drift), 0.0 - rate * float(chance @ coupling)
    return ExpectedMassChange(
        rate * float(chance @ change), drift + coupling, drift, coupling, float(chance @ S)
    )


def _sampled(
    actions: Actions, k: NDArray[Any], omega: Weight, surrogate: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """S and W of one kind, the sums of w and w p per unit of advantage, given k draws from it.

    A sampled action has w = omega n under the ratio surrogate, omega p under the probability one.
    """
    weighted = omega(actions.p) * actions.p
    rows = np.stack([weighted, weighted * actions.p])
    if surrogate == "ratio":
        S, W = (rows @ actions.copies)[:, None] * k / (actions.total or 1.0)
    else:
        S, W = single_sums(actions, rows, int(k[0]), int(k[-1]))[1]
    return S, W


def _with_each_draw(
    actions: Actions, k: NDArray[Any], omega: Weight, mean: float
) -> list[NDArray[Any]]:
    """Q_u and U_2, the unsampled p and p^2, and U_2 S, Q_u S, Q_u W under the ratio surrogate.

    Given that i is unsampled, each of the k draws is j != i with probability q_j / (1 - q_i).
    """
    p, total = actions.p, actions.total or 1.0
    weighted = omega(p) * p
    S, W = actions.copies @ weighted, actions.copies @ (weighted * p)
    others = np.stack([p**2 * (S - weighted), p * (S - weighted), p * (W - weighted * p)]) / total
    first = max(int(k[0]) - 1, 0)
    unsampled, _ = single_sums(actions, np.stack([p, p**2, *others]), first, int(k[-1]))
    before = unsampled[2:, np.maximum(k - 1, 0) - first]
    return [*unsampled[:2, k - first], *(k * before)]


def _with_each_action(
    actions: Actions, k: NDArray[Any], omega: Weight, mean: float
) -> list[NDArray[Any]]:
    """The same under the probability surrogate, where a sampled action counts omega p once."""
    p, low, high = actions.p, int(k[0]), int(k[-1])
    weighted = omega(p) * p
    Q_u, U_2 = single_sums(actions, np.stack([p, p**2]), low, high)[0]
    if not p.size:
        return [Q_u, U_2] + 3 * [np.zeros(k.size)]
    pairs = [(p**2, weighted), (p, weighted), (p, weighted * p)]
    return [Q_u, U_2, *pair_sums(actions, pairs, low, high, mean)]
