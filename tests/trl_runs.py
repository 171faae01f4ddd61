"""Short runs of TRL's trainers on a random Qwen2 of 84 thousand parameters, no network.

As a program, one process of ``torchrun --nproc-per-node 2 trl_runs.py``.
"""

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


def starts_even(completions: list[str], **_: Any) -> list[float]:
    """About a third of random completions succeed, so groups of every kind occur."""
    return [float(text[:1] in list("02468")) for text in completions]


def length(completions: list[str], **_: Any) -> list[float]:
    return [len(text) / 10 for text in completions]


def sometimes(completions: list[str], **_: Any) -> list[float | None]:
    """Unscored for some completions."""
    return [
        None if text[1:2] in list("159") else float(text[:1] in list("02468"))
        for text in completions
    ]


class WeighedGRPO(TailMissMixin, GRPOTrainer):
    pass


class WeighedRLOO(TailMissMixin, RLOOTrainer):
    pass


def hand_weights(rewards: torch.Tensor, gamma: float, threshold: float = 1.0, size: int = G) -> Any:
    """Focal weights by loops: (1 - share of successes among the scored)^gamma, group by group."""
    weights = []
    for start in range(0, len(rewards), size):
        scored = [r for r in rewards[start : start + size].tolist() if r == r]
        right = sum(r >= threshold for r in scored)
        share = 1 - right / len(scored) if scored else 0.0
        weights += [share**gamma if gamma else 1.0] * size
    return torch.tensor(weights)


def by_hand(trainer_class: type, gamma: float) -> type:
    """The trainer with its advantages multiplied by hand."""

    class Reference(trainer_class):
        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            self.seen = super()._calculate_rewards(*args, **kwargs)
            return self.seen

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            rows = len(output["advantages"])
            first = self.accelerator.process_index * rows
            output["advantages"] *= hand_weights(self.seen[:, 0], gamma)[first : first + rows]
            return output

    return Reference


class Spied(GRPOTrainer):
    """Stands below the mixin and keeps what it is given: rewards and plain advantages."""

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.seen = super()._calculate_rewards(*args, **kwargs)
        self.__dict__.setdefault("rewards", []).append(self.seen)
        return self.seen

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.__dict__.setdefault("plain", []).append(output["advantages"].clone())
        return output


class WeighedSpied(TailMissMixin, Spied):
    pass


def make(
    trainer_class: type = GRPOTrainer,
    *,
    reward_funcs: Any = starts_even,
    tailmiss: TailMissConfig | None = None,
    seed: int = 0,
    **settings: Any,
) -> Any:
    """A trainer on CPU in float32 that keeps its `losses` and its scored `batches`."""
    config_class = RLOOConfig if issubclass(trainer_class, RLOOTrainer) else GRPOConfig
    rng = np.random.default_rng(seed)
    prompts = [f"{a}+{b}=" for a, b in rng.integers(0, 10, (64, 2))]
    dataset = Dataset.from_dict({"prompt": prompts})
    defaults: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(),
        "max_steps": 3,
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "num_generations": G,
        "max_completion_length": 5,
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
    return keeping(trainer_class)(
        model=new_model(seed=seed),
        reward_funcs=reward_funcs,
        args=config_class(**(defaults | settings)),
        train_dataset=dataset,
        eval_dataset=dataset.select(range(8)),
        processing_class=tokenizer(),
        **extra,
    )


def keeping(trainer_class: type) -> type:
    """The class, with every loss and every scored batch kept as the trainer makes it."""

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        self.losses, self.batches = [], []
        super(kept, self).__init__(*args, **kwargs)

    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super(kept, self).compute_loss(*args, **kwargs)
        self.losses.append(loss.item())
        return loss

    def score(self: Any, inputs: Any) -> Any:
        output = super(kept, self)._generate_and_score_completions(inputs)
        self.batches.append(output)
        return output

    kept = type(
        trainer_class.__name__,
        (trainer_class,),
        {
            "__init__": start,
            "compute_loss": compute_loss,
            "_generate_and_score_completions": score,
        },
    )
    return kept


def run(*args: Any, **kwargs: Any) -> Any:
    trainer = make(*args, **kwargs)
    trainer.train()
    return trainer


def two_ranks(**settings: Any) -> None:
    """Groups of four over two processes of two rollouts each: every group straddles both."""
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2} | settings
    weighed = run(WeighedGRPO, tailmiss=TailMissConfig(gamma=1.5), **settings)
    reference = run(by_hand(GRPOTrainer, 1.5), **settings)
    assert weighed.accelerator.num_processes == 2
    np.testing.assert_allclose(weighed.losses, reference.losses, rtol=0, atol=1e-6)
    for ours, theirs in zip(weighed.batches, reference.batches, strict=True):
        assert torch.equal(ours["advantages"], theirs["advantages"])
    mean_weight = weighed.state.log_history[0]["tailmiss/mean_weight"]
    everywhere = weighed.accelerator.gather(torch.tensor([mean_weight]))
    assert everywhere[0] == everywhere[1]
    mine = weighed.accelerator.gather(weighed.batches[-1]["advantages"]).tolist()
    assert list(weighed._logs["advantages"]) == mine


if __name__ == "__main__":
    torch.set_num_threads(1)
    two_ranks(max_steps=20)
    plain, zero = run(GRPOTrainer), run(WeighedGRPO, tailmiss=TailMissConfig(gamma=0))
    assert zero.losses == plain.losses
    print("two ranks agree")
