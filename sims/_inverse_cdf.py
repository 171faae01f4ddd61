"""Draws from weights that change a little every step: inverse CDF in the actions' own order.

A few draws descend a tree of block sums that is kept up to date. For many, the number of draws that
fall into each block of BLOCK actions comes first, by conditional binomials, and each draw is looked
up inside its block, which stays in the fastest cache; a block of many draws first takes most of
them as one Poisson count per action. An action of weight zero is never drawn.
"""

from __future__ import annotations

import numba
import numpy as np

BRANCH = 128  # actions per block of the tree, and blocks per top block
BLOCK, CELL = 512, 16  # actions per block, and per cell of the cumulative sums inside it
CELLS = BLOCK // CELL
HEAVY = 10 * BLOCK  # draws in a block from which counts by action are cheaper than draws
jit = numba.njit(nogil=True, cache=True, error_model="numpy")


def padded(n: int) -> int:
    """Length of a weight array for n actions, whole blocks of both kinds; the rest stays zero."""
    return -(-n // BLOCK) * BLOCK


@jit
def draw_few(weights, sums, top, rng, counts, hits, N):  # type: ignore[no-untyped-def]
    """N draws down the tree; counts them, lists the actions hit and returns how many these are."""
    total, n_hits = top.sum(), 0
    for _ in range(N):
        x = rng.random() * total
        b, last = 0, len(top) - 1
        while b < last and x >= top[b]:
            x -= top[b]
            b += 1
        b, last = b * BRANCH, min((b + 1) * BRANCH, len(sums)) - 1
        while b < last and x >= sums[b]:
            x -= sums[b]
            b += 1
        i, last = b * BRANCH, (b + 1) * BRANCH - 1
        while i < last and x >= weights[i]:
            x -= weights[i]
            i += 1
        while weights[i] == 0.0:
            i -= 1
        if counts[i] == 0:
            hits[n_hits] = i
            n_hits += 1
        counts[i] += 1
    return n_hits


@jit
def draw_many(weights, inside, before, sums, rng, counts, hits, N):  # type: ignore[no-untyped-def]
    """N draws, block by block; counts them and, unless `hits` is None, lists the actions hit."""
    n_hits = 0
    after, uniforms = np.empty(len(sums)), np.empty(1024)
    total = 0.0
    for b in range(len(sums) - 1, -1, -1):
        total += sums[b]
        after[b] = total
    for b in range(len(sums)):
        drawn = N
        if b < len(sums) - 1 and after[b + 1] > 0.0:
            drawn = rng.binomial(N, sums[b] / after[b])
        N -= drawn
        if drawn >= HEAVY:
            start, stop = b * BLOCK, (b + 1) * BLOCK
            drawn -= draw_poisson(weights[start:stop], sums[b], rng, counts[start:stop], drawn)
            if hits is not None:
                for i in range(start, stop):
                    hits[n_hits] = i
                    n_hits += counts[i] > 0
        while drawn > 0:
            some = min(drawn, len(uniforms))
            drawn -= some
            for j in range(some):
                uniforms[j] = rng.random() * sums[b]
            for j in range(some):
                i = find(inside, before, b, uniforms[j])
                if hits is not None:
                    hits[n_hits] = i
                    n_hits += counts[i] == 0
                counts[i] += 1
    return n_hits


@jit
def draw_poisson(weights, total, rng, counts, N):  # type: ignore[no-untyped-def]
    """Most of N draws as independent Poisson counts; returns how many.

    Given their sum, Poisson counts are multinomial; they are made again in the rare case that the
    sum exceeds N, and the rest is drawn one by one.
    """
    per_weight = (N - 3 * np.sqrt(N)) / total
    while True:
        drawn = 0
        for i in range(len(weights)):
            counts[i] = rng.poisson(per_weight * weights[i])
            drawn += counts[i]
        if drawn <= N:
            return drawn


@jit
def find(inside, before, block, x):  # type: ignore[no-untyped-def]
    """The action of a block at cumulative weight x: nine comparisons without a jump."""
    c = block * CELLS
    c += 16 * (before[c + 16] <= x)
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
def accumulate(weights, inside, before, block):  # type: ignore[no-untyped-def]
    """Cumulative weights of one block, inside its cells and before them; returns their sum."""
    total = 0.0
    for c in range(block * CELLS, (block + 1) * CELLS):
        running = 0.0
        for i in range(c * CELL, (c + 1) * CELL):
            running += weights[i]
            inside[i] = running
        before[c] = total
        total += running
    return total


@jit
def sum_blocks(values, sums):  # type: ignore[no-untyped-def]
    """Sums of consecutive runs of BRANCH values; four accumulators, so that additions overlap."""
    n = len(values)
    for b in range(len(sums)):
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        start, stop = b * BRANCH, min((b + 1) * BRANCH, n)
        whole = start + (stop - start) // 4 * 4
        for i in range(start, whole, 4):
            a0 += values[i]
            a1 += values[i + 1]
            a2 += values[i + 2]
            a3 += values[i + 3]
        for i in range(whole, stop):
            a0 += values[i]
        sums[b] = (a0 + a1) + (a2 + a3)


@jit
def head_sum(values, sums, size, n):  # type: ignore[no-untyped-def]
    """Sum of the first n values, given the sums of blocks of `size`."""
    total = 0.0
    for b in range(n // size):
        total += sums[b]
    for i in range(n // size * size, n):
        total += values[i]
    return total
