"""SkyRL: the estimator ``focal_grpo`` and ReCo's policy losses.

    import tailmiss.torch.skyrl
    tailmiss.torch.skyrl.register(gamma=0.5, threshold=1.0)

in the entry point, before ``ray.init`` (SkyRL carries its registries to the workers), then
``trainer.algorithm.advantage_estimator=focal_grpo`` and ``policy_loss_type=reco``,
``reco_variance`` or ``reco_response``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from .. import _validate as check
from ._outcome import check_settings, masked_mean, weighed_grpo
from .reco import MODES, reco_loss, response_weights, token_coefficients


def register(gamma: float = 0.5, threshold: float | None = None, mode: str = "ppo") -> None:
    """Register the estimator and the losses.

    Parameters
    ----------
    gamma : float >= 0
        Exponent of the focal weight.
    threshold : float, optional
        A rollout is correct if its summed reward is at least this; without it sums must be 0 or 1.
    mode : str
        What "reco" and "reco_variance" do with the ratio: one of ``tailmiss.torch.MODES``.

    Raises
    ------
    ValueError
        gamma negative or not finite; threshold no number; an unknown mode. During training: no
        threshold, and a sum that is neither 0 nor 1.

    Notes
    -----
    SkyRL scales advantages for the loss reduction beforehand, so losses are summed. The response
    weight is relative to 1/G and capped at 5. Held by tests/test_trainers.py on a stub of SkyRL's
    registries.
    """
    check_settings(gamma, threshold)
    check.one_of("mode", mode, MODES)
    from skyrl.backends.skyrl_train.utils import ppo_utils as skyrl

    @skyrl.register_advantage_estimator("focal_grpo")
    def focal_grpo(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any,
        grpo_norm_by_std: bool = True,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        return weighed_grpo(
            token_level_rewards,
            response_mask,
            index,
            partial(skyrl.compute_grpo_outcome_advantage, grpo_norm_by_std=grpo_norm_by_std),
            gamma=gamma,
            threshold=threshold,
            setting="threshold",
        )

    def loss(
        log_probs: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        config: Any,
        loss_mask: Tensor | None = None,
        rollout_logprobs: Tensor | None = None,
        *,
        response: bool,
        ratio: bool,
    ) -> tuple[Tensor, dict[str, float]]:
        mask = log_probs.new_ones(log_probs.shape) if loss_mask is None else loss_mask
        metrics: dict[str, float] = {}
        if response:
            weights = response_weights(old_log_probs, mask, 1)
            advantages = advantages * weights.unsqueeze(-1)
            metrics["response_weight"] = weights.mean().item()
        if not ratio:
            regular, more = skyrl.ppo_policy_loss(
                log_probs, old_log_probs, advantages, config, loss_mask, rollout_logprobs
            )
            return regular, more | metrics
        clip = {"mode": mode, "clip_low": config.eps_clip_low, "clip_high": config.eps_clip_high}
        kept = mask.bool()  # NaN at padding must not reach a gradient
        new, old = (part.masked_fill(~kept, 0) for part in (log_probs, old_log_probs))
        losses = reco_loss(new, old, advantages, **clip)
        losses, mask, more = skyrl.apply_off_policy_correction(
            losses, old_log_probs, rollout_logprobs, mask, config.off_policy_correction
        )
        used = token_coefficients(new, old, advantages, **clip)
        metrics["clip_ratio"] = masked_mean(used == 0, mask.bool())
        return skyrl.reduce_loss(losses, mask), more | metrics

    for name, response, ratio in (
        ("reco", True, True),
        ("reco_variance", False, True),
        ("reco_response", True, False),
    ):
        skyrl.register_policy_loss(name)(
            _named(name, partial(loss, response=response, ratio=ratio))
        )


def _named(name: str, function: Any) -> Any:
    function.__name__ = name  # functools.wraps in SkyRL reads it
    return function
