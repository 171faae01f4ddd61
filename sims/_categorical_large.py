"""The categorical simulator's loop for large groups, under Adam on the ratio surrogate.

A centred rule gives an action that was not drawn no gradient. Every action moves on its momentum,
but only those drawn are looked at one by one, and what a step reads and writes is three arrays.
"""

from __future__ import annotations

import numpy as np

from ._categorical_kernel import REFRESH, count_correct, glide, note, record, reweigh, sum_energy
from ._inverse_cdf import BLOCK, add, draw_many, head_sum, jit, sum_blocks


@jit
def run_large(  # type: ignore[no-untyped-def]
    logits, n, n_correct, N, correct, wrong, focal,
    lr, beta1, beta2, eps, steps, every, rng, trace, small
):  # fmt: skip
    """All actions on their momentum. `logits` (padded to whole blocks) is brought up to date when
    the weights are recorded or refreshed. small: no change of a logit exceeds SERIES_REACH."""
    size = len(logits)
    weights, start = np.zeros(size), np.zeros(size)
    m, root, change = np.full(size, 0.0), np.full(size, 0.0), np.zeros(BLOCK)
    counts, hits = np.full(size, 0, np.int32), np.empty(n + 1, np.uint32)
    all_correct = np.arange(n_correct)
    sums, window = np.empty(size // BLOCK), np.zeros(5)
    none = np.array([0.0, 0.0, 0.0, 1.0])
    decay = np.sqrt(beta2)
    shift = reweigh(logits, weights, n)
    sum_blocks(weights, sums, BLOCK)
    total = sums.sum()
    for i in range(n):
        start[i] = weights[i] / total
    initial = start[:n_correct].sum()
    energy = sum_energy(weights, logits, shift, n)
    record(
        trace[0], 0, window, all_correct, weights, start, total, energy, initial, n_correct, none
    )
    correct_weight = head_sum(weights, sums, BLOCK, n_correct)
    power1, power2 = 1.0, 1.0
    for step in range(1, steps + 1):
        n_hits = draw_many(weights, sums, rng, counts, hits, N)
        K, hit_weight = count_correct(hits[:n_hits], counts, weights, n_correct)
        missed = (correct_weight - hit_weight) / total
        a, b = correct[K] / N, wrong[K] / N
        for i in hits[:n_hits]:
            gradient = counts[i] * (a if i < n_correct else b)
            m[i] += (1 - beta1) * gradient
            root[i] = np.sqrt(root[i] ** 2 + (1 - beta2) * (gradient * gradient))
        power1 *= beta1
        power2 *= beta2
        rate, correction = lr / (1 - power1), np.sqrt(1 / (1 - power2))
        for block in range(len(sums)):
            lo, hi = block * BLOCK, (block + 1) * BLOCK
            glide(
                m[lo:hi], root[lo:hi], weights[lo:hi], change,
                rate, correction, eps, beta1, decay, small,
            )  # fmt: skip
            sums[block] = add(weights[lo:hi])
        recorded = step % every == 0 or step == steps
        if recorded or step % REFRESH == 0:
            for i in range(n):
                if root[i] > 0.0:
                    logits[i] = shift + np.log(weights[i])
        if step % REFRESH == 0:
            shift = reweigh(logits, weights, n)
            sum_blocks(weights, sums, BLOCK)
        total = sums.sum()
        correct_weight = head_sum(weights, sums, BLOCK, n_correct)

        kept = correct_weight - count_correct(hits[:n_hits], counts, weights, n_correct)[1]
        for i in hits[:n_hits]:
            counts[i] = 0
        note(window, missed, kept / total, focal[K], 0 < K < N)
        if recorded:
            row, energy = trace[-(-step // every)], sum_energy(weights, logits, shift, n)
            record(
                row, step, window, all_correct, weights, start, total, energy,
                initial, n_correct, none,
            )  # fmt: skip
