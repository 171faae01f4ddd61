"""verl: the estimator ``focal_grpo`` and ReCo's policy losses, registered by importing this module.

verl imports it by itself in every process, through the entry point ``verl.plugins``. Then

    algorithm.adv_estimator=focal_grpo  +algorithm.focal_gamma=0.5
    actor_rollout_ref.actor.policy_loss.loss_mode=reco

============================ ============================== ======================================
loss_mode                    response weight                ratio
============================ ============================== ======================================
reco_response                yes                            verl's vanilla PPO
reco_variance                no                             variance ratio, clipped as PPO
reco                         yes                            variance ratio, clipped as PPO
reco_none, reco_cispo,       yes; no under the names        the other modes of
reco_ratio_mask              reco_variance_none, ...        ``tailmiss.torch.token_coefficients``
============================ ============================== ======================================
"""

from __future__ import annotations

import logging
import warnings
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ._outcome import masked_mean, weighed_grpo
from .reco import MODES, reco_loss, response_weights, token_coefficients

try:
    from verl.trainer.ppo.core_algos import (
        agg_loss,
        compute_grpo_outcome_advantage,
        compute_policy_loss_vanilla,
        register_adv_est,
        register_policy_loss,
    )
except ImportError:
    # verl reports a failed plugin at DEBUG level only, and trains on without it.
    logging.getLogger(__name__).exception("tailmiss cannot register itself with this verl")
    raise


def focal_grpo(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: np.ndarray,
    config: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    r"""verl's GRPO advantage times the focal weight of the prompt.

    Parameters
    ----------
    token_level_rewards : tensor (bs, T)
        A rollout is correct if its row sum is at least ``config.focal_threshold``. The sum holds
        every penalty of the reward manager: choose the threshold below a penalised success.
    response_mask : tensor (bs, T)
    index : array (bs,) of uids
        Rollouts of one prompt share a uid; any order, any sizes.
    config : mapping, optional
        The algorithm section: ``focal_gamma`` (0.5), ``focal_threshold`` (none: sums must be 0 or
        1), ``norm_adv_by_std_in_grpo`` (True).

    Returns
    -------
    advantages, returns : tensors (bs, T), the same

    Raises
    ------
    ValueError
        ``use_kl_in_reward``: the sum would hold the KL penalty. No threshold, and a sum that is
        neither 0 nor 1. gamma negative.

    Notes
    -----
    Equal to ``compute_grpo_outcome_advantage`` times ``focal_weights`` (tests/verl). A row whose
    sum is NaN counts as unscored: advantage 0, and no part of its group's mean. One scored row
    alone keeps verl's value, its raw reward, times the weight. Rewards below float32 are widened
    first. verl merges the rows of multi-output agent sessions for the name
    "grpo" only: with them every row counts here.
    """
    get = (config or {}).get
    if get("use_kl_in_reward", False):
        raise ValueError(
            "focal_grpo needs algorithm.use_kl_in_reward=False: success is read off the summed"
            " reward, which would hold the KL penalty"
        )
    return weighed_grpo(
        token_level_rewards,
        response_mask,
        index,
        partial(
            compute_grpo_outcome_advantage,
            norm_adv_by_std_in_grpo=get("norm_adv_by_std_in_grpo", True),
        ),
        gamma=get("focal_gamma", 0.5),
        threshold=get("focal_threshold", None),
        setting="algorithm.focal_threshold",
    )


def reco_policy_loss(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
    *,
    response: bool,
    mode: str | None,
) -> tuple[Tensor, dict[str, Any]]:
    """ReCo's loss in verl's signature; ``mode`` None keeps verl's own PPO loss.

    Parameters
    ----------
    old_log_prob, log_prob, advantages, response_mask : tensors (bs, T)
        A micro-batch; it may hold any part of a group.
    loss_agg_mode, config, rollout_is_weights
        As verl passes them. Clip range: ``clip_ratio_low`` and ``clip_ratio_high``.
    response : bool
        Multiply advantages by the response weights relative to 1/G, capped at 5. Not normalised
        over the group, which a micro-batch may split.
    mode : str, optional
        A mode of :func:`tailmiss.torch.token_coefficients`.

    Returns
    -------
    loss : 0-d tensor; metrics : dict of floats
    """
    mask = response_mask.bool()
    metrics: dict[str, Any] = {}
    if response:
        weights = response_weights(old_log_prob, mask, 1)
        advantages = advantages * weights.unsqueeze(-1)
        metrics["tailmiss/response_weight"] = weights.mean().item()
    if mode is None:
        loss, vanilla = compute_policy_loss_vanilla(
            old_log_prob,
            log_prob,
            advantages,
            response_mask,
            loss_agg_mode,
            config,
            rollout_is_weights,
        )
        return loss, vanilla | metrics
    _warn_if_one_epoch(config)
    clip = {
        "clip_low": config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low,
        "clip_high": config.clip_ratio
        if config.clip_ratio_high is None
        else config.clip_ratio_high,
    }
    # What stands at padding, NaN included, must reach neither the loss nor a gradient.
    log_prob, old_log_prob = (part.masked_fill(~mask, 0) for part in (log_prob, old_log_prob))
    losses = reco_loss(log_prob, old_log_prob, advantages, mode=mode, **clip)
    if rollout_is_weights is not None:
        losses = losses * rollout_is_weights
    loss = agg_loss(
        loss_mat=losses,
        loss_mask=response_mask,
        loss_agg_mode=loss_agg_mode,
        **config.global_batch_info,
    )
    used = token_coefficients(log_prob, old_log_prob, advantages, mode=mode, **clip)
    metrics |= {
        "actor/pg_clipfrac": masked_mean(used == 0, mask),
        "actor/pg_clipfrac_lower": 0.0,
        "actor/ppo_kl": masked_mean(old_log_prob - log_prob.detach(), mask),
        "tailmiss/token_coefficient": masked_mean(used, mask),
    }
    return loss, metrics


_warned = False


def _warn_if_one_epoch(config: Any) -> None:
    global _warned
    if not _warned and config.get("ppo_epochs", 1) == 1:
        _warned = True
        warnings.warn(
            "ReCo's variance ratio acts from the second update on a rollout batch on: with"
            " ppo_epochs=1 it needs ppo_mini_batch_size below data.train_batch_size, else it is 1"
            " throughout",
            UserWarning,
            stacklevel=3,
        )


def register() -> None:
    """Put the estimator and the losses into verl's registries; importing this module does it."""
    register_adv_est("focal_grpo")(focal_grpo)
    losses: dict[str, tuple[bool, str | None]] = {
        "reco_response": (True, None),
        "reco": (True, "ppo"),
        "reco_variance": (False, "ppo"),
    }
    for mode in MODES:
        losses[f"reco_{mode}"], losses[f"reco_variance_{mode}"] = (True, mode), (False, mode)
    for name, (response, ratio) in losses.items():
        register_policy_loss(name)(partial(reco_policy_loss, response=response, mode=ratio))


register()
