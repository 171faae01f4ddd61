"""Draws from weights that change a little every step: inverse CDF in the actions' own order.

A few draws descend a tree of block sums that is kept up to date. For many, the number of draws that
fall into each block of BLOCK actions comes first, by conditional binomials, and each draw is looked
up inside its block, which stays in the fastest cache; a block of many draws first takes most of
them as one Poisson count per action. An action of weight zero is never drawn.
"""

from __future__ import annotations

import numba
import numpy as np

BRANCH = 16  # actions per block of the tree, and blocks per block above it
BLOCK, CELL = 512, 16  # actions per block, and per cell of the cumulative sums inside it
CELLS = BLOCK // CELL
HEAVY = 2 * BLOCK  # draws in a block from which counts by action are cheaper than draws
STEEP = 30.0  # Poisson means below it are counted up from zero
SERIES_REACH = 0.1  # largest argument of `small_expm1`
jit = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


def padded(n: int) -> int:
    """Length of a weight array for n actions, whole blocks of both kinds; the rest stays zero."""
    return -(-n // BLOCK) * BLOCK


@jit
def climb(weights, sums, top, crown, i):  # type: ignore[no-untyped-def]
    """Bring the sums above action i up to date."""
    b = i // BRANCH
    sums[b] = add(weights[b * BRANCH : (b + 1) * BRANCH])
    c = b // BRANCH
    top[c] = add(sums[c * BRANCH : (c + 1) * BRANCH])
    d = c // BRANCH
    crown[d] = add(top[d * BRANCH : (d + 1) * BRANCH])


@jit
def walk(values, i, end, x):  # type: ignore[no-untyped-def]
    """The first place from i on whose cumulative value exceeds x, and what is left of x there.

    Eight values at a time, as long as x reaches beyond them.
    """
    while i + 8 < end:
        eight = ((values[i] + values[i + 1]) + (values[i + 2] + values[i + 3])) + (
            (values[i + 4] + values[i + 5]) + (values[i + 6] + values[i + 7])
        )
        if x < eight:
            break
        x -= eight
        i += 8
    while i < end - 1 and x >= values[i]:
        x -= values[i]
        i += 1
    return i, x


@jit
def draw_many(weights, sums, rng, counts, hits, N):  # type: ignore[no-untyped-def]
    """N draws, block by block; counts them, lists the actions hit and returns how many these are.

    sums: of the blocks of BLOCK weights.
    """
    n_hits = 0
    after, uniforms = np.empty(len(sums)), np.empty(1024)
    inside, before = np.empty(BLOCK), np.empty(CELLS)
    total = 0.0
    for b in range(len(sums) - 1, -1, -1):
        total += sums[b]
        after[b] = total
    for b in range(len(sums)):
        drawn = N
        if b < len(sums) - 1 and after[b + 1] > 0.0:
            drawn = rng.binomial(N, sums[b] / after[b])
        if drawn == 0:
            continue
        N -= drawn
        start = b * BLOCK
        block, own = weights[start : start + BLOCK], counts[start : start + BLOCK]
        total = accumulate(block, inside, before)
        if drawn >= HEAVY:
            drawn -= draw_poisson(block, total, rng, own, drawn)
            for i in range(BLOCK):
                hits[n_hits] = start + i
                n_hits += own[i] > 0
        while drawn > 0:
            some = min(drawn, len(uniforms))
            drawn -= some
            for j in range(some):
                uniforms[j] = rng.random() * total
            for j in range(some):
                i = find(inside, before, uniforms[j])
                hits[n_hits] = start + i
                n_hits += own[i] == 0
                own[i] += 1
    return n_hits


@jit
def draw_poisson(weights, total, rng, counts, N):  # type: ignore[no-untyped-def]
    """Most of N draws as independent Poisson counts; returns how many.

    Given their sum, Poisson counts are multinomial; they are made again in the rare case that the
    sum exceeds N, and the rest is drawn one by one.
    """
    per_weight, none = (N - 3 * np.sqrt(N)) / total, np.empty(BLOCK)
    for i in range(BLOCK):
        none[i] = exp_minus(per_weight * weights[i])
    while True:
        drawn = 0
        for i in range(BLOCK):
            counts[i] = poisson(per_weight * weights[i], none[i], rng)
            drawn += counts[i]
        if drawn <= N:
            return drawn


@jit
def exp_minus(x):  # type: ignore[no-untyped-def]
    """exp(-x), for 0 <= x < STEEP to 1e-13: a series, then squared nine times; it vectorises."""
    y = small_expm1(x / -512) + 1.0
    for _ in range(9):
        y *= y
    return y


@jit
def small_expm1(x):  # type: ignore[no-untyped-def]
    """exp(x) - 1, exact to rounding for |x| <= SERIES_REACH."""
    y = 1 / 362880 * x + 1 / 40320
    y = y * x + 1 / 5040
    y = y * x + 1 / 720
    y = y * x + 1 / 120
    y = y * x + 1 / 24
    y = y * x + 1 / 6
    y = y * x + 0.5
    y = y * x + 1.0
    return y * x


@jit
def poisson(mean, none, rng):  # type: ignore[no-untyped-def]
    """A Poisson count: the inverse of its CDF at one uniform, where few terms have to be added.

    none: the chance of 0.
    """
    if mean == 0.0:
        return 0
    if mean >= STEEP:
        return rng.poisson(mean)
    left, term, count = rng.random(), none, 0
    while left >= term and count < 8 * STEEP:  # past it lies less than a rounding of the CDF
        left -= term
        count += 1
        term *= mean / count
    return count


@jit
def find(inside, before, x):  # type: ignore[no-untyped-def]
    """The action of a block at cumulative weight x: nine comparisons without a jump."""
    c = 16 * (before[16] <= x)
    c += 8 * (before[c + 8] <= x)
    c += 4 * (before[c + 4] <= x)
    c += 2 * (before[c + 2] <= x)
    c += before[c + 1] <= x
    i = c * CELL
    x = min(x - before[c], inside[i + CELL - 1] * (1 - 2.3e-16))  # never past the cell by rounding
    i += 8 * (inside[i + 7] <= x)
    i += 4 * (inside[i + 3] <= x)
    i += 2 * (inside[i + 1] <= x)
    i += inside[i] <= x
    return i


@jit
def accumulate(weights, inside, before):  # type: ignore[no-untyped-def]
    """Cumulative weights of one block, inside its cells and before them; returns their sum."""
    total = 0.0
    for c in range(CELLS):
        running = 0.0
        for i in range(c * CELL, (c + 1) * CELL):
            running += weights[i]
            inside[i] = running
        before[c] = total
        total += running
    return total


@jit
def sum_blocks(values, sums, size):  # type: ignore[no-untyped-def]
    """Sums of consecutive runs of `size` values."""
    for b in range(len(sums)):
        sums[b] = add(values[b * size : (b + 1) * size])


@jit
def add(values):  # type: ignore[no-untyped-def]
    """Their sum, in eight parts so that additions overlap."""
    a0, a1, a2, a3, a4, a5, a6, a7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = len(values) // 8 * 8
    for i in range(0, whole, 8):
        a0 += values[i]
        a1 += values[i + 1]
        a2 += values[i + 2]
        a3 += values[i + 3]
        a4 += values[i + 4]
        a5 += values[i + 5]
        a6 += values[i + 6]
        a7 += values[i + 7]
    for i in range(whole, len(values)):
        a0 += values[i]
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@jit
def head_sum(values, sums, size, n):  # type: ignore[no-untyped-def]
    """Sum of the first n values, given the sums of blocks of `size`."""
    whole = n // size
    return add(sums[:whole]) + add(values[whole * size : n])
