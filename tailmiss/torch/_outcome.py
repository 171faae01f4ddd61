"""What every leaf module does: rewards to success flags, and a trainer's own advantages weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .focal import focal_weights


def successes(rewards: Tensor, threshold: float | None, setting: str = "threshold") -> Tensor:
    """Flags 1 / 0 of rewards at or above the threshold; NaN where the reward is NaN, unscored.

    Without a threshold rewards must be 0 or 1: anything else is refused in the name of `setting`.
    """
    rewards = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    unscored = rewards.isnan()
    if threshold is None:
        binary = unscored | (rewards == 0) | (rewards == 1)
        if not bool(binary.all()):
            row = int((~binary).nonzero()[0])
            raise ValueError(
                f"{setting} is missing: rollout {row} has reward {rewards[row].item():g}, so what"
                " counts as correct is unknown"
            )
        threshold = 1.0
    return (rewards >= threshold).to(rewards.dtype).masked_fill(unscored, torch.nan)


def weighed_grpo(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Iterable[Any],
    plain: Callable[..., tuple[Tensor, Any]],
    *,
    gamma: float,
    threshold: float | None,
    setting: str,
) -> tuple[Tensor, Tensor]:
    """A trainer's outcome advantage of the scored rows times their focal weights; 0 elsewhere."""
    rewards = token_level_rewards.to(torch.promote_types(token_level_rewards.dtype, torch.float32))
    sums, uids = rewards.sum(-1), np.asarray(index)
    scored = ~sums.isnan()
    weights = focal_weights(successes(sums, threshold, setting), uids, gamma)
    advantages = rewards.new_zeros(response_mask.shape)
    advantages[scored] = plain(
        token_level_rewards=rewards[scored],
        response_mask=response_mask[scored],
        index=uids[scored.cpu().numpy()],
    )[0]
    advantages = advantages * weights.unsqueeze(-1)
    return advantages, advantages
