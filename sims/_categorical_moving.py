"""The categorical simulator's loop over the actions that move.

Under Adam on the ratio surrogate of a centred rule an action that was never sampled has neither
gradient nor moments: its logit stays put. One that was sampled moves on its momentum, less every
step, until its update and all that would follow change nothing in double precision; then it rests.
The cost of a step follows the moving actions, not all of them.
"""

from __future__ import annotations

import numpy as np

from ._categorical_kernel import glide, note, record, reweigh, sum_energy
from ._inverse_cdf import BRANCH, add, climb, head_sum, jit, sum_blocks, walk

UNTOUCHED, MOVING = -1, -2  # states of an action: never drawn; in slot s, as MOVING - s
SLOTS = 128  # per block of moving actions
RETIRE = 16  # steps between looks for actions that have come to rest
STILL = 2.0**-54  # relative changes of a weight that add up to this are none in double precision


@jit
def run_moving(  # type: ignore[no-untyped-def]
    logits, n, n_correct, by_weight, N, correct, wrong, focal,
    lr, beta1, beta2, eps, steps, every, rng, trace, small
):  # fmt: skip
    """Only the actions that move. `logits` (padded to whole blocks) is updated in place.

    The moving actions lie side by side in slots [0, M); `action` says which they are. The others
    lie in a tree of their weights, where a moving one weighs nothing. A draw falls on the tree, in
    the actions' order, or on the slots, in theirs.
    by_weight: the correct actions, from the most to the least likely at the start.
    """
    size = len(logits)
    weights, start = np.zeros(size), np.zeros(size)
    # of each action its state, which for one at rest is the step it came to rest at, and the root
    # of its second moment then; its first moment would change nothing any more
    resting = np.empty((size, 2))
    resting[:, 0], resting[:, 1] = UNTOUCHED, 0.0
    decay = np.sqrt(beta2)
    log_decay = np.log(decay)
    still = STILL * (1 - beta1 / decay)  # of changes that shrink by beta1 / decay a step
    action, counts = np.empty(n, np.int64), np.zeros(n, np.int64)
    m, root, own, change = np.empty(n), np.empty(n), np.empty(n), np.empty(SLOTS)
    own_sums = np.zeros(-(-n // SLOTS))
    drawn, is_slot, left = np.empty(N, np.int64), np.empty(N, np.bool_), np.empty(N)
    hits, touched = np.empty(N, np.int64), np.empty(n_correct, np.int64)
    sums = np.empty(-(-size // BRANCH))
    top = np.empty(-(-len(sums) // BRANCH))
    crown = np.empty(-(-len(top) // BRANCH))
    window = np.zeros(5)

    shift = reweigh(logits, weights, n)
    sum_blocks(weights, sums, BRANCH)
    sum_blocks(sums, top, BRANCH)
    sum_blocks(top, crown, BRANCH)
    total = add(crown)
    first_total, n_touched, heaviest = total, 0, 0
    for i in range(n):
        start[i] = weights[i] / total
    initial, energy = start[:n_correct].sum(), sum_energy(weights, logits, shift, n)
    possible = (start[:n_correct] > 0.0).sum()  # the others stay at probability 0
    others = np.array([initial, possible, start[by_weight[0]], 1.0])
    record(
        trace[0], 0, window, touched[:0], weights, start, total, energy,
        initial, n_correct, others,
    )  # fmt: skip
    correct_weight = initial * total
    power1, power2, M = 1.0, 1.0, 0
    for step in range(1, steps + 1):
        draw_few(
            weights, sums, top, crown, own, own_sums, M, total, resting, rng, drawn, is_slot, left
        )
        n_hits, K = 0, 0
        for j in range(N):
            i = drawn[j]
            s = i if is_slot[j] else MOVING - np.int64(resting[i, 0])
            if s < 0:
                s, M = M, M + 1
                action[s], own[s], counts[s], m[s], root[s] = i, weights[i], 0, 0.0, 0.0
                if resting[i, 0] != UNTOUCHED:
                    root[s] = resting[i, 1] * np.exp(log_decay * (step - resting[i, 0]))
                elif i < n_correct:
                    touched[n_touched] = i
                    n_touched += 1
                    others[0] -= weights[i] / first_total
                    others[1] -= 1
                energy -= weights[i] * np.log(weights[i])
                resting[i, 0], weights[i] = MOVING - s, 0.0
                climb(weights, sums, top, crown, i)
            if counts[s] == 0:
                hits[n_hits] = s
                n_hits += 1
            counts[s] += 1
            K += action[s] < n_correct
        a, b = correct[K] / N, wrong[K] / N
        missed = correct_weight
        for s in hits[:n_hits]:
            good = action[s] < n_correct
            missed -= own[s] if good else 0.0
            gradient = counts[s] * (a if good else b)
            m[s] += (1 - beta1) * gradient
            root[s] = np.sqrt(root[s] ** 2 + (1 - beta2) * (gradient * gradient))
        missed /= total
        power1 *= beta1
        power2 *= beta2
        rate, correction = lr / (1 - power1), np.sqrt(1 / (1 - power2))
        correct_weight = correct_sum(weights, sums, top, crown, n_correct)
        total = add(crown)
        for lo in range(0, M, SLOTS):
            hi = min(lo + SLOTS, M)
            glide(
                m[lo:hi], root[lo:hi], own[lo:hi], change,
                rate, correction, eps, beta1, decay, small,
            )  # fmt: skip
            own_sums[lo // SLOTS] = add(own[lo:hi])
            total += own_sums[lo // SLOTS]
            correct_weight += add_below(own[lo:hi], action[lo:hi], n_correct)
        kept = correct_weight
        for s in hits[:n_hits]:
            kept -= own[s] if action[s] < n_correct else 0.0
            counts[s] = 0
        note(window, missed, kept / total, focal[K], 0 < K < N)
        if step % RETIRE == 0:
            for s in range(M - 1, -1, -1):
                if rate * abs(m[s]) < still * (root[s] * correction + eps):
                    i = action[s]
                    energy += own[s] * np.log(own[s])
                    weights[i], resting[i, 0], resting[i, 1] = own[s], step + 1, root[s]
                    sums[i // BRANCH] += own[s]
                    top[i // BRANCH**2] += own[s]
                    crown[i // BRANCH**3] += own[s]
                    M -= 1
                    if s < M:
                        action[s], m[s], root[s], own[s] = action[M], m[M], root[M], own[M]
                        resting[action[s], 0] = MOVING - s
            for lo in range(0, M, SLOTS):
                own_sums[lo // SLOTS] = add(own[lo : min(lo + SLOTS, M)])
        if step % every == 0 or step == steps:
            moving_energy = 0.0
            for s in range(M):
                weights[action[s]] = own[s]
                moving_energy += own[s] * np.log(own[s])
            while heaviest < n_correct and resting[by_weight[heaviest], 0] != UNTOUCHED:
                heaviest += 1
            others[2] = start[by_weight[heaviest]] if heaviest < n_correct else 0.0
            others[3] = first_total / total
            record(
                trace[-(-step // every)], step, window, touched[:n_touched], weights, start, total,
                energy + moving_energy, initial, n_correct, others,
            )  # fmt: skip
            for s in range(M):
                weights[action[s]] = 0.0
    for s in range(M):
        weights[action[s]], resting[action[s], 1] = own[s], root[s]
    for i in range(n):
        if resting[i, 1] > 0.0:
            logits[i] = shift + np.log(weights[i])


@jit
def draw_few(  # type: ignore[no-untyped-def]
    weights, sums, top, crown, own, own_sums, M, total, resting, rng, drawn, is_slot, left
):
    """A group by inverse CDF, over the tree and then over the slots: actions, or slots.

    All draws go down the tree together, each having read what it looks at next (`0.0 *`): so their
    waits for memory overlap.
    """
    of_tree = add(crown)
    for j in range(len(drawn)):
        x = rng.random() * total
        is_slot[j] = M > 0 and x >= of_tree
        if is_slot[j]:
            b, x = walk(own_sums, 0, -(-M // SLOTS), x - of_tree)
            drawn[j], x = walk(own, b * SLOTS, min((b + 1) * SLOTS, M), x)
        else:
            b, x = walk(crown, 0, len(crown), x)
            b, x = walk(top, b * BRANCH, min((b + 1) * BRANCH, len(top)), x)
            b *= BRANCH
            drawn[j] = b
            left[j] = x + 0.0 * (sums[b] + sums[min(b + 8, len(sums) - 1)])
    for j in range(len(drawn)):
        if not is_slot[j]:
            b = drawn[j]
            b, x = walk(sums, b, min(b + BRANCH, len(sums)), left[j])
            drawn[j] = b * BRANCH
            left[j] = x + 0.0 * touch(weights, resting, drawn[j])
    for j in range(len(drawn)):
        if not is_slot[j]:
            i, x = walk(weights, drawn[j], drawn[j] + BRANCH, left[j])
            while weights[i] == 0.0:
                i -= 1
            drawn[j] = i


@jit
def touch(weights, resting, leaf):  # type: ignore[no-untyped-def]
    """A sum over what a draw in this leaf looks at."""
    near = 0.0
    for i in range(leaf, leaf + BRANCH, 4):
        near += weights[i] + resting[i, 0]
    return near


@jit
def add_below(values, members, n):  # type: ignore[no-untyped-def]
    """Sum of the values whose members are below n, in four parts so that additions overlap."""
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    whole = len(values) // 4 * 4
    for i in range(0, whole, 4):
        a0 += values[i] if members[i] < n else 0.0
        a1 += values[i + 1] if members[i + 1] < n else 0.0
        a2 += values[i + 2] if members[i + 2] < n else 0.0
        a3 += values[i + 3] if members[i + 3] < n else 0.0
    for i in range(whole, len(values)):
        a0 += values[i] if members[i] < n else 0.0
    return (a0 + a1) + (a2 + a3)


@jit
def correct_sum(weights, sums, top, crown, n):  # type: ignore[no-untyped-def]
    """Weight in the tree of the first n actions."""
    b = n // BRANCH
    c = b // BRANCH
    return (
        head_sum(top, crown, BRANCH, c) + add(sums[c * BRANCH : b]) + add(weights[b * BRANCH : n])
    )
