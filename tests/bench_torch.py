"""Timing bars of the tensor functions and of the TRL mixin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from timings import in_turns

torch = pytest.importorskip("torch")

import tailmiss.torch as tt  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.bench,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROLLOUTS, GROUPS = 1_000_000, 100_000


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64])
def test_a_million_rollouts_in_a_hundred_thousand_groups(order, dtype, measured):
    """Under 20 ms on one core, at most 3 times a scatter-add of the rewards over the same ids."""
    rng = torch.Generator().manual_seed(0)
    ids = torch.arange(ROLLOUTS) // (ROLLOUTS // GROUPS)
    if order == "shuffled":
        ids = ids[torch.randperm(ROLLOUTS, generator=rng)]
    success = torch.rand(ROLLOUTS, generator=rng) < 0.3
    success = success.to(dtype)
    rewards = success if dtype.is_floating_point else success.to(torch.float32)
    ours, scatter = in_turns(
        lambda: tt.focal_weights(success, ids, 0.5),
        lambda: torch.zeros(GROUPS, dtype=rewards.dtype).scatter_add_(0, ids, rewards),
        repeats=60,
        warm_up=3,
    )
    kind = str(dtype).removeprefix("torch.")
    what = f"focal weights of a million rollouts, {GROUPS:,} groups, {order}, {kind}"
    measured(what, ours, "one scatter-add", scatter, faster=1 / 3, within=0.02)


def test_ids_without_order_or_range_cost_one_sort(measured):
    """Hashes of 64 bits, a million of them."""
    ids = torch.randint(-(2**62), 2**62, (GROUPS,))[torch.randint(0, GROUPS, (ROLLOUTS,))]
    success = torch.rand(ROLLOUTS) < 0.3
    ours, sort = in_turns(
        lambda: tt.focal_weights(success, ids, 0.5), lambda: torch.sort(ids), repeats=7
    )
    what = "focal weights of a million rollouts by 64-bit hashes"
    measured(what, ours, "one sort of the hashes", sort, faster=1 / 2)


def test_the_mixin_costs_at_most_two_percent_of_a_step(measured):
    """Steps of both trainers in turns, in a program of its own."""
    program = Path(__file__).with_name("trl_step_time.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    plain, mine = json.loads(done.stdout.splitlines()[-1])
    measured("TRL step with the mixin, 84,000 parameters", mine, "without", plain, faster=1 / 1.02)
