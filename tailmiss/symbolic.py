r"""The results of the theory as SymPy statements, each with a proof that SymPy checks.

Every function returns a :class:`Theorem`: the statement, and the steps that prove it for all group
sizes and any number of actions. A step holds when SymPy reduces it to ``True``; `proved` is their
conjunction. ``python -m tailmiss.symbolic`` prints all of them.

A sum over actions enters a proof as one symbol: the identities are linear in the sums over each
kind of action (sampled or not, correct or not), so that they hold for any number of actions.

Needs SymPy: ``pip install 'tailmiss[symbolic]'``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import sympy as sp

from .weights import focal_weight

N = sp.Symbol("N", integer=True, positive=True)
k = sp.Symbol("k", integer=True, nonnegative=True)
eta, R_c, R_w = sp.symbols("eta R_c R_w", real=True)


@dataclass(frozen=True)
class Theorem:
    """A statement, where it comes from, and the named steps of its proof."""

    name: str
    source: str
    statement: Any
    steps: tuple[tuple[str, bool], ...]

    @property
    def proved(self) -> bool:
        """Whether SymPy reduced every step to True."""
        return bool(self.steps) and all(holds for _, holds in self.steps)


def _theorem(name: str, source: str, statement: Any, steps: dict[str, Any]) -> Theorem:
    return Theorem(name, source, statement, tuple((s, x is True) for s, x in steps.items()))


def _equal(left: Any, right: Any) -> bool:
    return bool(sp.simplify(sp.expand(sp.powsimp(sp.expand(left - right)))) == 0)


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
    return _theorem(
        "Tail-miss probability",
        "[FGRPO] v2, Lemma 3.1",
        sp.Eq(sp.Symbol("Pr(B)"), printed),
        {
            "one rollout is never mixed": sp.expand(missed(1)) == 0,
            "from N to N + 1 rollouts": _equal(missed(N + 1), grown),
            "c = mu - tau, w = 1 - mu": missed(N).subs({c: mu - tau, w: 1 - mu}).equals(printed),
            "product form, q = c/s, 1 - q = w/s, s = c + w": _equal(
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
    return _theorem(
        "Unique peak",
        "tailmiss; used by worst_group_size",
        sp.Eq(
            sp.Derivative(sp.Function("f")(n), n),
            sp.Symbol("s") ** n * sp.log(sp.Symbol("s")) * sp.Symbol("g(N)"),
        ),
        {
            "f' = s^N ln(s) g with g = 1 - A (c/s)^N - B (w/s)^N, A = ln c/ln s, B = ln w/ln s": (
                _equal(slope, sp.exp(-sigma * n) * -sigma * sign)
            ),
            "g increases strictly": sp.diff(sign, n).is_positive,
            "g < 0 at N = 0, where f still rises": (
                sp.simplify(sign.subs(n, 0) + 1 + (alpha + beta) / sigma) == 0
            ),
            "g tends to 1, where f falls": sp.limit(sign, n, sp.oo) == 1,
        },
    )


def logit_update() -> Theorem:
    r"""Eq. 5: the gradient of (1/N) sum_i R_i p_i with p = softmax(z)."""
    z, R_j, others, paid = sp.symbols("z_j R_j Z_rest C_rest", real=True)
    y = sp.exp(z)
    p_j, S_R = y / (y + others), (R_j * y + paid) / (y + others)
    gradient = sp.diff((R_j * y + paid) / (y + others), z) / N
    return _theorem(
        "Logit update",
        "[FGRPO] v2, Eq. 5",
        sp.Eq(sp.Symbol("Delta z_j"), eta / N * sp.Symbol("p_j") * (R_j - sp.Symbol("S_R"))),
        {
            "d/dz_j, all other actions only through their sums": _equal(
                sp.together(eta * gradient), sp.together(eta / N * p_j * (R_j - S_R))
            )
        },
    )


def _first_order(mass: Any, pull: Any, total_pull: Any) -> Any:
    """Change of the mass of a set by dz: its own pull less its share of the total (Eq. 19)."""
    return pull - mass * total_pull


def subset_mass() -> Theorem:
    r"""Eq. 19: dQ_S = sum_S p_i dz_i - Q_S sum_j p_j dz_j, the first-order change of any set."""
    t = sp.Symbol("t", real=True)
    inside, outside = sp.Function("Y_S")(t), sp.Function("Y_rest")(t)
    # Y_S(t) is the sum over S of exp(z_i + t dz_i): its slope over Z is the sum of p_i dz_i.
    Z = inside + outside
    pull, rest = sp.diff(inside, t) / Z, sp.diff(outside, t) / Z
    return _theorem(
        "Subset-mass identity",
        "[FGRPO] v2, Eq. 19",
        sp.Eq(
            sp.Symbol("Delta Q_S"),
            sp.Symbol("sum_S p dz") - sp.Symbol("Q_S") * sp.Symbol("sum p dz"),
        ),
        {
            "quotient rule": _equal(
                sp.together(sp.diff(inside / Z, t)),
                sp.together(_first_order(inside / Z, pull, pull + rest)),
            )
        },
    )


# Sums of p^2 over sampled correct (A), sampled wrong (B) and unsampled (U) actions, and masses
A_2, B_2, U_pos_2, U_neg_2 = sp.symbols("A_2 B_2 U_pos2 U_neg2", nonnegative=True)
Q_pos, Q_u, S_R = sp.symbols("Q_pos Q_u_pos S_R", real=True)
# Sums of p_i dz_i over each kind, with dz_i = (eta/N) p_i (R_i - S_R) and R_i = 0 unsampled
PULL_A, PULL_B = eta / N * (R_c - S_R) * A_2, eta / N * (R_w - S_R) * B_2
PULL_U_POS, PULL_U_NEG = -eta / N * S_R * U_pos_2, -eta / N * S_R * U_neg_2
PULL = PULL_A + PULL_B + PULL_U_POS + PULL_U_NEG


def correct_mass_change() -> Theorem:
    """Eq. 17 (BroRL, Theorem 1): first-order change of the correct mass."""
    Q_neg = 1 - Q_pos
    printed = (R_c - S_R) * Q_neg * A_2 + (S_R - R_w) * Q_pos * B_2
    printed = eta / N * (printed + S_R * (Q_pos * U_neg_2 - Q_neg * U_pos_2))
    derived = _first_order(Q_pos, PULL_A + PULL_U_POS, PULL)
    P_pos_2, P_neg_2 = A_2 + U_pos_2, B_2 + U_neg_2
    computed = Q_neg * R_c * A_2 - Q_pos * R_w * B_2
    computed = eta / N * (computed - S_R * (Q_neg * P_pos_2 - Q_pos * P_neg_2))
    return _theorem(
        "Change of the correct mass",
        "[FGRPO] v2, Eq. 17",
        sp.Eq(sp.Symbol("Delta Q_pos"), printed),
        {
            "Eq. 19 with S the correct actions": _equal(derived, printed),
            "the form that is computed": _equal(computed, printed),
        },
    )


def unsampled_correct_mass_change() -> Theorem:
    """Prop. 3.2: direct drift and normalisation coupling of the unsampled-correct mass."""
    U_2 = U_pos_2 + U_neg_2
    bracket = (R_c - S_R) * A_2 + (R_w - S_R) * B_2 - S_R * U_2
    printed = eta / N * (-S_R * U_pos_2 - Q_u * bracket)
    W, P_2 = R_c * A_2 + R_w * B_2, A_2 + B_2 + U_2
    computed = eta / N * (-S_R * U_pos_2 - Q_u * (W - S_R * P_2))
    return _theorem(
        "Change of the unsampled-correct mass",
        "[FGRPO] v2, Prop. 3.2",
        sp.Eq(sp.Symbol("Delta Q_u_pos"), printed),
        {
            "Eq. 19 with S the unsampled correct actions": _equal(
                _first_order(Q_u, PULL_U_POS, PULL), printed
            ),
            "the form that is computed": _equal(computed, printed),
        },
    )


def ratio_surrogate() -> Theorem:
    """With trainers' policy gradient and a centred rule, unsampled logits do not move."""
    z, others = sp.symbols("z_j Z_rest", real=True)
    drawn, A_j, rest = sp.symbols("n_j A_j S_rest", real=True)
    y = sp.exp(z)
    p_j = y / (y + others)
    # sum_i n_i A_i log p_i: log p_j = z_j - log Z, and every other log p_i falls by log Z alone
    objective = (drawn * A_j * (z - sp.log(y + others)) - rest * sp.log(y + others)) / N
    S, W, P_2, Q_u, U_2 = sp.symbols("S W P_2 Q_u_pos U_pos2", real=True)
    drift, coupling = -eta / N * S * U_2, -eta / N * Q_u * (W - S * P_2)
    return _theorem(
        "The ratio surrogate",
        "tailmiss",
        sp.Eq(sp.Symbol("Delta Q_u_pos"), -eta / N * Q_u * sp.Symbol("sum n_j A_j p_j")),
        {
            "dz_j = (eta/N)(n_j A_j - p_j S)": _equal(
                sp.together(eta * sp.diff(objective, z)),
                sp.together(eta / N * (drawn * A_j - p_j * (drawn * A_j + rest))),
            ),
            "S = 0: no direct drift": drift.subs(S, 0) == 0,
            "S = 0: what is left is the coupling": _equal(
                (drift + coupling).subs(S, 0), -eta / N * Q_u * W
            ),
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
    return _theorem(
        "Sampled mass is monotone",
        "[FGRPO] v2, Lemma H.1",
        sp.Eq(
            sp.Symbol("E[P_pos|X=k]"),
            sp.Sum(sp.Indexed("p", o) * (1 - (1 - share) ** k), (o, 1, count)),
        ),
        {
            "no draw, no mass": sampled(0) == 0,
            "each draw leaves an unsampled action unsampled with probability 1 - q": (
                _equal(p - sampled(k + 1), (p - sampled(k)) * absent)
            ),
            "one more draw adds p (1-q)^k q for each action": (
                _equal(sampled(k + 1) - sampled(k), more.subs(q, 1 - absent))
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
    return _theorem(
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
    return _theorem(
        "Learning-rate multiplier",
        "[FGRPO] v2, App. N",
        sp.Eq(sp.Symbol("m_gamma"), multiplier),
        {
            "mean |A| of GRPO is 2 sqrt(mu (1-mu))": _equal(size, 2 * sp.sqrt(mu * nu)),
            "times (1-mu)^gamma, with mu = t/(1+t)": _equal(
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
    return _theorem(
        "Population weight function",
        "tailmiss; weight_function",
        sp.Eq(sp.Symbol("w_N(p)"), sp.Sum(binomial(N - 1, J) * (a[J + 1] - b[J]), (J, 0, N - 1))),
        {
            "pi grad log pi = grad pi: E[grad log pi] is grad p/p if correct, else -grad p/(1-p)": (
                _equal(pi * sp.diff(sp.log(pi), theta), sp.diff(pi, theta))
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


def poissonisation() -> Theorem:
    r"""The pair probabilities behind expected_mass_change as Taylor coefficients."""
    z, q_i, q_j, s = sp.symbols("z q_i q_j s", nonnegative=True)
    independent = sp.exp(z) * sp.exp(-q_i * z) * sp.exp(-q_j * z)
    conditional = (1 - q_i) ** k * (1 - (1 - q_j / (1 - q_i)) ** k)
    both = (1 - q_i) ** k - (1 - q_i - q_j) ** k
    other = sp.Symbol("r", positive=True)  # 1 - q_i
    quotient = [x.subs(q_i, 1 - other) for x in (conditional, both)]
    return _theorem(
        "Poissonisation",
        "tailmiss; expected_mass_change",
        sp.Eq(sp.Symbol("Pr(i unsampled, j sampled)"), conditional),
        {
            "a Poisson(z) number of draws leaves actions unsampled independently": (
                _equal(independent, sp.exp(z * (1 - q_i - q_j)))
            ),
            "each derivative of exp(s z) is a factor s, so k! [z^k] exp(s z) = s^k": (
                sp.diff(sp.exp(s * z), z) == s * sp.exp(s * z) and sp.exp(s * z).subs(z, 0) == 1
            ),
            "i unsampled and j sampled, without cancellation": all(
                sp.simplify(sp.expand((quotient[0] - quotient[1]).subs(k, n))) == 0
                for n in range(9)
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
    failed = 0
    for state in THEOREMS:
        theorem = state()
        print(f"{theorem.name}  ({theorem.source})\n  {theorem.statement}")
        for step, holds in theorem.steps:
            print(f"  {'proved' if holds else 'FAILED'}: {step}")
        print()
        failed += not theorem.proved
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
