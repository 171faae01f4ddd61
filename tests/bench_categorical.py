"""Bars on speed, as ratios to dense NumPy in one process on one core; make bench runs them."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

from tailmiss.figures import scaling
from tailmiss.sims import CategoricalConfig, simulate_categorical

pytestmark = pytest.mark.bench
REPEATS = 3


def pairs(K: int, N: int, steps: int = 1000) -> np.ndarray:
    """Milliseconds per step of the simulator and of dense NumPy, a row per repeat."""
    rng = np.random.default_rng(0)
    return np.array([scaling.compare(K, N, steps, 60, rng) for _ in range(REPEATS)])


@pytest.mark.parametrize(("N", "bar"), [(8, 50), (64, 20), (2048, 6), (8192, 5), (131072, 4)])
def test_times_faster_than_dense_numpy(N, bar):
    times = pairs(128_000, N)
    ratio = float(np.median(times[:, 1] / times[:, 0]))
    print(f"\nN = {N}: {times[:, 0].min():.4f} ms a step, {ratio:.1f} times faster")
    assert ratio >= bar


def test_the_whole_sweep_is_ten_times_faster_in_sum():
    times = np.array([pairs(128_000, 2**k)[0] for k in range(1, 18)])
    ratio = float(times[:, 1].sum() / times[:, 0].sum())
    print(f"\nsweep over 17 group sizes: {ratio:.1f} times faster in sum")
    assert ratio >= 10


def test_cost_of_a_step_at_N_8_does_not_grow_with_the_actions():
    """From a uniform policy, so that as many actions move at every size."""
    sizes = (16_000, 128_000, 1_024_000)
    cost = {K: [] for K in sizes}
    for i in range(7):
        for K in sizes:
            run = functools.partial(
                CategoricalConfig, n_actions=K, n_correct=K // 10, logits=np.zeros(K), group_size=8
            )
            start_up = min(seconds(run(steps=1, record_every=1), i) for _ in range(3))
            cost[K].append((seconds(run(steps=2000, record_every=2000), i) - start_up) / 1999)
    median = {K: float(np.median(values)) for K, values in cost.items()}
    print("\n", {K: f"{1e6 * value:.1f} us" for K, value in median.items()})
    assert max(median.values()) <= 1.2 * min(median.values())


def seconds(config: CategoricalConfig, seed: int) -> float:
    start = time.thread_time()
    simulate_categorical(config, rng=seed)
    return time.thread_time() - start
