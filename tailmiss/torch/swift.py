"""ms-swift: a mixin for its GRPOTrainer.

Write a file, pass it by ``--external_plugins``, and in it

    from swift.rlhf_trainers import GRPOTrainer
    from swift.trainers import TrainerFactory
    class Trainer(FocalMixin, GRPOTrainer):
        gamma, success, threshold = 0.5, "accuracy", 1.0
    TrainerFactory.TRAINER_MAPPING["grpo"] = "my_plugin.Trainer"
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._outcome import first_scored, successes
from .focal import focal_weights


class FocalMixin:
    """Multiplies ``_compute_advantages`` by focal weights; stands before GRPOTrainer.

    ``success`` names the reward function that says what is correct; ``threshold`` as everywhere.
    With varying numbers of samples the group is the prompt id, and rows of one request count once.
    """

    gamma: float = 0.5
    success: str | None = None
    threshold: float | None = None

    # What the trainer brings.
    reward_func_names: list[str]
    dynamic_num_samples: bool
    model: Any
    num_generations: int
    num_generations_eval: int

    def _compute_advantages(self, samples: Any, rewards_per_func: Tensor, *args: Any) -> Tensor:
        advantages = super()._compute_advantages(samples, rewards_per_func, *args)  # type: ignore[misc]
        names = list(self.reward_func_names)
        if self.success not in names and (self.success is not None or len(names) > 1):
            raise ValueError(f"success must be one of {', '.join(names)}; got {self.success!r}")
        column = 0 if self.success is None else names.index(self.success)
        flags = successes(rewards_per_func[:, column], self.threshold)
        groups, scored = self._groups(samples, flags)
        return advantages * focal_weights(flags, groups, self.gamma, scored=scored).to(advantages)

    def _groups(self, samples: Any, flags: Tensor) -> tuple[Any, Tensor]:
        scored = ~flags.isnan()
        if not self.dynamic_num_samples:
            training = self.model.training
            size = self.num_generations if training else self.num_generations_eval
            return torch.arange(len(flags), device=flags.device) // size, scored
        from accelerate.utils import gather_object

        prompts = gather_object([sample.prompt_id for sample in samples])
        requests = gather_object([sample.request_id for sample in samples])
        return prompts, first_scored(requests, scored)
