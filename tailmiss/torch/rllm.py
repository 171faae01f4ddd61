"""rllm: the advantage estimator ``focal_grpo``.

    import tailmiss.torch.rllm
    tailmiss.torch.rllm.register(gamma=0.5, threshold=1.0)

before the trainer is built, then ``rllm.algorithm.adv_estimator=focal_grpo``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._outcome import successes
from .focal import focal_weights


def register(gamma: float = 0.5, threshold: float | None = None, base: str = "grpo") -> None:
    """Register "focal_grpo": rllm's estimator `base`, each group times its focal weight.

    A trajectory is correct if its reward is at least the threshold; without one, rewards must be 0
    or 1.
    """
    from rllm.trainer.algorithms.advantage import (
        get_rllm_adv_estimator,
        register_rllm_adv_estimator,
    )

    plain = get_rllm_adv_estimator(base)

    @register_rllm_adv_estimator("focal_grpo")
    def focal_grpo(
        rewards: list[np.ndarray], algorithm_config: Any, **kwargs: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        advantages, _returns = plain(rewards=rewards, algorithm_config=algorithm_config, **kwargs)
        weighed = [
            group * float(_weight(torch.as_tensor(group_rewards, dtype=torch.float64)))
            for group, group_rewards in zip(advantages, rewards, strict=True)
        ]
        return weighed, weighed

    def _weight(group_rewards: torch.Tensor) -> torch.Tensor:
        flags = successes(group_rewards, threshold)
        one_group = torch.zeros(len(flags), dtype=torch.int64)
        return focal_weights(flags, one_group, gamma)[:1].sum()
