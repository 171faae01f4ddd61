"""Groups of rollouts by exact enumeration in Fractions: the obvious twin of redistribution.py."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial


def groups(p: list[Fraction], N: int) -> Iterator[tuple[list[int], Fraction]]:
    """Every vector of counts of N draws from p, with its probability."""
    for drawn in combinations_with_replacement(range(len(p)), N):
        counts = [drawn.count(i) for i in range(len(p))]
        chance = Fraction(factorial(N))
        for n, mass in zip(counts, p, strict=True):
            chance *= mass**n / factorial(n)
        yield counts, chance


def one_step(p, correct, counts, N, a, b, surrogate):
    """The fields of a MassChange, from the update of every logit."""
    each = range(len(p))
    gains = [a if right else b for right in correct]
    pull = [
        gains[i] * (counts[i] if surrogate == "ratio" else p[i] * (counts[i] > 0)) for i in each
    ]
    baseline = sum(pull)
    logits = [(pull[i] - p[i] * baseline) / N for i in each]
    mean = sum(p[i] * logits[i] for i in each)
    moved = [p[i] * (logits[i] - mean) for i in each]
    missed = [i for i in each if correct[i] and not counts[i]]
    return (
        sum(moved[i] for i in each if correct[i]),
        sum(moved[i] for i in missed),
        sum(p[i] * logits[i] for i in missed),
        -mean * sum(p[i] for i in missed),
        baseline,
    )


def expected_change(p, correct, N, table, surrogate):
    """Expectation of :func:`one_step`; table is (a_K, b_K) in Fractions."""
    total = [Fraction(0)] * 5
    for counts, chance in groups(p, N):
        K = sum(n for n, right in zip(counts, correct, strict=True) if right)
        change = one_step(p, correct, counts, N, table[0][K], table[1][K], surrogate)
        total = [t + chance * x for t, x in zip(total, change, strict=True)]
    return total


def mass_given_k(p, correct, N):
    """E[P_pos | X = k] and E[P_neg | X = k] for k = 0..N, by conditioning; None where Pr = 0."""
    chances = [Fraction(0)] * (N + 1)
    positive, negative = [Fraction(0)] * (N + 1), [Fraction(0)] * (N + 1)
    for counts, chance in groups(p, N):
        k = sum(n for n, right in zip(counts, correct, strict=True) if right)
        chances[k] += chance
        for n, mass, right in zip(counts, p, correct, strict=True):
            (positive if right else negative)[k] += chance * mass * (n > 0)
    return tuple(
        [s / c if c else None for s, c in zip(sums, chances, strict=True)]
        for sums in (positive, negative)
    )


def missed_mass(p, correct, N):
    """E[unsampled correct mass; group mixed]."""
    total = Fraction(0)
    for counts, chance in groups(p, N):
        if 0 < sum(n for n, right in zip(counts, correct, strict=True) if right) < N:
            total += chance * sum(
                mass for n, mass, right in zip(counts, p, correct, strict=True) if right and not n
            )
    return total


def tail_miss(p, rare, correct, N):
    """Pr(group mixed, no rollout of the rare actions)."""
    total = Fraction(0)
    for counts, chance in groups(p, N):
        K = sum(n for n, right in zip(counts, correct, strict=True) if right)
        missed = not any(n for n, is_rare in zip(counts, rare, strict=True) if is_rare)
        total += chance * (missed and 0 < K < N)
    return total
