"""Time of a training step without and with the mixin: prints the seconds of both as JSON.

A program of its own, as training is: ``python tests/trl_step_time.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from trl import GRPOTrainer
from trl_runs import WeighedGRPO, make

from tailmiss.torch.trl import TailMissConfig


def stepper(trainer: Any) -> Iterator[None]:
    """Each next() samples, scores and takes one gradient, as the trainer's own loop does."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    while True:
        for batch in trainer.get_train_dataloader():
            trainer.training_step(trainer.model, batch, None)
            trainer.model.zero_grad()
            yield


def main(turns: int = 43) -> None:
    """64 completions of 32 tokens by a Qwen2 of 84 thousand parameters; both in turns."""
    torch.set_num_threads(1)
    settings = {
        "per_device_train_batch_size": 64,
        "max_completion_length": 32,
        "max_steps": 10_000,
        "learning_rate": 0.0,
        "logging_strategy": "no",
    }
    steps = [
        stepper(make(GRPOTrainer, **settings)),
        stepper(make(WeighedGRPO, tailmiss=TailMissConfig(gamma=0.5), **settings)),
    ]
    times = np.zeros((turns, 2))
    for turn in range(turns):
        for which in (turn % 2, 1 - turn % 2):  # neither is always the first
            torch.manual_seed(turn)
            start = time.thread_time()
            next(steps[which])
            times[turn, which] = time.thread_time() - start
    print(json.dumps(times[3:].T.tolist()))


if __name__ == "__main__":
    main()
