"""Short runs of TRL's trainers on a random Qwen2 of 84 thousand parameters, no network."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from tailmiss.figures.training.model import new_model, tokenizer
from tailmiss.torch.trl import TailMissConfig, TailMissMixin

G = 4


def has_even_digit(completions: list[str], **_: Any) -> list[float]:
    """About half of the random completions succeed: mixed groups of every kind."""
    return [float(any(c in "02468" for c in text[:1])) for text in completions]


def length(completions: list[str], **_: Any) -> list[float]:
    return [len(text) / 10 for text in completions]


def sometimes(completions: list[str], **_: Any) -> list[float | None]:
    """Unscored for some completions."""
    return [None if text[1:2] in "159" else float(text[:1] in "02468") for text in completions]


class WeighedGRPO(TailMissMixin, GRPOTrainer):
    pass


class WeighedRLOO(TailMissMixin, RLOOTrainer):
    pass


def make(
    trainer_class: type = GRPOTrainer,
    *,
    reward_funcs: Any = has_even_digit,
    tailmiss: TailMissConfig | None = None,
    seed: int = 0,
    prompts: int = 64,
    **settings: Any,
) -> Any:
    """A trainer with its losses kept in `.losses`; everything exact: CPU, float32, no checkpoints."""
    config_class = RLOOConfig if issubclass(trainer_class, RLOOTrainer) else GRPOConfig
    rng = np.random.default_rng(seed)
    dataset = Dataset.from_dict(
        {"prompt": [f"{a}+{b}=" for a, b in rng.integers(0, 10, (prompts, 2))]}
    )
    defaults: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(),
        "max_steps": 3,
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "num_generations": G,
        "max_completion_length": 6,
        "learning_rate": 1e-2,
        "beta": 0.0,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "seed": seed,
    }
    extra = {} if tailmiss is None else {"tailmiss": tailmiss}
    trainer = keeping_losses(trainer_class)(
        model=new_model(seed=seed),
        reward_funcs=reward_funcs,
        args=config_class(**(defaults | settings)),
        train_dataset=dataset,
        eval_dataset=dataset.select(range(8)),
        processing_class=tokenizer(),
        **extra,
    )
    trainer.losses = []
    return trainer


def keeping_losses(trainer_class: type) -> type:
    """The class with every loss appended to `losses` as the trainer computes it."""

    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super(kept, self).compute_loss(*args, **kwargs)
        self.losses.append(loss.item())
        return loss

    kept = type(trainer_class.__name__, (trainer_class,), {"compute_loss": compute_loss})
    return kept


def run(*args: Any, **kwargs: Any) -> Any:
    trainer = make(*args, **kwargs)
    trainer.train()
    return trainer
