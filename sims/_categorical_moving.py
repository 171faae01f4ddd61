"""The categorical simulator's loop over the actions that move.

Under Adam on the ratio surrogate of a centred rule an action that was never sampled has neither
gradient nor moments: its logit stays put. One that was sampled moves on its momentum, less every
step, until its update and all that would follow change nothing in double precision; then it rests.
The cost of a step follows the moving actions, not all of them.
"""

from __future__ import annotations

import numpy as np

from ._categorical_kernel import REFRESH, advance, close_window, measure, move, note, reweigh
from ._inverse_cdf import (
    BLOCK,
    BRANCH,
    CELL,
    accumulate,
    draw_few,
    draw_many,
    head_sum,
    jit,
    sum_blocks,
)

RESTING, UNTOUCHED = -1, -2
RESUM = 1024  # steps between sums of all weights; in between they follow the changes
RETIRE = 16  # steps between looks for actions that have come to rest
STILL = 2.0**-54  # relative changes of a weight that add up to this are none in double precision


def follows_few(n: int, N: int, steps: int, lr: float, beta1: float, beta2: float) -> bool:
    """Whether `run_moving` is the faster loop, and its reasons for letting actions rest hold.

    Updates must shrink once an action is no longer drawn, and logits must stay within the range of
    exp: Adam moves one by about lr a step at most.
    """
    return N * 16 <= n and lr * steps <= 200.0 and beta1 < 0.999 * beta2**0.5


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
    touched = np.empty(n, np.uint32)
    hits, window = np.empty(min(N, n) + 1, np.uint32), np.zeros(4)
    few = N * 4 * BRANCH <= n
    width = BRANCH if few else BLOCK
    sums, top = np.zeros(size // width), np.zeros(-(-size // BRANCH**2))
    inside, before = np.empty(size), np.empty(size // CELL)

    shift = reweigh(logits, weights, n)
    total = add_up(weights, sums, top, inside, before, few, True)
    first_total, n_touched, heaviest = total, 0, 0
    rest = np.zeros(6)
    for i in range(n):
        start[i] = weights[i] / total
        rest[0] += weights[i]
        rest[1] += weights[i] * (logits[i] - shift)
        rest[2] += start[i] if i < n_correct else 0.0
    rest[3], rest[4], rest[5] = n_correct, start[by_weight[0]], 1.0
    measure(trace[0], touched, 0, weights, logits, shift, total, start, n_correct, rest)
    close_window(trace[0], 0, window, 0)
    correct_weight = rest[2] * total
    power1, power2, groups, record, M = 1.0, 1.0, 0, 1, 0
    for step in range(1, steps + 1):
        if few:
            n_hits = draw_few(weights, sums, top, rng, counts, hits, N)
        else:
            n_hits = draw_many(weights, inside, before, sums, rng, counts, hits, N)
        K, hit_weight = 0, 0.0
        for j in range(n_hits):
            if hits[j] < n_correct:
                K += counts[hits[j]]
                hit_weight += weights[hits[j]]
        missed = (correct_weight - hit_weight) / total

        a, b = correct[K] / N, wrong[K] / N
        for j in range(n_hits):
            i = hits[j]
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
            move(change[lo:hi], slot_logit[lo:hi], slot_weight[lo:hi])
            if step % REFRESH == 0:
                for s in range(lo, hi):
                    slot_weight[s] = np.exp(slot_logit[s] - shift)
            if few:
                for s in range(lo, hi):
                    sums[action[s] // BRANCH] += change[s]
                    top[action[s] // BRANCH**2] += change[s]
            for s in range(lo, hi):
                weights[action[s]] = slot_weight[s]
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
        total = add_up(weights, sums, top, inside, before, few, step % RESUM == 0)
        ahead = n_correct // BRANCH**2 if few else 0
        correct_weight = top[:ahead].sum() + head_sum(
            weights[ahead * BRANCH**2 :], sums[ahead * BRANCH :], width,
            n_correct - ahead * BRANCH**2,
        )  # fmt: skip

        kept = correct_weight
        for j in range(n_hits):
            kept -= weights[hits[j]] if hits[j] < n_correct else 0.0
            counts[hits[j]] = 0
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
            measure(row, touched, n_touched, weights, logits, shift, total, start, n_correct, rest)
            close_window(row, step, window, groups)
            groups, record = 0, record + 1


@jit
def add_up(weights, sums, top, inside, before, few, afresh):  # type: ignore[no-untyped-def]
    """Bring the sampler's sums up to date; returns the total weight."""
    if few:
        if afresh:
            sum_blocks(weights, sums)
            sum_blocks(sums, top)
        return top.sum()
    for block in range(len(sums)):
        sums[block] = accumulate(weights, inside, before, block)
    return sums.sum()
