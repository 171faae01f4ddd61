"""Timing bars of the tensor functions and of the TRL mixin: each prints its number."""

from __future__ import annotations

import time

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
    """A Qwen2 of 84 thousand parameters, 64 completions of 32 tokens; steps of both in turns."""
    from trl import GRPOTrainer
    from trl_runs import WeighedGRPO, make

    from tailmiss.torch.trl import TailMissConfig

    settings = {
        "per_device_train_batch_size": 64,
        "max_completion_length": 32,
        "max_steps": 10_000,
        "learning_rate": 0.0,
        "logging_strategy": "no",
    }
    trainers = [
        make(GRPOTrainer, **settings),
        make(WeighedGRPO, tailmiss=TailMissConfig(gamma=0.5), **settings),
    ]
    steps = [stepper(trainer) for trainer in trainers]
    times = np.zeros((63, 2))
    for turn in range(len(times)):
        for which in (turn % 2, 1 - turn % 2):  # neither is always the first
            torch.manual_seed(turn)
            start = time.thread_time()
            next(steps[which])
            times[turn, which] = time.thread_time() - start
    plain, mine = times[3:].T
    ratio = np.median(mine) / np.median(plain)
    print(f"plain {1e3 * np.median(plain):.1f} ms, with the mixin {ratio - 1:+.2%}")
    assert ratio <= 1.02


def stepper(trainer):
    """Each next() samples, scores and takes one gradient, as the trainer's own loop does."""
    trainer.model.train()
    batches = iter(trainer.get_train_dataloader())
    trainer.current_gradient_accumulation_steps = 1
    while True:
        batch = next(batches, None)
        if batch is None:
            batches = iter(trainer.get_train_dataloader())
            batch = next(batches)
        trainer.training_step(trainer.model, batch, None)
        trainer.model.zero_grad()
        yield
