"""The categorical simulator's loop over the actions that move.

Under Adam on the ratio surrogate of a centred rule an action that was never sampled has neither
gradient nor moments: its logit stays put. One that was sampled moves on its momentum, less every
step, until its update and all that would follow change nothing in double precision; then it rests.
The cost of a step follows the moving actions, not all of them.
"""

from __future__ import annotations

import numpy as np

from ._categorical_kernel import (
    REFRESH,
    advance,
    close_window,
    count_correct,
    grow,
    measure,
    note,
    reweigh,
)
from ._inverse_cdf import BLOCK, BRANCH, draw_few, head_sum, jit, sum_blocks

RESTING, UNTOUCHED = -1, -2
RESUM = 4096  # steps between sums of all weights; in between they follow the changes
RETIRE = 16  # steps between looks for actions that have come to rest
SPREAD = 4  # parts of the change of a top sum, so that additions overlap
STILL = 2.0**-54  # relative changes of a weight that add up to this are none in double precision


@jit
def run_moving(  # type: ignore[no-untyped-def]
    logits, n, n_correct, by_weight, N, correct, wrong, focal,
    lr, beta1, beta2, eps, steps, every, rng, trace
):  # fmt: skip
    """Only the actions that move. `logits` (padded to whole blocks) is updated in place.

    The moving actions lie side by side in slots [0, M); `action` says which they are and `slot`
    where one is. A resting action keeps its moments as they were at the step `due`.
    by_weight: the correct actions, from the most to the least likely at the start.
    """
    size = len(logits)
    weights, start = np.zeros(size), np.zeros(size)
    rest_m, rest_root, due = np.full(size, 0.0), np.full(size, 0.0), np.full(size, 0)
    decay = np.sqrt(beta2)
    still = STILL * (1 - beta1 / decay)  # of changes that shrink by beta1 / decay a step
    slot, action = np.full(size, UNTOUCHED, np.int32), np.empty(n, np.uint32)
    slot_m, slot_root, slot_logit, slot_weight = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    change, counts = np.empty(n), np.full(size, 0, np.int32)
    touched, hits = np.empty(n, np.uint32), np.empty(N, np.uint32)
    sums, top = np.zeros(size // BRANCH), np.zeros(-(-size // BRANCH**2))
    spread = np.zeros((len(top), SPREAD))
    window = np.zeros(4)

    shift = reweigh(logits, weights, n)
    sum_blocks(weights, sums, BRANCH)
    sum_blocks(sums, top, BRANCH)
    total = top.sum()
    first_total, n_touched, heaviest = total, 0, 0
    rest = np.zeros(6)
    for i in range(n):
        start[i] = weights[i] / total
        rest[0] += weights[i]
        rest[1] += weights[i] * (logits[i] - shift)
        rest[2] += start[i] if i < n_correct else 0.0
    rest[3], rest[4], rest[5] = n_correct, start[by_weight[0]], 1.0
    initial = rest[2]
    measure(trace[0], touched, 0, weights, logits, shift, total, start, initial, n_correct, rest)
    close_window(trace[0], 0, window, 0)
    correct_weight = initial * total
    power1, power2, groups, record, M = 1.0, 1.0, 0, 1, 0
    for step in range(1, steps + 1):
        n_hits = draw_few(weights, sums, top, rng, counts, hits, N)
        K, hit_weight = count_correct(hits[:n_hits], counts, weights, n_correct)
        missed = (correct_weight - hit_weight) / total

        a, b = correct[K] / N, wrong[K] / N
        for i in hits[:n_hits]:
            gradient = counts[i] * (a if i < n_correct else b)
            if gradient == 0.0:
                continue
            s = slot[i]
            if s < 0:
                is_new = s == UNTOUCHED
                s, M = M, M + 1
                slot[i], action[s] = s, i
                slot_logit[s], slot_weight[s] = logits[i], weights[i]
                if not is_new:
                    idle = step - due[i]
                    slot_m[s], slot_root[s] = rest_m[i] * beta1**idle, rest_root[i] * decay**idle
                else:
                    slot_m[s], slot_root[s] = 0.0, 0.0
                    touched[n_touched] = i
                    n_touched += 1
                    rest[0] -= weights[i]
                    rest[1] -= weights[i] * (logits[i] - shift)
                    if i < n_correct:
                        rest[2] -= start[i]
                        rest[3] -= 1
            slot_m[s] += (1 - beta1) * gradient
            slot_root[s] = np.sqrt(slot_root[s] ** 2 + (1 - beta2) * (gradient * gradient))
        power1 *= beta1
        power2 *= beta2
        rate, correction = lr / (1 - power1), np.sqrt(1 / (1 - power2))
        for lo in range(0, M, BLOCK):
            hi = min(lo + BLOCK, M)
            advance(
                slot_m[lo:hi], slot_root[lo:hi], change[lo:hi], rate, correction, eps, beta1, decay
            )
            for s in range(lo, hi):
                slot_logit[s] += change[s]
            grow(change[lo:hi], slot_weight[lo:hi])
            if step % REFRESH == 0:
                for s in range(lo, hi):
                    slot_weight[s] = np.exp(slot_logit[s] - shift)
            for s in range(lo, hi):
                block = action[s] // BRANCH
                sums[block] += change[s]
                weights[action[s]] = slot_weight[s]
                spread[block // BRANCH, s % SPREAD] += change[s]
        if step % RETIRE == 0:
            for s in range(M - 1, -1, -1):
                if abs(change[s]) < still * slot_weight[s]:
                    i = action[s]
                    rest_m[i], rest_root[i], logits[i] = slot_m[s], slot_root[s], slot_logit[s]
                    due[i], slot[i] = step + 1, RESTING
                    M -= 1
                    if s < M:
                        action[s], slot[action[M]] = action[M], s
                        slot_m[s], slot_root[s] = slot_m[M], slot_root[M]
                        slot_logit[s], slot_weight[s] = slot_logit[M], slot_weight[M]
        if step % RESUM == 0:
            sum_blocks(weights, sums, BRANCH)
            sum_blocks(sums, top, BRANCH)
        else:
            for b in range(len(top)):
                top[b] += (spread[b, 0] + spread[b, 1]) + (spread[b, 2] + spread[b, 3])
        for b in range(len(top)):
            spread[b, 0], spread[b, 1], spread[b, 2], spread[b, 3] = 0.0, 0.0, 0.0, 0.0
        total = top.sum()
        correct_weight = correct_sum(weights, sums, top, n_correct)

        kept = correct_weight - count_correct(hits[:n_hits], counts, weights, n_correct)[1]
        for i in hits[:n_hits]:
            counts[i] = 0
        groups += 1
        note(window, missed, kept / total, focal[K], 0 < K < N)
        if step % every == 0 or step == steps:
            for s in range(M):
                logits[action[s]] = slot_logit[s]
            while heaviest < n_correct and slot[by_weight[heaviest]] != UNTOUCHED:
                heaviest += 1
            rest[4] = start[by_weight[heaviest]] if heaviest < n_correct else 0.0
            rest[5] = first_total / total
            row = trace[record]
            measure(
                row,
                touched,
                n_touched,
                weights,
                logits,
                shift,
                total,
                start,
                initial,
                n_correct,
                rest,
            )
            close_window(row, step, window, groups)
            groups, record = 0, record + 1


@jit
def correct_sum(weights, sums, top, n_correct):  # type: ignore[no-untyped-def]
    """Weight of the correct actions, from the largest blocks that lie among them."""
    b = n_correct // BRANCH**2
    return top[:b].sum() + head_sum(
        weights[b * BRANCH**2 :], sums[b * BRANCH :], BRANCH, n_correct - b * BRANCH**2
    )
