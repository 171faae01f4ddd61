r"""How one policy-gradient step moves probability between actions, for a group or on average.

A policy p = softmax(z) over finitely many actions, some correct, is updated from N rollouts. Both
surrogates give every logit

.. math:: \Delta z_i = \frac{\eta}{N} (w_i - p_i S), \qquad S = \sum_j w_j,

and differ only in what a sampled action contributes (an unsampled one contributes 0):

- ``"probability"``: :math:`w_i = R_i p_i` for each distinct sampled action, the gradient of
  :math:`\frac1N \sum R_i p_i` as the papers write it. S is then their batch baseline S_R.
- ``"ratio"``: :math:`w_i = n_i A_i` with n_i the number of times i was sampled, the policy gradient
  that trainers apply on policy. For a centred rule S = 0, and an unsampled logit does not move.

To first order :math:`\Delta p_i = p_i (\Delta z_i - \sum_j p_j \Delta z_j)`. Summing over a set of
actions, with Q its mass, P_2 the sum of all p^2 and W = sum_j w_j p_j,

.. math:: \sum_j p_j \Delta z_j = \frac{\eta}{N} (W - S P_2), \qquad
          \Delta Q_{u,pos} = \frac{\eta}{N} \Bigl[\underbrace{-S\,U_{pos,2}}_{\text{direct drift}}
          \; \underbrace{- Q_{u,pos} (W - S P_2)}_{\text{normalisation coupling}}\Bigr],

where Q_u,pos and U_pos,2 are the sums of p and p^2 over unsampled correct actions; and
:math:`\Delta Q_{pos} = \frac{\eta}{N} [Q_{neg} W_{pos} - Q_{pos} W_{neg} - S (Q_{neg} P_{pos,2} -
Q_{pos} P_{neg,2})]`. With the probability surrogate these are Prop. 3.2 and Eq. 17 of [FGRPO] v2.

**The exact expectation.** Let X be the number of correct rollouts, binomial(N, Q_pos). A rule gives
a correct rollout a_X and a wrong one b_X, so given X = k the weights are constants. Also given
X = k, the correct rollouts are k draws from the correct actions, the wrong ones N - k draws from
the wrong actions, *independently*. So every expectation above splits into a factor of the correct
actions times one of the wrong actions: with primes for conditional expectations,

.. math:: E[Q_{u,pos} W \mid k] = a_k\, E'[Q_{u,pos} A_2] + b_k\, E'[Q_{u,pos}]\, E'[B_2]

and likewise for the rest. Single sums have the elementary probabilities (1-q)^k; the pair sums
E'[U_pos,2 P_pos], E'[Q_u,pos A_2] and E'[Q_u,pos P_pos], all among correct actions, come from
Poissonisation and one Fourier transform (``_occupancy.py``). With the ratio surrogate even these
are single sums, because given that i was not drawn, n_j has mean k q_j / (1-q_i):

.. math:: E\Bigl[\sum_i 1_{i\,unsampled} p_i \sum_j n_j p_j \,\Big|\, k\Bigr]
          = \frac{k}{Q_{pos}} \sum_i p_i (P_{pos,2} - p_i^2) (1-q_i)^{k-1}.

Averaging over the binomial X ends the calculation (``_first_order.py``): cost O(K sqrt N), no
sampling noise.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._first_order import ExpectedMassChange, GroupSums, MassChange, expected_change, first_order
from ._occupancy import group_actions
from .advantages import LARGEST_GROUP, advantage_table
from .sampled_mass import checked_policy
from .weights import focal_weight

SURROGATES = ("probability", "ratio")


def mass_change(
    p: ArrayLike,
    correct: ArrayLike,
    counts: ArrayLike,
    *,
    group_size: int,
    eta: float = 1.0,
    reward_correct: ArrayLike = 1.0,
    reward_wrong: ArrayLike = -1.0,
    surrogate: str = "probability",
) -> MassChange:
    r"""First-order change of correct and of unsampled-correct mass by one group's update.

    .. math:: \Delta Q_{u,pos} = \frac{\eta}{N} \bigl[-S U_{pos,2} - Q_{u,pos} (W - S P_2)\bigr]

    Parameters
    ----------
    p : array_like, shape (K,)
        Probabilities of the actions; they sum to 1.
    correct : array_like of bool, shape (K,)
        Which actions are correct.
    counts : array_like of int >= 0, shape (..., K)
        How often the group sampled each action; a mask of the sampled actions is a count of 0 / 1.
        Leading axes are a batch of groups.
    group_size : int >= 1
        Rollouts in the group, N; at least the sum of the counts.
    eta : float
        Learning rate.
    reward_correct, reward_wrong : float or array_like, shape (...)
        Reward, or advantage, of a sampled correct and wrong action. For a rule, pass its
        :func:`advantage_table` entries at the group's K.
    surrogate : {"probability", "ratio"}
        What is differentiated: see the module's text.

    Returns
    -------
    MassChange
        Floats for one group, arrays of shape (...) for a batch.

    Raises
    ------
    ValueError
        Shapes that disagree; p not a distribution; counts not whole, negative or above group_size
        in sum; an unknown surrogate.

    Notes
    -----
    [FGRPO] v2, Eq. 17 and Prop. 3.2, and their counterparts for the ratio surrogate; derivations in
    ``symbolic.py``. Plain sums: absolute error of a few 1e-16 times eta times the largest reward.
    Compared with the softmax itself in tests/test_redistribution.py.

    Examples
    --------
    >>> change = mass_change([0.5, 0.25, 0.25], [True, True, False], [1, 0, 1], group_size=2)
    >>> change.delta_unsampled_pos, change.direct_drift
    (-0.01953125, -0.0078125)
    >>> mass_change([0.5, 0.25, 0.25], [True, True, False], [1, 0, 1], group_size=2,
    ...             surrogate="ratio").direct_drift
    0.0
    """
    p, correct = checked_policy(p, correct)
    counts = check.whole("counts", counts, 0)
    group_size = check.whole_number("group_size", group_size)
    rate = check.number("eta", eta) / group_size
    check.one_of("surrogate", surrogate, SURROGATES)
    if counts.ndim == 0 or counts.shape[-1] != p.size:
        raise ValueError(f"counts must have shape (..., {p.size}) as p; got {counts.shape}")
    drawn = np.asarray(counts.sum(axis=-1))
    check.at_most("the sum of counts", drawn, "group_size", np.asarray(float(group_size)))
    sampled = counts > 0
    w = sampled * p if surrogate == "probability" else counts
    a = check.finite("reward_correct", reward_correct)
    b = check.finite("reward_wrong", reward_wrong)
    for name, reward in (("reward_correct", a), ("reward_wrong", b)):
        if reward.ndim and reward.shape != drawn.shape:
            raise ValueError(
                f"{name} must be one number or of shape {drawn.shape}; got {reward.shape}"
            )
    w_pos, w_neg = w[..., correct], w[..., ~correct]
    unsampled = ~sampled[..., correct]
    p_pos, p_neg = p[correct], p[~correct]
    S = a * w_pos.sum(axis=-1) + b * w_neg.sum(axis=-1)
    W_pos, W_neg = a * (w_pos @ p_pos), b * (w_neg @ p_neg)
    sums = GroupSums(S, W_pos, W_neg, unsampled @ p_pos, unsampled @ p_pos**2)
    change = first_order(sums, group_actions(p_pos), group_actions(p_neg), rate)
    return change if drawn.ndim else MassChange(*map(float, astuple(change)))


def expected_mass_change(
    p: ArrayLike,
    correct: ArrayLike,
    N: int,
    *,
    eta: float = 1.0,
    reward_correct: float = 1.0,
    reward_wrong: float = -1.0,
    rule: str | None = None,
    gamma: float = 0.0,
    surrogate: str = "probability",
    **options: Any,
) -> ExpectedMassChange:
    r"""Exact expectation of :func:`mass_change` over groups of N rollouts from p.

    .. math:: E[\Delta] = \sum_k \mathrm{Bin}(k; N, Q_{pos}) \, E[\Delta \mid X = k]

    Parameters
    ----------
    p, correct : array_like, shape (K,)
        Policy and correctness, as for :func:`mass_change`.
    N : int >= 1
        Group size.
    eta : float
        Learning rate.
    reward_correct, reward_wrong : float
        What a sampled action gets when no rule is named.
    rule : str, optional
        One of ``RULES``: the advantages of :func:`advantage_table` replace the rewards.
    gamma : float >= 0
        Focal exponent: the update is multiplied by (1 - X/N)^gamma, with or without a rule.
    surrogate : {"probability", "ratio"}
        As for :func:`mass_change`.
    **options
        Options of the rule.

    Returns
    -------
    ExpectedMassChange
        Floats.

    Raises
    ------
    ValueError
        As :func:`mass_change` and :func:`advantage_table`; rewards together with a rule.

    Notes
    -----
    Method in the module's text; cost O(K sqrt N) at worst, far less when many actions share their
    probability. Absolute error about 1e-15 eta for rewards of size 1 and small N, growing to 1e-13
    at N = 131,072. Enumerated in Fractions, compared with Monte Carlo at K = 128,000 and with the
    direct double sum in tests/test_redistribution.py.

    Examples
    --------
    >>> p, correct = [0.5, 0.25, 0.25], [True, True, False]
    >>> expected_mass_change(p, correct, 2).delta_unsampled_pos
    -0.010498046875
    >>> expected_mass_change(p, correct, 2, rule="rloo", surrogate="ratio").baseline
    0.0
    """
    p, correct = checked_policy(p, correct)
    N = check.whole_number("N", N, high=LARGEST_GROUP)
    check.one_of("surrogate", surrogate, SURROGATES)
    a, b = advantages(N, reward_correct, reward_wrong, rule, gamma, options)
    pos, neg = group_actions(p[correct]), group_actions(p[~correct])
    return expected_change(pos, neg, a, b, np.ones_like, surrogate, check.number("eta", eta))


def advantages(
    N: int,
    reward_correct: float,
    reward_wrong: float,
    rule: str | None,
    gamma: float,
    options: dict[str, Any],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Weight of a correct and of a wrong rollout for every X = k."""
    a = check.number("reward_correct", reward_correct)
    b = check.number("reward_wrong", reward_wrong)
    if rule is not None:
        if (a, b) != (1.0, -1.0):
            raise ValueError(
                f"reward_correct and reward_wrong are for updates without a rule; got"
                f" {a!r} and {b!r} beside rule {rule!r}"
            )
        return advantage_table(rule, N, gamma=gamma, **options)
    if options:
        raise ValueError(f"options need a rule; got {', '.join(options)}")
    g = focal_weight(np.arange(N + 1.0) / N, check.number("gamma", gamma, 0))
    return a * g, b * g
