"""OpenRLHF: its experience maker, weighed. It has no hook: put the class in its place.

import openrlhf.trainer.ppo_trainer as ppo
class Maker(FocalMixin, ppo.RemoteExperienceMaker):
    gamma, threshold = 0.5, 1.0
ppo.RemoteExperienceMaker = Maker
"""

from __future__ import annotations

from typing import Any

import torch

from ._outcome import successes
from .focal import focal_weights


class FocalMixin:
    """Multiplies ``experience.advantages`` by focal weights; stands before RemoteExperienceMaker.

    Success is read off the rewards before length penalties. Groups are ``index //
    n_samples_per_prompt``, over all experiences of the batch.
    """

    gamma: float = 0.5
    threshold: float | None = None
    strategy: Any  # the maker's own

    def compute_advantages_and_returns(self, experiences: list[Any]) -> list[Any]:
        sizes = [len(experience.index) for experience in experiences]
        rewards = torch.cat([experience.rewards for experience in experiences])
        index = torch.tensor([i for experience in experiences for i in experience.index])
        size = self.strategy.args.rollout.n_samples_per_prompt
        weights = focal_weights(successes(rewards, self.threshold), index // size, self.gamma)
        experiences = super().compute_advantages_and_returns(experiences)  # type: ignore[misc]
        for experience, mine in zip(experiences, weights.split(sizes), strict=True):
            experience.advantages = experience.advantages * mine.to(experience.advantages)[:, None]
        return experiences
