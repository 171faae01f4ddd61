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
    """Sum over one sequence's tokens of :func:`tailmiss.torch.reco_loss`, as ``LossOutputs``.

    Parameters
    ----------
    inputs : LossInputs
        prime-rl's, of one sequence: log-probabilities of trainer and engine, advantages and mask,
        each (T,).
    mode, clip_low, clip_high
        As for :func:`tailmiss.torch.token_coefficients`; `ratio_cap` is its cap.
    response : bool
        Multiply the advantages by the response weight relative to 1/G, at most `response_cap`.

    Returns
    -------
    LossOutputs
        The sum, 0 for a sequence without tokens, and the metrics ``response_weight`` and
        ``token_coefficient``.

    Raises
    ------
    ValueError
        As :func:`tailmiss.torch.token_coefficients` and :func:`tailmiss.torch.response_weights`.

    Notes
    -----
    [RECO] v1. Held by tests/test_trainers.py on a stub of prime-rl's classes.
    """
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
