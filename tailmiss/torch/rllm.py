"""rllm: the advantage estimator ``focal_grpo``.

    import tailmiss.torch.rllm
    tailmiss.torch.rllm.register(gamma=0.5, threshold=1.0)

before the trainer is built, then ``rllm.algorithm.adv_estimator=focal_grpo``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._outcome import check_settings, successes
from .focal import focal_weights


def register(gamma: float = 0.5, threshold: float | None = None, base: str = "grpo") -> None:
    """Register "focal_grpo": rllm's estimator `base`, each group times its focal weight.

    Parameters
    ----------
    gamma : float >= 0
        Exponent of the focal weight.
    threshold : float, optional
        A trajectory is correct if its reward is at least this; without it rewards must be 0 or 1.
    base : str
        Name of the registered estimator to weigh.

    Raises
    ------
    ValueError
        gamma negative or not finite; threshold no number. During training: no threshold, and a
        reward that is neither 0 nor 1.

    Notes
    -----
    rllm reads every name in its YAML that it does not know as "other", so the estimator is
    registered under that name too. Held by tests/test_trainers.py on a stub of rllm's registry.
    """
    check_settings(gamma, threshold)
    from rllm.trainer.algorithms.advantage import (
        get_rllm_adv_estimator,
        register_rllm_adv_estimator,
    )

    plain = get_rllm_adv_estimator(base)

    @register_rllm_adv_estimator("other")
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
