"""Bars on speed: ratios to dense NumPy, and torch, in one process on one core; by make bench."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

from tailmiss.figures import scaling
from tailmiss.figures._yardstick import dense_numpy
from tailmiss.sims import CategoricalConfig, simulate_categorical

pytestmark = pytest.mark.bench
REPEATS = 3
BARS = {8: 50, 64: 20, 2048: 6, 8192: 5, 131072: 4}
SWEEP = [2**k for k in range(1, 18)]


@functools.cache
def seconds_a_step(N: int, steps: int = 1000) -> np.ndarray:
    """Seconds a step of the simulator, of dense NumPy and of dense torch, a row per repeat."""
    rng = np.random.default_rng(0)
    dense_torch(N, 2)
    rows = []
    for _ in range(REPEATS):
        ours, plain = scaling.compare(128_000, N, steps, 60, rng)
        start = time.thread_time()
        dense_torch(N, 60)
        rows.append((1e-3 * ours, 1e-3 * plain, (time.thread_time() - start) / 60))
    return np.array(rows)


def dense_torch(N: int, steps: int) -> float:
    """The same simulation as one writes it in torch, in its float32; returns Q_pos at the end."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    config = CategoricalConfig()
    logits = torch.tensor(config.initial_logits(), dtype=torch.float32, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=0.01)
    for _ in range(steps):
        logp = torch.log_softmax(logits, 0)
        drawn = torch.multinomial(logp.detach().exp(), N, replacement=True)
        reward = 2.0 * (drawn < config.n_correct) - 1.0
        adam.zero_grad()
        (-((reward - reward.mean()) * logp[drawn]).mean()).backward()
        adam.step()
    return float(torch.softmax(logits.detach(), 0)[: config.n_correct].sum())


def test_the_alternatives_simulate_the_same():
    """The correct mass after 200 steps at N = 2048: it has moved by .15 and varies by .0002."""
    run = simulate_categorical(CategoricalConfig(group_size=2048, steps=200), rng=0)
    numpy_mass = dense_numpy(2048, 200, np.random.default_rng(1))[0]
    assert numpy_mass == pytest.approx(run.q_pos[-1], abs=2e-3)
    assert dense_torch(2048, 200) == pytest.approx(run.q_pos[-1], abs=2e-3)


@pytest.mark.parametrize(("N", "bar"), BARS.items())
def test_times_faster_than_dense_numpy(N, bar, measured):
    ours, numpy, torch = seconds_a_step(N).T
    what = f"categorical step, K = 128,000, N = {N:,}"
    measured(what, ours, "dense torch, float32", torch)
    measured(what, ours, "dense NumPy", numpy, faster=bar)


def test_the_whole_sweep_is_ten_times_faster_in_sum(measured):
    ours, numpy, torch = sum(seconds_a_step(N) for N in SWEEP).T
    what = "the same summed over N = 2, 4, ..., 131,072"
    measured(what, ours, "dense torch, float32", torch)
    measured(what, ours, "dense NumPy", numpy, faster=10)


def test_cost_of_a_step_at_N_8_does_not_grow_with_the_actions(measured):
    """From a uniform policy that hardly changes, so that as many actions move at every size.

    Over 20,000 steps, as setting up takes milliseconds more or less with a million actions.
    """
    sizes = (16_000, 128_000, 1_024_000)
    cost = {K: [] for K in sizes}
    for i in range(7):
        for K in sizes:
            run = functools.partial(
                CategoricalConfig, n_actions=K, n_correct=K // 10, logits=np.zeros(K), group_size=8,
                learning_rate=1e-3, record_every=21_000,
            )  # fmt: skip
            warm = seconds(run(steps=1000), i)
            cost[K].append((seconds(run(steps=21_000), i) - warm) / 20_000)
    median = {K: float(np.median(values)) for K, values in cost.items()}
    for K, values in cost.items():
        measured(f"categorical step from a uniform policy, K = {K:,}, N = 8", values)
    assert max(median.values()) <= 1.2 * min(median.values())


def seconds(config: CategoricalConfig, seed: int) -> float:
    start = time.thread_time()
    simulate_categorical(config, rng=seed)
    return time.thread_time() - start
