"""AReaL: its PPO actor, weighed. It has no hook: put the class in its place.

import areal.trainer.ppo.actor as areal
class Actor(FocalMixin, areal.PPOActor):
    gamma, threshold = 0.5, 1.0
areal.PPOActor = Actor
"""

from __future__ import annotations

from typing import Any

import torch

from ._outcome import successes
from .focal import focal_weights


class FocalMixin:
    """Multiplies ``data["advantages"]`` by focal weights; stands before PPOActor.

    Success is read off ``data["rewards"]`` before penalties and scaling. AReaL carries no group
    ids: groups are ``group_size`` neighbours, as in its own reward normalisation, whose size is the
    default.
    """

    gamma: float = 0.5
    threshold: float | None = None
    group_size: int | None = None
    config: Any  # the actor's own

    def _compute_advantages(self, data: dict[str, Any]) -> dict[str, Any]:
        rewards = data["rewards"].clone()
        size = self.group_size or getattr(self.config.reward_norm, "group_size", None) or 1
        if size < 2:
            raise ValueError(f"group_size must be the rollouts per prompt, at least 2; got {size}")
        if len(rewards) % size:
            raise ValueError(f"{len(rewards)} rewards are not whole groups of {size}")
        data = super()._compute_advantages(data)  # type: ignore[misc]
        groups = torch.arange(len(rewards), device=rewards.device) // size
        weights = focal_weights(successes(rewards, self.threshold), groups, self.gamma)
        data["advantages"] = data["advantages"] * weights.to(data["advantages"])[:, None]
        return data
