"""The expected effect of ReCo's response weight on one step, by enumerating all groups."""

import itertools

import numpy as np

from tailmiss import advantage_table


def enumerated_mass_change(p, correct, N, *, rule, gamma, length, cap, surrogate, self_normalize):
    """Expected (delta_pos, delta_unsampled_pos, direct_drift, coupling, baseline) at eta = 1."""
    p, correct = np.asarray(p, float), np.asarray(correct, bool)
    a, b = advantage_table(rule, N, gamma=gamma)
    omega = np.minimum(p ** (-1 / length), cap)
    total = np.zeros(5)
    for group in itertools.product(range(p.size), repeat=N):
        w = omega[list(group)]
        if self_normalize:
            w = w / w.mean()
        K = correct[list(group)].sum()
        push = np.zeros(p.size)
        for action, weight in zip(group, w, strict=True):
            advantage = a[K] if correct[action] else b[K]
            if surrogate == "ratio":
                push[action] += weight * advantage
            else:
                push[action] = weight * advantage * p[action]
        dz = (push - p * push.sum()) / N
        dp = p * (dz - p @ dz)
        unsampled = correct & ~np.isin(np.arange(p.size), group)
        drift = (p * dz)[unsampled].sum()
        values = dp[correct].sum(), dp[unsampled].sum(), drift
        row = np.array([*values, dp[unsampled].sum() - drift, push.sum()])
        total += np.prod(p[list(group)]) * row
    return total
