"""Timing bars of the tensor functions and of the TRL mixin: each prints its number."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tailmiss.torch as tt  # noqa: E402

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROLLOUTS, GROUPS = 1_000_000, 100_000


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def paired(ours, theirs, repeats=60):
    """Median processor time of each, in milliseconds, in turns; and their ratio."""
    times = [[], []]
    for _ in range(repeats + 3):
        for kept, function in zip(times, (theirs, ours), strict=True):
            start = time.thread_time()
            function()
            kept.append(1e3 * (time.thread_time() - start))
    base, mine = (np.array(kept[3:]) for kept in times)
    return np.median(mine), np.median(base), np.median(mine) / np.median(base)


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64])
def test_a_million_rollouts_in_a_hundred_thousand_groups(order, dtype):
    """Under 20 ms on one core, at most 3 times a scatter-add of the rewards over the same ids."""
    rng = torch.Generator().manual_seed(0)
    ids = torch.arange(ROLLOUTS) // (ROLLOUTS // GROUPS)
    if order == "shuffled":
        ids = ids[torch.randperm(ROLLOUTS, generator=rng)]
    success = torch.rand(ROLLOUTS, generator=rng) < 0.3
    success = success.to(dtype)
    rewards = success if dtype.is_floating_point else success.to(torch.float32)
    mine, base, ratio = paired(
        lambda: tt.focal_weights(success, ids, 0.5),
        lambda: torch.zeros(GROUPS, dtype=rewards.dtype).scatter_add_(0, ids, rewards),
    )
    print(f"{order} {dtype}: {mine:.2f} ms, a scatter-add {base:.2f} ms, {ratio:.2f} times")
    assert mine < 20
    assert ratio <= 3


def test_ids_without_order_or_range_cost_one_sort():
    """Hashes of 64 bits, a million of them: printed, not barred."""
    ids = torch.randint(-(2**62), 2**62, (GROUPS,))[torch.randint(0, GROUPS, (ROLLOUTS,))]
    success = torch.rand(ROLLOUTS) < 0.3
    mine, base, ratio = paired(
        lambda: tt.focal_weights(success, ids, 0.5), lambda: torch.sort(ids), repeats=7
    )
    print(f"hashes: {mine:.1f} ms, a sort {base:.1f} ms, {ratio:.2f} times")
    assert ratio <= 2


def test_the_mixin_costs_at_most_two_percent_of_a_step():
    """Steps of both trainers in turns, in a program of its own."""
    program = Path(__file__).with_name("trl_step_time.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    plain, ratio = map(float, done.stdout.splitlines()[-1].split())
    print(f"plain {plain:.1f} ms, with the mixin {ratio - 1:+.2%}")
    assert ratio <= 1.02
