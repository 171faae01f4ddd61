"""slime: two functions that its command line takes by name.

    --custom-reward-post-process-path tailmiss.torch.slime.focal_rewards
    --custom-advantage-function-path tailmiss.torch.slime.reco_advantages      (ReCo's weight)

Settings are attributes of its arguments, as ``--custom-config-path`` sets them: ``focal_gamma``
(0.5), ``focal_threshold`` (none: rewards are 0 or 1), ``reco_cap`` (5).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from ._outcome import first_scored, successes
from .focal import focal_weights
from .reco import response_weights


def focal_rewards(args: Any, samples: list[Any]) -> tuple[list[Any], list[float]]:
    """Raw rewards, and GRPO's normalised ones times the focal weight of the prompt.

    Parameters
    ----------
    args : slime's arguments
        ``focal_gamma``, ``focal_threshold``, and slime's ``grpo_std_normalization`` (True).
    samples : list of slime's Sample, of length B
        Groups are ``group_index``, of any size. Several samples with one ``rollout_id`` are one
        rollout and count once. A reward of None is unscored: 0, and no part of its group.

    Returns
    -------
    raw : list of B rewards as they came
    rewards : list of B floats
        Less the group's mean, over its std (ddof 1, + 1e-6) if ``grpo_std_normalization``, times
        the focal weight.

    Raises
    ------
    ValueError
        ``focal_gamma`` or ``focal_threshold`` out of range; no threshold, and a reward that is
        neither 0 nor 1.

    Notes
    -----
    [FGRPO] v2, Eq. 12. Held by tests/test_trainers.py and tests/test_trainer_bugs.py on stubs.
    """
    raw = [sample.get_reward_value(args) for sample in samples]
    values = torch.tensor([torch.nan if r is None else r for r in raw], dtype=torch.float64)
    groups = [sample.group_index for sample in samples]
    first = first_scored(map(_rollout, samples), ~values.isnan())
    flags = successes(values, getattr(args, "focal_threshold", None), "focal_threshold")
    gamma = getattr(args, "focal_gamma", 0.5)
    weights = focal_weights(flags, groups, gamma, scored=first)
    rewards = torch.zeros_like(values)
    members = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    for rows in members.values():
        counted = values[rows][first[rows]]
        if len(counted) and counted.max() > counted.min():  # a std of equal rewards is rounding
            scale = counted.std() + 1e-6 if getattr(args, "grpo_std_normalization", True) else 1.0
            rewards[rows] = (values[rows] - counted.mean()) / scale
    return raw, (rewards * weights).nan_to_num(nan=0.0).tolist()


def _rollout(sample: Any) -> tuple[Any, Any] | None:
    rollout = getattr(sample, "rollout_id", None)
    return None if rollout is None else (sample.group_index, rollout)


def reco_advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """Set ``advantages`` and ``returns``: the reward of each sample times its response weight.

    Parameters
    ----------
    args : slime's arguments
        ``reco_cap``, and slime's ``use_rollout_logprobs``.
    rollout_data : dict of slime's lists over samples
        ``rewards`` after :func:`focal_rewards`; ``log_probs`` of the trainer, or under
        ``--use-rollout-logprobs`` ``rollout_log_probs``, each (T_i,); ``loss_masks``. Nothing
        happens on pipeline stages that hold no log-probabilities.

    Raises
    ------
    ValueError
        ``reco_cap`` below 1; a mask longer than its log-probabilities, as under context
        parallelism.

    Notes
    -----
    [RECO] v1; the weight is relative to 1/G. Held by tests/test_trainers.py on stubs.
    """
    by_engine = getattr(args, "use_rollout_logprobs", False)
    held = rollout_data.get("rollout_log_probs" if by_engine else "log_probs")
    if held is None:
        return
    advantages = []
    for reward, logps, mask in zip(
        rollout_data["rewards"], held, rollout_data["loss_masks"], strict=True
    ):
        mask = torch.as_tensor(mask, device=logps.device)
        weight = response_weights(logps[None], mask[None], 1, cap=getattr(args, "reco_cap", 5.0))
        advantages.append(torch.full_like(logps, reward) * weight)
    rollout_data["advantages"], rollout_data["returns"] = advantages, advantages
