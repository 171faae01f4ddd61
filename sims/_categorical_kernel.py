"""The categorical simulator's loop over every action, every step, for every option.

The plain definition is tests/naive/categorical.py.

Weights are exp(logit - shift). A step multiplies them by exp(change of logit), a short series for
the small changes that Adam makes, and they are computed afresh every REFRESH steps, or before they
could leave the range of exp.
"""

from __future__ import annotations

import numpy as np

from ._inverse_cdf import (
    BLOCK,
    SERIES_REACH,
    draw_many,
    head_sum,
    jit,
    small_expm1,
    sum_blocks,
)

REFRESH = 128
ROUNDING = 1e-12
RANGE = 500.0  # weights that may have changed by exp of this are computed afresh
COLUMNS = (
    "step", "q_pos", "retained_mass", "entropy", "improved_share", "worst_drop",
    "unsampled_mass", "unsampled_change", "focal_weight", "mixed_share",
)  # fmt: skip
RATIO, PROBABILITY = 0, 1
ADAM, ADAMW, SGD = 0, 1, 2


@jit
def advance(m, root, change, rate, correction, eps, beta1, decay):  # type: ignore[no-untyped-def]
    """Adam's change of each logit; leaves the moments decayed, ready for the next gradient.

    root: square root of the second moment; it decays by the root of beta2, without a square root.
    """
    for s in range(len(m)):
        change[s] = rate * m[s] / (root[s] * correction + eps)
        m[s] *= beta1
        root[s] *= decay


@jit
def grow(change, weights):  # type: ignore[no-untyped-def]
    """Let the weights follow changes of their logits, by a series where it suffices.

    Leaves in `change` what each weight gained. Returns the largest change, or 0 if all are small.
    """
    large, largest = 0, 0.0
    for s in range(len(weights)):
        large += np.abs(change[s]) > SERIES_REACH
    if large:
        for s in range(len(weights)):
            largest = max(largest, np.abs(change[s]))
            change[s] = weights[s] * np.expm1(change[s])
            weights[s] += change[s]
        return largest
    for s in range(len(weights)):
        change[s] = weights[s] * small_expm1(change[s])
        weights[s] += change[s]
    return 0.0


@jit
def glide(  # type: ignore[no-untyped-def]
    m, root, weights, change, rate, correction, eps, beta1, decay, small
):
    """`advance` and `grow`, in one pass where no change exceeds SERIES_REACH (`small`)."""
    if not small:
        advance(m, root, change, rate, correction, eps, beta1, decay)
        grow(change[: len(weights)], weights)
        return
    for s in range(len(m)):
        x = rate * m[s] / (root[s] * correction + eps)
        m[s] *= beta1
        root[s] *= decay
        weights[s] += weights[s] * small_expm1(x)


@jit
def record(  # type: ignore[no-untyped-def]
    row, step, window, members, weights, start, total, energy, initial, n_correct, others
):
    """Fill a row of the trace, from the window, from the correct `members` and, in `others`, from
    sums over the rest of the correct ones; starts the next window.

    start: initial probabilities; initial: the sum of the correct ones. energy: sum over all actions
    of the weight times its log. others: initial probability of the other correct actions, their
    number, the largest of them, and the factor by which all differ from their initial ones.
    """
    factor = others[3]
    lost, correct_weight = max(1 - factor, 0.0) * others[0], 0.0
    improved, drop = others[1] * (factor > 1 + ROUNDING), min((factor - 1) * others[2], 0.0)
    for i in members:
        correct_weight += weights[i]
        gain = weights[i] / total - start[i]
        lost -= min(gain, 0.0)
        improved += gain > ROUNDING * start[i]
        drop = min(drop, gain)
    row[0] = step
    row[1] = correct_weight / total + factor * others[0]
    row[2] = 1 - lost / initial
    row[3] = np.log(total) - energy / total
    row[4] = improved / n_correct
    row[5] = drop
    row[6:10] = window[:4] / window[4]  # not a number at step 0, where there was no group
    window[:] = 0.0


@jit
def sum_energy(weights, logits, shift, n):  # type: ignore[no-untyped-def]
    """Sum of every weight times its log."""
    energy = 0.0
    for i in range(n):
        energy += weights[i] * (logits[i] - shift)
    return energy


@jit
def note(window, missed, kept, focal, mixed):  # type: ignore[no-untyped-def]
    """Add a group to the window: its unsampled correct mass and what the update made of it, its
    weight and its kind."""
    window[0] += missed
    window[1] += kept - missed
    window[2] += focal
    window[3] += mixed
    window[4] += 1


@jit
def run_dense(  # type: ignore[no-untyped-def]
    logits, n, n_correct, N, correct, wrong, focal, surrogate, distinct, cap, entropy_bonus, kl,
    optimizer, lr, beta1, beta2, eps, decay, steps, every, rng, trace
):  # fmt: skip
    """Every action, every step. `logits` (padded to whole blocks) is updated in place."""
    size = len(logits)
    weights, start, log_start = np.zeros(size), np.zeros(size), np.zeros(size)
    m, root, change = np.zeros(size), np.zeros(size), np.zeros(BLOCK)
    root_decay, regular = np.sqrt(beta2), entropy_bonus != 0.0 or kl != 0.0
    counts, hits, all_correct = (
        np.zeros(size, np.int32),
        np.empty(min(N, n) + 1, np.uint32),
        np.arange(n_correct),
    )
    sums, window = np.empty(size // BLOCK), np.zeros(5)
    none = np.array([0.0, 0.0, 0.0, 1.0])
    shift = reweigh(logits, weights, n)
    sum_blocks(weights, sums, BLOCK)
    total = sums.sum()
    for i in range(n):
        start[i] = weights[i] / total
        log_start[i] = logits[i] - shift - np.log(total)
    initial = start[:n_correct].sum()
    energy = sum_energy(weights, logits, shift, n)
    record(
        trace[0], 0, window, all_correct, weights, start, total, energy, initial, n_correct, none
    )
    power1, power2, drift = 1.0, 1.0, 0.0
    for step in range(1, steps + 1):
        n_hits = draw_many(weights, sums, rng, counts, hits, N)
        K, hit_weight = count_correct(hits[:n_hits], counts, weights, n_correct)
        missed = (head_sum(weights, sums, BLOCK, n_correct) - hit_weight) / total
        a, b = correct[K] / N, wrong[K] / N
        common = common_part(
            hits[:n_hits], counts, weights, total, n_correct, N, K, a, b, surrogate, distinct, cap
        )
        log_total = shift + np.log(total)
        mean_log, divergence = 0.0, 0.0
        if regular:
            mean_log, divergence = mean_logs(weights, logits, total, log_total, log_start, n)
        power1 *= beta1
        power2 *= beta2
        rate, correction, largest = lr / (1 - power1), np.sqrt(1 / (1 - power2)), 0.0
        for block in range(len(sums)):
            lo, hi = block * BLOCK, min((block + 1) * BLOCK, n)
            for i in range(lo, hi):
                advantage, p = a if i < n_correct else b, weights[i] / total
                c = coefficient(counts[i], p, advantage, distinct, cap)
                g = p * (c - common) if surrogate == PROBABILITY else c - p * common
                if regular:
                    log_p = logits[i] - log_total
                    g -= entropy_bonus * p * (log_p - mean_log)
                    g -= kl * p * (log_p - log_start[i] - divergence)
                if optimizer == SGD:
                    change[i - lo] = lr * g
                else:
                    m[i] += (1 - beta1) * g
                    root[i] = np.sqrt(root[i] ** 2 + (1 - beta2) * (g * g))
            if optimizer != SGD:
                advance(m[lo:hi], root[lo:hi], change, rate, correction, eps, beta1, root_decay)
            if optimizer == ADAMW:
                for i in range(lo, hi):
                    change[i - lo] -= lr * decay * logits[i]
            for i in range(lo, hi):
                logits[i] += change[i - lo]
            largest = max(largest, grow(change, weights[lo:hi]))
        drift += max(largest, SERIES_REACH)
        if drift > RANGE or step % REFRESH == 0:
            shift, drift = reweigh(logits, weights, n), 0.0
        sum_blocks(weights, sums, BLOCK)
        total = sums.sum()

        kept = head_sum(weights, sums, BLOCK, n_correct)
        kept -= count_correct(hits[:n_hits], counts, weights, n_correct)[1]
        for i in hits[:n_hits]:
            counts[i] = 0
        note(window, missed, kept / total, focal[K], 0 < K < N)
        if step % every == 0 or step == steps:
            row, energy = trace[-(-step // every)], sum_energy(weights, logits, shift, n)
            record(
                row, step, window, all_correct, weights, start, total, energy,
                initial, n_correct, none,
            )  # fmt: skip


@jit
def count_correct(hits, counts, weights, n_correct):  # type: ignore[no-untyped-def]
    """How many draws are correct, and the weight of the correct actions among the hits."""
    K, weight = 0, 0.0
    for i in hits:
        if i < n_correct:
            K += counts[i]
            weight += weights[i]
    return K, weight


@jit
def coefficient(count, p, advantage, distinct, cap):  # type: ignore[no-untyped-def]
    """Of an action: its draws, or 1 if distinct, times advantage and response weight."""
    if count == 0:
        return 0.0
    c = advantage if distinct else count * advantage
    return c * min(1 / p, cap) if cap != 0.0 else c


@jit
def common_part(  # type: ignore[no-untyped-def]
    hits, counts, weights, total, n_correct, N, K, a, b, surrogate, distinct, cap
):
    """What the softmax takes from every action: the sum of its coefficients c, or of c p.

    A sum that is zero but for rounding counts as zero.
    """
    if surrogate == RATIO and not distinct and cap == 0.0:
        whole, size = K * a + (N - K) * b, K * abs(a) + (N - K) * abs(b)
        return whole if abs(whole) > ROUNDING * size else 0.0
    whole, size = 0.0, 0.0
    for i in hits:
        advantage, p = a if i < n_correct else b, weights[i] / total
        c = coefficient(counts[i], p, advantage, distinct, cap)
        if surrogate == PROBABILITY:
            c *= p
        whole += c
        size += abs(c)
    return whole if abs(whole) > ROUNDING * size else 0.0


@jit
def mean_logs(weights, logits, total, log_total, log_start, n):  # type: ignore[no-untyped-def]
    """Mean log-probability, and mean log-ratio to the initial policy, under the policy."""
    mean_log, divergence = 0.0, 0.0
    for i in range(n):
        p, log_p = weights[i] / total, logits[i] - log_total
        mean_log += p * log_p
        divergence += p * (log_p - log_start[i])
    return mean_log, divergence


@jit
def reweigh(logits, weights, n):  # type: ignore[no-untyped-def]
    """Weights afresh from the logits; returns the shift, their largest."""
    shift = logits[:n].max()
    for i in range(n):
        weights[i] = np.exp(logits[i] - shift)
    return shift
