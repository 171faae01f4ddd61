"""The paper's simulation in dense, obvious NumPy: the yardstick of the speed comparisons."""

from __future__ import annotations

import numpy as np


def dense_numpy(
    N: int, steps: int, rng: np.random.Generator, *, gamma: float = 0.0, n: int = 128_000
) -> tuple[float, float]:
    """Q_pos and M_ret after `steps` updates: ratio surrogate, centred rule, Adam at 0.01."""
    good = n * 10_000 // 128_000
    logits = np.zeros(n)
    logits[:good] = 3.0
    logits[0] = 5.0
    m, v = np.zeros(n), np.zeros(n)
    start = _softmax(logits)
    for step in range(1, steps + 1):
        p = _softmax(logits)
        if N > n // 8:
            counts = rng.multinomial(N, p)
        else:
            cumulative = np.cumsum(p)
            drawn = np.searchsorted(cumulative, rng.random(N) * cumulative[-1], side="right")
            counts = np.bincount(drawn, minlength=n)
        success = counts[:good].sum() / N
        gradient = counts * (-2 * success / N)
        gradient[:good] = counts[:good] * (2 * (1 - success) / N)
        gradient *= (1 - success) ** gamma
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
        logits = logits + 0.01 * m_hat / (np.sqrt(v_hat) + 1e-8)
    change = (_softmax(logits) - start)[:good]
    return float((start[:good] + change).sum()), float(
        1 - np.maximum(0, -change).sum() / start[:good].sum()
    )


def _softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max())
    return np.asarray(p / p.sum())
