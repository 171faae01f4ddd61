r"""SymPy statements about ReCo's two levels, each proved when it is called.

A function returns the equation it states, after SymPy has reduced its two sides to the same
expression; it raises ``ValueError`` if they differ. Symbols: s is the logit of the sampled token
against all others, :math:`p = \sigma(s)`; p_0 the rollout probability; v the variance ratio.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from .weights import response_weight, variance_ratio

s = sp.Symbol("s", real=True)
p, p_0 = sp.symbols("p p_0", positive=True)
SIGMOID = 1 / (1 + sp.exp(-s))


def proved(left: Any, right: Any) -> sp.Eq:
    """The equation left = right, once SymPy has reduced the difference to zero."""
    if sp.simplify(sp.together(left - right)) != 0:
        raise ValueError(f"not equal: {left} and {right}")
    return sp.Eq(left, right, evaluate=False)


def importance_slope() -> sp.Eq:
    r"""d log r / ds = 1 - p: the importance ratio goes flat as p approaches 1."""
    slope = sp.diff(sp.log(SIGMOID / p_0), s)
    return proved(slope, 1 - SIGMOID)


def variance_slope() -> sp.Eq:
    r"""d log v / ds = 1 - 2p: bounded, and of the other sign past p = 1/2."""
    slope = sp.diff(sp.log(variance_ratio(SIGMOID, p_0)), s)
    return proved(slope, 1 - 2 * SIGMOID)


def autograd_factor() -> sp.Eq:
    r"""grad v = v (1-2p)/(1-p) grad log p: what differentiating the ratio does (reading C)."""
    v = variance_ratio(p, p_0)
    return proved(sp.diff(v, p), v * (1 - 2 * p) / (1 - p) * sp.diff(sp.log(p), p))


def on_policy() -> sp.Eq:
    """v = 1 at p = p_0: the first update on fresh rollouts is GRPO's."""
    return proved(variance_ratio(p_0, p_0), sp.Integer(1))


def mirror() -> sp.Eq:
    """v(p) = v(1 - p): a token may fall from 0.9 to 0.1 and look unmoved."""
    return proved(variance_ratio(p, p_0), variance_ratio(1 - p, p_0))


def clip_point() -> sp.Eq:
    r"""v = b at :math:`p = \tfrac12 (1 - \sqrt{1 - 4 b p_0 (1-p_0)})`, and at its mirror image."""
    b = sp.Symbol("b", positive=True)
    point = (1 - sp.sqrt(1 - 4 * b * p_0 * (1 - p_0))) / 2
    return proved(variance_ratio(point, p_0), b)


def largest_ratio() -> sp.Eq:
    """The largest v is 1 / (4 p_0 (1-p_0)), at p = 1/2: no clip above it ever acts."""
    v = variance_ratio(p, p_0)
    curvature = sp.simplify(sp.diff(v, p, 2) * p_0 * (1 - p_0))
    if sp.solve(sp.diff(v, p), p) != [sp.Rational(1, 2)] or curvature != -2:
        raise ValueError("v is not concave with its peak at 1/2")
    return proved(v.subs(p, sp.Rational(1, 2)), 1 / (4 * p_0 * (1 - p_0)))


def gap_to_importance() -> sp.Eq:
    r"""v - r = -p_0 ds + O(ds^2), where ds is the move of the token's logit since the rollout.

    The token level changes an update by no more than the share that logits moved within one batch.
    """
    ds = sp.Symbol("ds", real=True)
    moved = p_0 * sp.exp(ds) / (1 - p_0 + p_0 * sp.exp(ds))
    gap = variance_ratio(moved, p_0) - moved / p_0
    return proved(sp.series(gap, ds, 0, 2).removeO(), -p_0 * ds)


def anti_saturation(actions: int = 3) -> sp.Eq:
    r"""Reading C on policy: :math:`\sum_a \pi_a f(\pi_a) \nabla \log \pi_a = -\nabla \Phi`.

    f(x) = (1-2x)/(1-x), and Phi = sum of -x - ln(1-x) over the policy: A times a regulariser
    against saturation, turned around where A < 0. Stated for the first logit.
    """
    z = sp.symbols(f"z0:{actions}", real=True)
    total = sum(sp.exp(x) for x in z)
    pi = [sp.exp(x) / total for x in z]
    left = sum(x * (1 - 2 * x) / (1 - x) * sp.diff(sp.log(x), z[0]) for x in pi)
    potential = sum(-x - sp.log(1 - x) for x in pi)
    return proved(left, -sp.diff(potential, z[0]))


def inverse_propensity(actions: int = 3, group_size: int = 2) -> sp.Eq:
    r"""E[sum_i f(o_i) / (G pi(o_i))] = sum of f: with whole-response probabilities, every response
    counts once, however rare. The geometric mean keeps only the power 1/L of this.
    """
    pi = sp.symbols(f"pi0:{actions}", positive=True)
    f = sp.symbols(f"f0:{actions}", real=True)
    weight = [response_weight(sp.log(x), group_size) for x in pi]
    # EULER is a double; the identity is about e itself.
    weight = [w.xreplace({n: sp.E for n in w.atoms(sp.Float)}) for w in weight]
    expected = group_size * sum(x * w * value for x, w, value in zip(pi, weight, f, strict=True))
    return proved(expected, sum(f))


def common_against_rare() -> sp.Eq:
    r"""Expected push on log p_i - log p_j of two correct answers without net push.

    :math:`n_i` rollouts of weight :math:`G w_i = p_i^{-1/L}` push logit i by
    :math:`p_i^{1 - 1/L}` in expectation: equally for all i only at L = 1, and as GRPO, by p_i, when
    L is large.
    """
    L = sp.Symbol("L", positive=True)
    pushed = p * p ** (-1 / L)
    if sp.limit(pushed, L, sp.oo) != p or sp.simplify(pushed.subs(L, 1)) != 1:
        raise ValueError("the limits in L are not 1 and p")
    return proved(pushed, p ** (1 - 1 / L))


STATEMENTS = (
    importance_slope,
    variance_slope,
    autograd_factor,
    on_policy,
    mirror,
    clip_point,
    largest_ratio,
    gap_to_importance,
    anti_saturation,
    inverse_propensity,
    common_against_rare,
)
