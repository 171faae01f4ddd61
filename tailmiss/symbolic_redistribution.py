"""What one update does to masses, proved: Eq. 5, 17, 19 and Prop. 3.2 of [FGRPO], and our own part.

A sum over actions enters a proof as one symbol: the identities are linear in the sums over each
kind of action (sampled or not, correct or not), so that they hold for any number of actions.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from ._theorem import N, Theorem, equal, k, theorem

eta, R_c, R_w = sp.symbols("eta R_c R_w", real=True)


def logit_update() -> Theorem:
    r"""Eq. 5: the gradient of (1/N) sum_i R_i p_i with p = softmax(z)."""
    z, R_j, others, paid = sp.symbols("z_j R_j Z_rest C_rest", real=True)
    y = sp.exp(z)
    p_j, S_R = y / (y + others), (R_j * y + paid) / (y + others)
    gradient = sp.diff((R_j * y + paid) / (y + others), z) / N
    return theorem(
        "Logit update",
        "[FGRPO] v2, Eq. 5",
        sp.Eq(sp.Symbol("Delta z_j"), eta / N * sp.Symbol("p_j") * (R_j - sp.Symbol("S_R"))),
        {
            "d/dz_j, all other actions only through their sums": equal(
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
    return theorem(
        "Subset-mass identity",
        "[FGRPO] v2, Eq. 19",
        sp.Eq(
            sp.Symbol("Delta Q_S"),
            sp.Symbol("sum_S p dz") - sp.Symbol("Q_S") * sp.Symbol("sum p dz"),
        ),
        {
            "quotient rule": equal(
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
    return theorem(
        "Change of the correct mass",
        "[FGRPO] v2, Eq. 17",
        sp.Eq(sp.Symbol("Delta Q_pos"), printed),
        {
            "Eq. 19 with S the correct actions": equal(derived, printed),
            "the form that is computed": equal(computed, printed),
        },
    )


def unsampled_correct_mass_change() -> Theorem:
    """Prop. 3.2: direct drift and normalisation coupling of the unsampled-correct mass."""
    U_2 = U_pos_2 + U_neg_2
    bracket = (R_c - S_R) * A_2 + (R_w - S_R) * B_2 - S_R * U_2
    printed = eta / N * (-S_R * U_pos_2 - Q_u * bracket)
    W, P_2 = R_c * A_2 + R_w * B_2, A_2 + B_2 + U_2
    computed = eta / N * (-S_R * U_pos_2 - Q_u * (W - S_R * P_2))
    return theorem(
        "Change of the unsampled-correct mass",
        "[FGRPO] v2, Prop. 3.2",
        sp.Eq(sp.Symbol("Delta Q_u_pos"), printed),
        {
            "Eq. 19 with S the unsampled correct actions": equal(
                _first_order(Q_u, PULL_U_POS, PULL), printed
            ),
            "the form that is computed": equal(computed, printed),
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
    return theorem(
        "The ratio surrogate",
        "tailmiss",
        sp.Eq(sp.Symbol("Delta Q_u_pos"), -eta / N * Q_u * sp.Symbol("sum n_j A_j p_j")),
        {
            "dz_j = (eta/N)(n_j A_j - p_j S)": equal(
                sp.together(eta * sp.diff(objective, z)),
                sp.together(eta / N * (drawn * A_j - p_j * (drawn * A_j + rest))),
            ),
            "S = 0: no direct drift": drift.subs(S, 0) == 0,
            "S = 0: what is left is the coupling": equal(
                (drift + coupling).subs(S, 0), -eta / N * Q_u * W
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
    return theorem(
        "Poissonisation",
        "tailmiss; expected_mass_change",
        sp.Eq(sp.Symbol("Pr(i unsampled, j sampled)"), conditional),
        {
            "a Poisson(z) number of draws leaves actions unsampled independently": (
                equal(independent, sp.exp(z * (1 - q_i - q_j)))
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
