"""The categorical simulator as it is defined: every action, every step, plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from tailmiss.advantages import advantage_table
from tailmiss.sims import CategoricalConfig
from tailmiss.weights import focal_weight, response_weight


def simulate(
    config: CategoricalConfig, rng: np.random.Generator, block: int | None = None
) -> tuple[list[dict[str, float]], np.ndarray]:
    """Records and final logits.

    block: draw by blocks of this many actions, as large groups are; without it, by inverse CDF over
    the resting actions in their order and then the moving ones in theirs, as small groups are.
    """
    N, good = config.group_size, np.arange(config.n_actions) < config.n_correct
    table = advantage_table(config.rule, N, gamma=config.gamma, **config.rule_options)
    logits = config.initial_logits()
    p = softmax(logits)
    start = p
    m, v = np.zeros_like(p), np.zeros_like(p)
    records, groups, moving = [record(0, p, start, good, [])], [], []
    for step in range(1, config.steps + 1):
        drawn = draw(p, N, rng, block) if block else draw_few(p, N, rng, moving)
        counts = np.bincount(drawn, minlength=len(p))
        K = int(counts[good].sum())
        gradient = ascent(config, p, start, counts, np.where(good, table[0][K], table[1][K]))
        if config.optimizer == "sgd":
            logits = logits + config.learning_rate * gradient
        else:
            m = config.beta1 * m + (1 - config.beta1) * gradient
            v = config.beta2 * v + (1 - config.beta2) * gradient**2
            m_hat, v_hat = m / (1 - config.beta1**step), v / (1 - config.beta2**step)
            decay = config.weight_decay if config.optimizer == "adamw" else 0.0
            logits = logits * (1 - config.learning_rate * decay)
            logits = logits + config.learning_rate * m_hat / (np.sqrt(v_hat) + config.eps)
            if step % 16 == 0:
                scale = np.sqrt(config.beta2 * v_hat) + config.eps
                next_change = config.learning_rate * config.beta1 * m_hat / scale
                ratio = config.beta1 / np.sqrt(config.beta2)  # by which later changes shrink, each
                come_to_rest(moving, np.abs(next_change) < 2.0**-54 * (1 - ratio))
        missed, before, p = good & (counts == 0), p, softmax(logits)
        groups.append(
            {
                "unsampled_mass": before[missed].sum(),
                "unsampled_change": p[missed].sum() - before[missed].sum(),
                "focal_weight": focal_weight(K / N, config.gamma),
                "mixed_share": float(0 < K < N),
            }
        )
        if step % config.record_every == 0 or step == config.steps:
            records.append(record(step, p, start, good, groups))
            groups = []
    return records, logits


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def draw_few(p: np.ndarray, N: int, rng: np.random.Generator, moving: list[int]) -> np.ndarray:
    """By inverse CDF; the actions drawn move."""
    resting = np.ones(len(p), bool)
    resting[moving] = False
    order = np.concatenate([np.flatnonzero(resting), np.array(moving, int)])
    drawn = order[inverse_cdf(p[order], N, rng)]
    moving += [i for i in dict.fromkeys(drawn.tolist()) if resting[i]]
    return drawn


def come_to_rest(moving: list[int], still: np.ndarray) -> None:
    """Each that is still leaves; the last one takes its place."""
    for place in reversed(range(len(moving))):
        if still[moving[place]]:
            moving[place] = moving[-1]
            moving.pop()


def draw(p: np.ndarray, N: int, rng: np.random.Generator, block: int) -> np.ndarray:
    drawn, left = [], N
    for start in range(0, len(p), block):
        inside = p[start : start + block]
        last = start + block >= len(p)
        n = left if last else rng.binomial(left, inside.sum() / p[start:].sum())
        left -= n
        counts = np.zeros(len(inside), int)
        if n >= 2 * block:  # most of many draws as Poisson counts
            counts = np.full(len(inside), n)
            while counts.sum() > n:
                counts = poisson((n - 3 * np.sqrt(n)) * inside / inside.sum(), rng)
        drawn.append(start + np.repeat(np.arange(len(inside)), counts))
        drawn.append(start + inverse_cdf(inside, n - counts.sum(), rng))
    return np.concatenate(drawn)


def poisson(means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By one uniform each, but for large means."""
    return np.array([one_poisson(mean, rng) for mean in means])


def one_poisson(mean: float, rng: np.random.Generator) -> int:
    if mean >= 30:
        return int(rng.poisson(mean))
    return int(stats.poisson.ppf(rng.random(), mean)) if mean > 0 else 0


def inverse_cdf(p: np.ndarray, N: int, rng: np.random.Generator) -> np.ndarray:
    cumulative = np.cumsum(p)
    return np.searchsorted(cumulative, rng.random(N) * cumulative[-1], side="right")


def ascent(
    config: CategoricalConfig,
    p: np.ndarray,
    start: np.ndarray,
    counts: np.ndarray,
    advantage: np.ndarray,
) -> np.ndarray:
    """Gradient of the objective in the logits."""
    weight: Any = 1 / config.group_size
    if config.response_weight_cap is not None:
        cap = config.response_weight_cap / config.group_size
        weight = np.minimum(response_weight(np.log(p), config.group_size), cap)
    c = (np.minimum(counts, 1) if config.distinct else counts) * advantage * weight
    if config.surrogate == "ratio":
        gradient = c - p * sum_or_zero(c)
    else:
        gradient = p * (c - sum_or_zero(c * p))
    entropy_gradient = -p * (np.log(p) - p @ np.log(p))
    kl_gradient = p * (np.log(p / start) - p @ np.log(p / start))
    return gradient + config.entropy_bonus * entropy_gradient - config.kl * kl_gradient


def sum_or_zero(terms: np.ndarray) -> float:
    """Their sum, where terms that cancel but for rounding cancel."""
    total = float(terms.sum())
    return total if abs(total) > 1e-12 * np.abs(terms).sum() else 0.0


def record(
    step: int, p: np.ndarray, start: np.ndarray, good: np.ndarray, groups: list[dict[str, float]]
) -> dict[str, float]:
    change = (p - start)[good]
    names = ("unsampled_mass", "unsampled_change", "focal_weight", "mixed_share")
    return {
        "step": step,
        "q_pos": p[good].sum(),
        "retained_mass": 1 - np.maximum(0, -change).sum() / start[good].sum(),
        "entropy": -(p @ np.log(p)),
        "improved_share": (change > 1e-12 * start[good]).mean(),
        "worst_drop": min(change.min(), 0.0),
        **{k: np.mean([g[k] for g in groups]) if groups else np.nan for k in names},
    }
