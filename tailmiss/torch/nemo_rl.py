"""NeMo-RL: its advantage estimators, weighed.

NeMo-RL has no registry: call :func:`install` before ``grpo_train``.

    import tailmiss.torch.nemo_rl
    tailmiss.torch.nemo_rl.install(gamma=0.5, threshold=1.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._outcome import check_settings, successes
from .focal import focal_weights


@dataclass(frozen=True)
class FocalEstimator:
    """Any estimator of NeMo-RL with its advantages times the focal weight of the prompt.

    Groups are the equal rows of ``prompt_ids``, as in NeMo-RL: prompts of one text are one group.
    Success is read off ``rewards`` as the estimator gets them, after reward shaping; set the
    threshold below a penalised success.
    """

    inner: Any
    gamma: float = 0.5
    threshold: float | None = None

    def compute_advantage(
        self, prompt_ids: Tensor, rewards: Tensor, mask: Tensor, **kwargs: Any
    ) -> Tensor:
        advantages = self.inner.compute_advantage(
            prompt_ids=prompt_ids, rewards=rewards, mask=mask, **kwargs
        )
        rows = prompt_ids.reshape(len(prompt_ids), -1)
        groups = torch.unique(rows, dim=0, return_inverse=True)[1]
        weights = focal_weights(successes(rewards, self.threshold), groups, self.gamma)
        return advantages * weights.to(advantages).unsqueeze(-1)


def install(gamma: float = 0.5, threshold: float | None = None) -> None:
    """Let NeMo-RL's GRPO build its estimators weighed. Calling it twice changes the settings.

    Parameters
    ----------
    gamma : float >= 0
        Exponent of the focal weight.
    threshold : float, optional
        A rollout is correct if its shaped reward is at least this; without it rewards must be 0 or
        1.

    Raises
    ------
    ValueError
        gamma negative or not finite; threshold no number. During training: no threshold, and a
        reward that is neither 0 nor 1.

    Notes
    -----
    Held by tests/test_trainers.py on a stub of NeMo-RL's signatures.
    """
    check_settings(gamma, threshold)
    from nemo_rl.algorithms import grpo

    create = getattr(grpo._create_advantage_estimator, "plain", grpo._create_advantage_estimator)

    def weighed(*args: Any, **kwargs: Any) -> FocalEstimator:
        return FocalEstimator(create(*args, **kwargs), gamma, threshold)

    weighed.plain = create  # type: ignore[attr-defined]
    grpo._create_advantage_estimator = weighed
