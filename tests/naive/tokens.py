"""One batch of the token simulator, token by token: the twin of sims/_tokens_kernel.py."""

import math

import numpy as np

from tailmiss import advantage_table


def softmax(row):
    e = np.array([math.exp(z - row.max()) for z in row])
    return e / np.cumsum(e)[-1]


def entropy(row):
    e = np.array([math.exp(z - row.max()) for z in row])
    total = np.cumsum(e)[-1]
    return math.log(total) - np.cumsum(e / total * (row - row.max()))[-1]


def ppo_masks(ratio, advantage, config):
    if advantage > 0:
        return ratio > 1 + config.clip_high
    return ratio < 1 - config.clip_low


def clip(ratio, config):
    return min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)


def factor(config, p, p_old, advantage):
    """Coefficient of w A grad log pi, one line a token rule."""
    ratio = p / p_old
    near_one = 1 - 1e-6
    x, y = min(p, near_one), min(p_old, near_one)
    variance = x * (1 - x) / (y * (1 - y))
    capped = min(variance, config.ratio_cap)
    off = ppo_masks(variance, advantage, config)
    match config.token_rule:
        case "importance":
            return 0.0 if ppo_masks(ratio, advantage, config) else ratio
        case "cispo":
            return clip(ratio, config)
        case "variance":
            return capped
        case "variance_ppo":
            return 0.0 if off else capped
        case "variance_autograd":
            return 0.0 if off else capped * (1 - 2 * x) / (1 - x)
        case "variance_ratio_mask":
            return 0.0 if ppo_masks(ratio, advantage, config) else capped
        case "variance_cispo":
            return clip(variance, config)
        case "variance_absolute":
            return 4 * p * (1 - p)


def rollouts(task, logits, uniforms):
    """Tokens, contexts, probabilities and entropies of every rollout, and which are correct."""
    P, N, T = uniforms.shape
    share = P // len(logits)
    tokens, contexts = np.zeros((2, P, N, T), int)
    p_old, entropies = np.zeros((2, P, N, T))
    success = np.zeros((P, N), bool)
    for prompt in range(P):
        f = prompt // share
        child = task.child[f % len(task.child)]
        for i in range(N):
            c = 0
            for t in range(T):
                p = softmax(logits[f, c])
                v = min(np.searchsorted(np.cumsum(p), uniforms[prompt, i, t], "right"), p.size - 1)
                tokens[prompt, i, t], contexts[prompt, i, t] = v, c
                p_old[prompt, i, t], entropies[prompt, i, t] = p[v], entropy(logits[f, c])
                c = child[c, v]
            answers = task.strategies[f][task.correct[prompt]]
            success[prompt, i] = (answers == tokens[prompt, i]).all(axis=1).any()
    return tokens, contexts, p_old, entropies, success


def response_coefficients(config, p_old, success):
    """w_i A_i: the advantage of the rule times 1/N or the response weight."""
    a, b = advantage_table(config.rule, config.group_size, gamma=config.gamma)
    out = np.zeros(success.shape)
    for prompt, right in enumerate(success):
        w = np.full(config.group_size, 1 / config.group_size)
        if config.response_weight:
            for i in range(config.group_size):
                logp = np.cumsum([math.log(p) for p in p_old[prompt, i]])[-1]
                mean = logp / (config.weight_length or config.length)
                w[i] = math.e ** (-mean) / config.group_size
            w = np.minimum(w, config.weight_cap / config.group_size)
        if config.self_normalize:
            w = w / np.cumsum(w)[-1]
        out[prompt] = w * np.where(right, a[right.sum()], b[right.sum()])
    return out


def train_step(config, task, logits, uniforms):
    """Logits after one batch and its inner steps, and the batch."""
    tokens, contexts, p_old, entropies, success = rollouts(task, logits, uniforms)
    floor = -np.inf
    if config.entropy_quantile:
        floor = np.sort(entropies, axis=None)[int(config.entropy_quantile * entropies.size)]
    coefficient = response_coefficients(config, p_old, success)
    logits = logits.copy()
    share = len(success) // len(logits)
    for _ in range(config.inner_steps):
        push, total = np.zeros(logits.shape), np.zeros(logits.shape[:2])
        for prompt, i, t in np.ndindex(tokens.shape):
            A = coefficient[prompt, i]
            if A == 0 or entropies[prompt, i, t] < floor:
                continue
            place = prompt // share, contexts[prompt, i, t]
            v = tokens[prompt, i, t]
            p = softmax(logits[place])[v]
            step = A * factor(config, p, p_old[prompt, i, t], A)
            push[(*place, v)] += step
            total[place] += step
        for place in zip(*np.nonzero(push.any(axis=-1)), strict=True):
            change = push[place] - total[place] * softmax(logits[place])
            logits[place] += config.learning_rate / share * change
    return logits, tokens, success
