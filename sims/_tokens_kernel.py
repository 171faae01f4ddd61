"""Loops of the token simulator: sample a batch of groups, then take inner steps on it.

A policy is a table of softmaxes, one row a context, and `child[policy, context, token]` is the
context that follows. Prompts that share a policy stand next to each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from tailmiss import weights

OPTIONS: dict[str, Any] = {"nogil": True, "cache": True}
SATURATED = 1 - 1e-6
(
    IMPORTANCE,
    CISPO,
    VARIANCE,
    VARIANCE_PPO,
    VARIANCE_AUTOGRAD,
    VARIANCE_RATIO_MASK,
    VARIANCE_CISPO,
    VARIANCE_ABSOLUTE,
) = range(8)

response_weight = njit(weights.response_weight, **OPTIONS)
variance_ratio = njit(weights.variance_ratio, **OPTIONS)


@njit(**OPTIONS)
def softmax(logits, out):  # type: ignore[no-untyped-def]
    """Write the probabilities of one context to `out`; its entropy in nats."""
    top = logits.max()
    total = 0.0
    for v in range(logits.size):
        out[v] = math.exp(logits[v] - top)
        total += out[v]
    mean = 0.0
    for v in range(logits.size):
        out[v] /= total
        mean += out[v] * (logits[v] - top)
    return math.log(total) - mean


@njit(**OPTIONS)
def draw(probs, u):  # type: ignore[no-untyped-def]
    """First token at which the cumulative probability passes u."""
    passed = 0.0
    last = 0
    for v in range(probs.size):
        if probs[v] > 0.0:
            last = v
            passed += probs[v]
            if u < passed:
                break
    return last


@njit(**OPTIONS)
def sample(  # type: ignore[no-untyped-def]
    logits,
    child,
    strategies,
    correct,
    uniforms,
    tokens,
    contexts,
    p_old,
    entropy,
    strategy,
    success,
):
    """Fill the batch: tokens, their contexts, probabilities and entropies, and which succeeded.

    Shapes: logits (F, C, V), child (F or 1, C, V), strategies (F, S, T), correct (P, S), uniforms
    and the first four outputs (P, N, T), strategy and success (P, N).
    """
    F, C, V = logits.shape
    P, N, T = uniforms.shape
    share = P // F
    probs = np.empty((C, V))
    entropies = np.empty(C)
    for f in range(F):
        step_to = child[f % child.shape[0]]
        seen = np.zeros(C, np.bool_)
        for prompt in range(f * share, (f + 1) * share):
            for i in range(N):
                c = 0
                for t in range(T):
                    if not seen[c]:
                        entropies[c] = softmax(logits[f, c], probs[c])
                        seen[c] = True
                    v = draw(probs[c], uniforms[prompt, i, t])
                    tokens[prompt, i, t] = v
                    contexts[prompt, i, t] = c
                    p_old[prompt, i, t] = probs[c, v]
                    entropy[prompt, i, t] = entropies[c]
                    c = step_to[c, v]
                found = which(strategies[f], tokens[prompt, i])
                strategy[prompt, i] = found
                success[prompt, i] = found >= 0 and correct[prompt, found]


@njit(**OPTIONS)
def which(strategies, tokens):  # type: ignore[no-untyped-def]
    """Index of the strategy that these tokens spell; -1 if none."""
    for s in range(strategies.shape[0]):
        t = 0
        while t < tokens.size and strategies[s, t] == tokens[t]:
            t += 1
        if t == tokens.size:
            return s
    return -1


@njit(**OPTIONS)
def response_coefficients(  # type: ignore[no-untyped-def]
    p_old, success, table_correct, table_wrong, length, cap, self_normalize, out
):
    """w_i A_i of every rollout; w = 1/N, or ReCo's weight, capped at cap/N.

    `length` divides the log-likelihood of a response; infinite leaves w = 1/N.
    """
    P, N, T = p_old.shape
    w = np.empty(N)
    for prompt in range(P):
        K = 0
        for i in range(N):
            K += success[prompt, i]
        total = 0.0
        for i in range(N):
            w[i] = 1.0 / N
            if length < np.inf:
                logp = 0.0
                for t in range(T):
                    logp += math.log(p_old[prompt, i, t])
                w[i] = min(response_weight(logp / length, N), cap / N)
            total += w[i]
        for i in range(N):
            advantage = table_correct[K] if success[prompt, i] else table_wrong[K]
            out[prompt, i] = (w[i] / total if self_normalize else w[i]) * advantage


@njit(**OPTIONS)
def masked(ratio, advantage, clip_low, clip_high):  # type: ignore[no-untyped-def]
    """Whether PPO's minimum has no gradient."""
    return ratio > 1 + clip_high if advantage > 0 else ratio < 1 - clip_low


@njit(**OPTIONS)
def token_factor(rule, p, p_old, advantage, clip_low, clip_high, cap):  # type: ignore[no-untyped-def]
    """What multiplies w A grad log pi of one token."""
    if rule == VARIANCE_ABSOLUTE:
        return 4 * p * (1 - p)
    ratio = p / p_old
    if rule == IMPORTANCE:
        return 0.0 if masked(ratio, advantage, clip_low, clip_high) else ratio
    if rule == CISPO:
        return min(max(ratio, 1 - clip_low), 1 + clip_high)
    p = min(p, SATURATED)
    variance = variance_ratio(p, min(p_old, SATURATED))
    if rule == VARIANCE_CISPO:
        return min(max(variance, 1 - clip_low), 1 + clip_high)
    clipped = ratio if rule == VARIANCE_RATIO_MASK else variance
    if rule != VARIANCE and masked(clipped, advantage, clip_low, clip_high):
        return 0.0
    variance = min(variance, cap)
    return variance * (1 - 2 * p) / (1 - p) if rule == VARIANCE_AUTOGRAD else variance


@njit(**OPTIONS)
def inner_steps(  # type: ignore[no-untyped-def]
    logits, tokens, contexts, p_old, keep, coefficient, steps, rate, rule, clip_low, clip_high, cap
):
    """Take `steps` gradient steps on one batch, in place.

    The gradient is the mean over the prompts of a policy of sum_i w_i A_i sum_t factor_it
    grad log pi(o_it). Returns the share of token terms that a clip masked.
    """
    F, C, V = logits.shape
    P, N, T = tokens.shape
    share = P // F
    probs = np.empty((C, V))
    push = np.empty((C, V))
    total = np.empty(C)
    touched = np.empty(C, np.int64)
    active = 0
    silent = 0
    for f in range(F):
        for _ in range(steps):
            seen = np.zeros(C, np.bool_)
            count = 0
            for prompt in range(f * share, (f + 1) * share):
                for i in range(N):
                    if coefficient[prompt, i] == 0.0:
                        continue
                    for t in range(T):
                        if not keep[prompt, i, t]:
                            continue
                        c, v = contexts[prompt, i, t], tokens[prompt, i, t]
                        if not seen[c]:
                            softmax(logits[f, c], probs[c])
                            push[c] = 0.0
                            total[c] = 0.0
                            seen[c] = True
                            touched[count] = c
                            count += 1
                        factor = token_factor(
                            rule,
                            probs[c, v],
                            p_old[prompt, i, t],
                            coefficient[prompt, i],
                            clip_low,
                            clip_high,
                            cap,
                        )
                        active += 1
                        silent += factor == 0.0
                        push[c, v] += coefficient[prompt, i] * factor
                        total[c] += coefficient[prompt, i] * factor
            for index in range(count):
                c = touched[index]
                for v in range(V):
                    logits[f, c, v] += rate / share * (push[c, v] - total[c] * probs[c, v])
    return silent / max(active, 1)
