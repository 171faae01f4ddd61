r"""What ReCo's two levels do, as SymPy statements with proofs that SymPy checks.

s is the logit of the sampled token against all others, :math:`p = \sigma(s)`; p_0 the rollout
probability; r = p/p_0 the importance ratio and v the variance ratio, in the library's own
arithmetic. ``python -m tailmiss.reco_symbolic`` prints all of them.

Needs SymPy: ``pip install 'tailmiss[symbolic]'``.
"""

from __future__ import annotations

import sys
from typing import Any

import sympy as sp

from ._theorem import Theorem, report, theorem
from .weights import response_weight, variance_ratio

SOURCE = "[RECO] v1, derived"
s, d = sp.symbols("s d", real=True)
p, p_0, b, L = sp.symbols("p p_0 b L", positive=True)
SIGMOID = 1 / (1 + sp.exp(-s))
V = variance_ratio(p, p_0)


def _zero(expression: Any) -> bool:
    return bool(sp.simplify(sp.together(expression)) == 0)


def slopes() -> Theorem:
    """How both ratios answer to the logit: r goes flat at p = 1, v turns around at p = 1/2."""
    return theorem(
        "Slopes of the two ratios",
        SOURCE,
        sp.Eq(sp.Derivative(sp.log(sp.Function("v")(s)), s), 1 - 2 * p),
        {
            "d log r / ds = 1 - p": _zero(sp.diff(sp.log(SIGMOID / p_0), s) - (1 - SIGMOID)),
            "d log v / ds = 1 - 2p": _zero(
                sp.diff(sp.log(variance_ratio(SIGMOID, p_0)), s) - (1 - 2 * SIGMOID)
            ),
        },
    )


def differentiated_ratio() -> Theorem:
    """Reading C: differentiating v multiplies grad log p by v (1-2p)/(1-p)."""
    factor = V * (1 - 2 * p) / (1 - p)
    return theorem(
        "The differentiated ratio",
        SOURCE,
        sp.Eq(sp.Symbol("grad v"), factor * sp.Symbol("grad log p")),
        {
            "dv/dp = v (1-2p)/(1-p) d log p/dp": _zero(sp.diff(V, p) - factor / p),
            "negative for p > 1/2: -8 at p = 0.9 on policy": (
                factor.subs(p_0, p).subs(p, sp.Rational(9, 10)) == -8
            ),
        },
    )


def anti_saturation(actions: int = 3) -> Theorem:
    """Reading C on policy is A times a regulariser against saturation, reversed where A < 0."""
    z = sp.symbols(f"z0:{actions}", real=True)
    total = sum(sp.exp(x) for x in z)
    pi = [sp.exp(x) / total for x in z]
    pushed = sum(x * (1 - 2 * x) / (1 - x) * sp.diff(sp.log(x), z[0]) for x in pi)
    potential = -p - sp.log(1 - p)
    return theorem(
        "Anti-saturation",
        SOURCE,
        sp.Eq(sp.Symbol("E[f grad log pi]"), -sp.Symbol("grad sum_a phi(pi_a)")),
        {
            "phi(x) = -x - ln(1-x) has phi' = x/(1-x)": _zero(sp.diff(potential, p) - p / (1 - p)),
            f"in every logit of {actions} actions, by symmetry the first": _zero(
                pushed + sp.diff(sum(potential.subs(p, x) for x in pi), z[0])
            ),
        },
    )


def fresh_rollouts() -> Theorem:
    """On fresh rollouts v = r = 1, and their gap grows only with the move of the logit."""
    moved = p_0 * sp.exp(d) / (1 - p_0 + p_0 * sp.exp(d))
    gap = variance_ratio(moved, p_0) - moved / p_0
    return theorem(
        "Fresh rollouts",
        SOURCE,
        sp.Eq(sp.Symbol("v - r"), -p_0 * d + sp.Order(d**2)),
        {
            "v = 1 at p = p_0, whatever p_0": _zero(V.subs(p, p_0) - 1),
            "v - r = -p_0 d + O(d^2), d the move of the logit within the batch": _zero(
                sp.series(gap, d, 0, 2).removeO() + p_0 * d
            ),
        },
    )


def clip_is_no_trust_region() -> Theorem:
    """v looks the same at p and 1 - p; where a clip on it begins to mask."""
    low = (1 - sp.sqrt(1 - 4 * b * p_0 * (1 - p_0))) / 2
    return theorem(
        "A clip on v is no trust region",
        SOURCE,
        sp.Eq(sp.Symbol("p"), low),
        {
            "v(p) = v(1-p)": _zero(V - V.subs(p, 1 - p)),
            "v = b at p = (1 - sqrt(1 - 4 b p_0 (1-p_0)))/2 and at 1 - p": _zero(
                V.subs(p, low) - b
            ),
            "one stationary point, p = 1/2": sp.solve(sp.diff(V, p), p) == [sp.Rational(1, 2)],
            "v is concave": _zero(sp.diff(V, p, 2) * p_0 * (1 - p_0) + 2),
            "so v is at most 1/(4 p_0 (1-p_0)): no bound above it ever masks": _zero(
                V.subs(p, sp.Rational(1, 2)) - 1 / (4 * p_0 * (1 - p_0))
            ),
        },
    )


def response_weights(actions: int = 3, group_size: int = 2) -> Theorem:
    """The weight of the whole response is inverse propensity; the mean keeps its 1/L-th power."""
    pi = sp.symbols(f"pi0:{actions}", positive=True)
    f = sp.symbols(f"f0:{actions}", real=True)

    def weight(x: Any, length: Any, size: Any) -> Any:
        value = response_weight(sp.log(x) / length, size)
        # The library's e is a double; the identity is about e itself.
        return sp.simplify(value.xreplace({n: sp.E for n in value.atoms(sp.Float)}))

    expected = sum(
        group_size * x * weight(x, 1, group_size) * value for x, value in zip(pi, f, strict=True)
    )
    pushed = p * weight(p, L, 1)
    return theorem(
        "Response weights",
        SOURCE,
        sp.Eq(sp.Symbol("p G w"), p ** (1 - 1 / L)),
        {
            "L = 1: E[sum_i f(o_i) / (G pi(o_i))] = sum_o f(o)": _zero(expected - sum(f)),
            "a response of probability p is pushed by p^(1-1/L)": _zero(pushed - p ** (1 - 1 / L)),
            "L = 1: every response alike": _zero(pushed.subs(L, 1) - 1),
            "L to infinity: as in GRPO, by p": sp.limit(p ** (1 - 1 / L), L, sp.oo) == p,
        },
    )


THEOREMS = (
    slopes,
    differentiated_ratio,
    anti_saturation,
    fresh_rollouts,
    clip_is_no_trust_region,
    response_weights,
)


def main() -> int:
    """Print every theorem with its proof; the exit status is 1 if a step does not hold."""
    return report(THEOREMS)


if __name__ == "__main__":
    sys.exit(main())
