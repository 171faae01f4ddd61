"""prime-rl: ReCo as a custom loss.

    [trainer.loss]
    type = "custom"
    import_path = "tailmiss.torch.prime_rl.reco"
    kwargs = { mode = "ppo", response = true }

prime-rl computes advantages before this function and has no hook there, so the focal weight is not
available. Its old log-probabilities are those of the inference engine: where engine and trainer
disagree, p (1 - p) magnifies it at p near 1; the mode "ratio_mask" is the safest.
"""

from __future__ import annotations

from typing import Any

from .reco import RATIO_CAP, reco_loss, response_weights, token_coefficients


def reco(
    inputs: Any,
    mode: str = "ppo",
    response: bool = True,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    response_cap: float = 5.0,
    ratio_cap: float = RATIO_CAP,
) -> Any:
    """Sum over one sequence's tokens of :func:`tailmiss.torch.reco_loss`, as ``LossOutputs``."""
    from prime_rl.trainer.rl.loss import LossOutputs

    mask = inputs.loss_mask.bool()
    logps, old = inputs.trainer_logprobs[mask][None], inputs.inference_logprobs[mask][None]
    A = inputs.advantages[mask][None]
    metrics = {}
    if response:
        weight = response_weights(old, mask[mask][None], 1, cap=response_cap)
        A = A * weight
        metrics["response_weight"] = weight[0]
    options: dict[str, Any] = {
        "mode": mode,
        "clip_low": clip_low,
        "clip_high": clip_high,
        "cap": ratio_cap,
    }
    losses = reco_loss(logps, old, A, **options)
    if getattr(inputs, "loss_weights", None) is not None:
        losses = losses * inputs.loss_weights[mask]
    if mask.any():
        metrics["token_coefficient"] = token_coefficients(logps, old, A, **options).mean()
    return LossOutputs(loss=losses.sum(), metrics=metrics)
