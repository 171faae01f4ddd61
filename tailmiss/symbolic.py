r"""The results of the theory as SymPy statements, each with a proof that SymPy checks.

Every function returns a :class:`Theorem`: the statement, and the steps that prove it for all group
sizes and any number of actions. A step holds when SymPy reduces it to ``True``; `proved` is their
conjunction. ``python -m tailmiss.symbolic`` prints all of them.

Needs SymPy: ``pip install 'tailmiss[symbolic]'``.
"""

from __future__ import annotations

import sys
from typing import Any

import sympy as sp

from ._theorem import N, Theorem, equal, k, report, theorem
from .symbolic_redistribution import (
    correct_mass_change,
    logit_update,
    poissonisation,
    ratio_surrogate,
    subset_mass,
    unsampled_correct_mass_change,
)
from .weights import focal_weight


def tail_miss() -> Theorem:
    """Lemma 3.1, by induction on the rollouts of a group, and the product form that is computed."""
    c, w = sp.symbols("c w", positive=True)  # other correct, wrong
    mu, tau, q, s = sp.symbols("mu tau q s", positive=True)

    def missed(n: Any) -> Any:
        return (c + w) ** n - c**n - w**n

    # A group without the subset is so far all other-correct, all wrong, or mixed; one more rollout
    # keeps it mixed unless it hits the subset, or makes it mixed by being of the other kind.
    grown = missed(N) * (c + w) + c**N * w + w**N * c
    printed = (1 - tau) ** N - (mu - tau) ** N - (1 - mu) ** N
    product = s**N * (1 - q**N - (1 - q) ** N)
    return theorem(
        "Tail-miss probability",
        "[FGRPO] v2, Lemma 3.1",
        sp.Eq(sp.Symbol("Pr(B)"), printed),
        {
            "one rollout is never mixed": sp.expand(missed(1)) == 0,
            "from N to N + 1 rollouts": equal(missed(N + 1), grown),
            "c = mu - tau, w = 1 - mu": missed(N).subs({c: mu - tau, w: 1 - mu}).equals(printed),
            "product form, q = c/s, 1 - q = w/s, s = c + w": equal(
                sp.expand_power_base(missed(N).subs(c + w, s).subs({c: q * s, w: (1 - q) * s})),
                sp.expand(product),
            ),
        },
    )


def unique_peak() -> Theorem:
    r"""The tail-miss probability as a function of real N has one stationary point, its maximum."""
    n = sp.Symbol("N", positive=True)
    alpha, beta, sigma = sp.symbols("alpha beta sigma", positive=True)
    s, c, w = (sp.exp(-x) for x in (sigma, sigma + alpha, sigma + beta))
    slope = sp.diff(s**n - c**n - w**n, n)
    A, B = 1 + alpha / sigma, 1 + beta / sigma
    sign = 1 - A * sp.exp(-alpha * n) - B * sp.exp(-beta * n)
    return theorem(
        "Unique peak",
        "tailmiss; used by worst_group_size",
        sp.Eq(
            sp.Derivative(sp.Function("f")(n), n),
            sp.Symbol("s") ** n * sp.log(sp.Symbol("s")) * sp.Symbol("g(N)"),
        ),
        {
            "f' = s^N ln(s) g with g = 1 - A (c/s)^N - B (w/s)^N, A = ln c/ln s, B = ln w/ln s": (
                equal(slope, sp.exp(-sigma * n) * -sigma * sign)
            ),
            "g increases strictly": sp.diff(sign, n).is_positive,
            "g < 0 at N = 0, where f still rises": (
                sp.simplify(sign.subs(n, 0) + 1 + (alpha + beta) / sigma) == 0
            ),
            "g tends to 1, where f falls": sp.limit(sign, n, sp.oo) == 1,
        },
    )


def sampled_mass_is_monotone() -> Theorem:
    """Lemma H.1: E[P_pos | X = k] never falls with k; E[P_neg | X = k] never rises."""
    p, q, absent = sp.symbols("p q r", nonnegative=True)  # r = 1 - q

    def sampled(draws: Any) -> Any:
        return p * (1 - absent**draws)

    more = p * absent**k * q
    o, count = sp.Symbol("o"), sp.Symbol("|C|", integer=True)
    share = sp.Indexed("q", o)
    return theorem(
        "Sampled mass is monotone",
        "[FGRPO] v2, Lemma H.1",
        sp.Eq(
            sp.Symbol("E[P_pos|X=k]"),
            sp.Sum(sp.Indexed("p", o) * (1 - (1 - share) ** k), (o, 1, count)),
        ),
        {
            "no draw, no mass": sampled(0) == 0,
            "each draw leaves an unsampled action unsampled with probability 1 - q": (
                equal(p - sampled(k + 1), (p - sampled(k)) * absent)
            ),
            "one more draw adds p (1-q)^k q for each action": (
                equal(sampled(k + 1) - sampled(k), more.subs(q, 1 - absent))
            ),
            "which is >= 0; a higher k is one more correct and one fewer wrong draw": (
                more.is_nonnegative
            ),
        },
    )


def baseline_is_monotone() -> Theorem:
    """Cor. H.2: with R_w <= 0 < R_c, E[S_R | X = k] never falls with k."""
    gain, loss = sp.symbols("gain loss", nonnegative=True)
    good, bad = sp.Symbol("R_c", positive=True), sp.Symbol("R_w", nonpositive=True)
    P_pos, P_neg = sp.symbols("P_pos P_neg", real=True)
    step = (good * (P_pos + gain) + bad * (P_neg - loss)) - (good * P_pos + bad * P_neg)
    return theorem(
        "The baseline is monotone",
        "[FGRPO] v2, Cor. H.2",
        sp.Ge(sp.Symbol("E[S_R|X=k+1]"), sp.Symbol("E[S_R|X=k]")),
        {
            "by Lemma H.1 P_pos gains and P_neg loses, each >= 0": (sp.expand(step).is_nonnegative),
        },
    )


def learning_rate() -> Theorem:
    """App. N: the mean focal-weighted advantage over a uniform success rate."""
    gamma, mu, nu = sp.symbols("gamma mu nu", positive=True)
    size = mu * sp.sqrt(nu / mu) + nu * sp.sqrt(mu / nu)  # correct and wrong rollouts, nu = 1 - mu
    half = sp.Rational(1, 2)
    t = sp.Symbol("t", positive=True)
    integrand = sp.sqrt(mu) * (1 - mu) ** (half + gamma)
    substituted = sp.sqrt(t) * (1 + t) ** (-gamma - 3)
    area = sp.integrate(substituted, (t, 0, sp.oo))
    multiplier = 4 / sp.sqrt(sp.pi) * sp.gamma(gamma + 3 * half) / sp.gamma(gamma + 3)
    return theorem(
        "Learning-rate multiplier",
        "[FGRPO] v2, App. N",
        sp.Eq(sp.Symbol("m_gamma"), multiplier),
        {
            "mean |A| of GRPO is 2 sqrt(mu (1-mu))": equal(size, 2 * sp.sqrt(mu * nu)),
            "times (1-mu)^gamma, with mu = t/(1+t)": equal(
                integrand.subs(mu, t / (1 + t)).subs(1 - t / (1 + t), 1 / (1 + t))
                * sp.cancel(sp.diff(t / (1 + t), t)),
                substituted,
            ),
            "the integral over t, relative to gamma = 0": (
                sp.gammasimp(area / area.subs(gamma, 0) / multiplier) == 1
            ),
            "as a ratio of beta functions": (
                sp.gammasimp(
                    sp.beta(3 * half, gamma + 3 * half).rewrite(sp.gamma)
                    / sp.beta(3 * half, 3 * half).rewrite(sp.gamma)
                    / multiplier
                )
                == 1
            ),
            "m_0 = 1, m_1 = 1/2, m_2 = 5/16": (
                [multiplier.subs(gamma, g) for g in (0, 1, 2)] == [1, half, sp.Rational(5, 16)]
            ),
        },
    )


def weight_function() -> Theorem:
    """The expected update of a prompt is w_N(p) grad p, w_N(p) = E[a_{J+1} - b_J]."""
    p, theta = sp.symbols("p theta", positive=True)
    pi = sp.Function("pi")(theta)
    a, b = sp.IndexedBase("a"), sp.IndexedBase("b")

    def binomial(n: Any, j: Any) -> Any:
        return sp.binomial(n, j) * p**j * (1 - p) ** (n - j)

    def update(n: int) -> Any:  # coefficient of grad p: K/n correct rollouts, (n-K)/n wrong ones
        return sum(
            binomial(n, K) * (K * a[K] / p - (n - K) * b[K] / (1 - p)) / n for K in range(n + 1)
        )

    def weight(n: int) -> Any:
        return sum(binomial(n - 1, J) * (a[J + 1] - b[J]) for J in range(n))

    J = sp.Symbol("J", integer=True)
    return theorem(
        "Population weight function",
        "tailmiss; weight_function",
        sp.Eq(sp.Symbol("w_N(p)"), sp.Sum(binomial(N - 1, J) * (a[J + 1] - b[J]), (J, 0, N - 1))),
        {
            "pi grad log pi = grad pi: E[grad log pi] is grad p/p if correct, else -grad p/(1-p)": (
                equal(pi * sp.diff(sp.log(pi), theta), sp.diff(pi, theta))
            ),
            "correct: C(N,K) K/N = C(N-1,K-1), so K = J + 1": (
                sp.combsimp(sp.binomial(N, k) * k / N / sp.binomial(N - 1, k - 1)) == 1
            ),
            "wrong: C(N,K) (N-K)/N = C(N-1,K), so K = J": (
                sp.combsimp(sp.binomial(N, k) * (N - k) / N / sp.binomial(N - 1, k)) == 1
            ),
            "written out for N = 1..5": all(
                sp.expand(sp.cancel(sp.expand(update(n) - weight(n)))) == 0 for n in range(1, 6)
            ),
            "focal weight: a_K and b_K times (1 - K/N)^gamma, no gradient through it": (
                focal_weight(k / N, sp.Integer(1)) == 1 - k / N
            ),
        },
    )


THEOREMS = (
    tail_miss,
    unique_peak,
    logit_update,
    subset_mass,
    correct_mass_change,
    unsampled_correct_mass_change,
    ratio_surrogate,
    sampled_mass_is_monotone,
    baseline_is_monotone,
    learning_rate,
    weight_function,
    poissonisation,
)


def main() -> int:
    """Print every theorem with its proof; the exit status is 1 if a step does not hold."""
    return report(THEOREMS)


if __name__ == "__main__":
    sys.exit(main())
