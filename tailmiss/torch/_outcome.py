"""What leaf modules share.

Rewards to success flags, rollouts of several rows, a trainer's own advantages weighed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .focal import check_gamma, focal_weights


def successes(rewards: Tensor, threshold: float | None, setting: str = "threshold") -> Tensor:
    """Flags 1 / 0 of rewards at or above the threshold; NaN where the reward is NaN, unscored.

    Without a threshold rewards must be 0 or 1: anything else is refused in the name of `setting`.
    """
    threshold = _rounded(threshold, rewards.dtype, setting)
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


def check_settings(gamma: float, threshold: float | None) -> None:
    """What every adapter is given, looked at before training starts."""
    check_gamma(gamma)
    check_threshold(threshold, "threshold")


def check_threshold(threshold: float | None, setting: str) -> None:
    if threshold is not None and not (isinstance(threshold, Real) and threshold == threshold):
        raise ValueError(f"{setting} must be a number; got {threshold!r}")


def _rounded(threshold: float | None, dtype: torch.dtype, setting: str) -> float | None:
    """The threshold in the rewards' precision, so that a reward equal to it still reaches it."""
    check_threshold(threshold, setting)
    if threshold is None or not dtype.is_floating_point:
        return threshold
    return torch.tensor(float(threshold), dtype=dtype).item()


def first_scored(rollouts: Iterable[Hashable], scored: Tensor) -> Tensor:
    """The first scored row of every rollout; a row whose rollout is None stands for itself."""
    seen: set[Hashable] = set()
    first = []
    for rollout, known in zip(rollouts, scored.tolist(), strict=True):
        first.append(known and (rollout is None or rollout not in seen))
        if known:
            seen.add(rollout)
    return torch.tensor(first, dtype=torch.bool, device=scored.device)


def masked_mean(values: Tensor, mask: Tensor) -> float:
    """Mean under a bool mask, for a log; 0 where nothing is left, as in trainers' own means."""
    kept = values[mask].float()
    return kept.sum().item() / max(kept.numel(), 1)


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
    threshold = _rounded(threshold, token_level_rewards.dtype, setting)
    rewards = token_level_rewards.to(torch.promote_types(token_level_rewards.dtype, torch.float32))
    sums, uids = rewards.sum(-1), np.asarray(index)
    scored = ~sums.isnan()
    weights = focal_weights(successes(sums, threshold, setting), uids, gamma)
    advantages = rewards.new_zeros(response_mask.shape)
    advantages[scored] = plain(
        token_level_rewards=rewards[scored],
        response_mask=response_mask[scored],
        index=uids[scored.cpu().numpy()],
    )[0].to(rewards)
    advantages = advantages * weights.unsqueeze(-1)
    return advantages, advantages
