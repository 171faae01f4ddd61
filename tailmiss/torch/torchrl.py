"""torchrl: MCAdvantage with the focal weight.

from tailmiss.torch.torchrl import FocalMCAdvantage
FocalMCAdvantage(grpo_size=8, trajectory_return="sum", gamma=0.5)
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.objectives.llm import MCAdvantage

from ._outcome import check_settings, successes
from .focal import focal_weights


class FocalMCAdvantage(MCAdvantage):
    """MCAdvantage whose group-relative advantages are times the focal weight of the group.

    Parameters
    ----------
    gamma : float >= 0
    threshold : float, optional
        A trajectory is correct if its return is at least this; without it returns must be 0 or 1.
    **kwargs
        MCAdvantage's, with a ``trajectory_return``: success belongs to a trajectory, not a step.

    Raises
    ------
    ValueError
        No ``trajectory_return``; gamma negative or not finite; threshold no number. During
        training: no threshold, and a return that is neither 0 nor 1.
    """

    def __init__(
        self, *args: Any, gamma: float = 0.5, threshold: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.trajectory_return is None:
            raise ValueError(
                'trajectory_return must be "sum", "max" or "mean": success belongs to a trajectory'
            )
        check_settings(gamma, threshold)
        self.gamma, self.threshold = gamma, threshold

    def _trajectory_advantage(self, trajs: list[TensorDictBase]) -> TensorDictBase | None:
        group = super()._trajectory_advantage(trajs)
        if group is None:
            return None
        kept = [traj for traj in trajs if self.advantage_key in traj.keys(include_nested=True)]
        returns = self._trajectory_returns([traj.get(self.rewards_key) for traj in kept])
        flags = successes(returns.flatten(), self.threshold)
        weight = focal_weights(flags, torch.zeros_like(flags, dtype=torch.int64), self.gamma)[0]
        group.set(self.advantage_key, group.get(self.advantage_key) * weight)
        return group
