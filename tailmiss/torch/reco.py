"""ReCo's two levels: a weight per response, and the variance ratio per token."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..weights import response_weight
from . import _groups

MODES = ("none", "ppo", "cispo", "ratio_mask")
# Our choices, where the paper gives no number: 1 - p is kept above SATURATION on both sides of the
# ratio, and no token counts more than RATIO_CAP times.
SATURATION = 1e-6
RATIO_CAP = 10.0


def response_weights(
    old_logps: Tensor,
    mask: Tensor,
    group_size: int,
    *,
    cap: float | None = 5.0,
    self_normalize: bool = False,
    group_ids: Tensor | Iterable[Any] | None = None,
) -> Tensor:
    r"""ReCo's response weights, :math:`w_i = 1 / (G \bar\pi_i)`.

    The old policy's geometric mean probability per token is :math:`\bar\pi_i`.

    Parameters
    ----------
    old_logps : tensor (B, T)
        Log-probability of each sampled token under the rollout policy.
    mask : tensor (B, T)
        1 on completion tokens. What stands elsewhere is never read.
    group_size : int >= 1
        Rollouts per group, G. The weight replaces the 1/G of the group mean; multiply an advantage
        that a trainer averages over the group by G w.
    cap : float >= 1, optional
        Largest G w; None for no cap. 5 is our choice: the paper gives no number.
    self_normalize : bool
        Divide so that weights average 1/G: over each group if ``group_ids`` is given, else over all
        rows. The cap acts before.
    group_ids
        As for :func:`focal_weights`.

    Returns
    -------
    tensor (B,) without gradient, of old_logps' floating dtype and device
        A row without tokens gets 1/G.

    Raises
    ------
    ValueError
        Not tensors of one shape; group_size not whole or below 1; cap below 1.

    Notes
    -----
    [RECO] v1; the geometric mean, replacing 1/G and the cap are our choices. On the host equal to
    ``tailmiss.response_weight`` of NumPy's mean to the last bit in float64, on an accelerator to a
    few units in it (tests/test_torch_reco.py). With probabilities per token between 0.8 and 0.975,
    as published, G w lies between 1.03 and 1.25 and the cap never acts.

    Examples
    --------
    >>> response_weights(torch.log(torch.tensor([[0.5, 0.5], [1.0, 0.25]])), torch.ones(2, 2), 2)
    tensor([1., 1.])
    """
    for name, tensor in (("old_logps", old_logps), ("mask", mask)):
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} must be a tensor; got {type(tensor).__name__}")
    if old_logps.dim() != 2 or mask.shape != old_logps.shape:
        raise ValueError(
            f"old_logps and mask must be (B, T) both; got {tuple(old_logps.shape)}"
            f" and {tuple(mask.shape)}"
        )
    if not (_at_least(group_size, 1) and group_size % 1 == 0):
        raise ValueError(f"group_size must be whole, >= 1; got {group_size!r}")
    if not (cap is None or _at_least(cap, 1)):
        raise ValueError(f"cap must be >= 1, or None for no cap; got {cap!r}")
    with torch.no_grad():
        logps = old_logps.to(torch.promote_types(old_logps.dtype, torch.float32))
        evaluate = _response_weights if _groups.readable(logps) else _response_weights_op
        weights = evaluate(logps, mask.bool(), group_size)
        if cap is not None:
            weights = weights.clamp(max=cap / group_size)
        if self_normalize:
            mean = weights.mean() if group_ids is None else _group_mean(weights, group_ids)
            weights = weights / mean / group_size
        return weights.to(old_logps.dtype) if old_logps.is_floating_point() else weights


def _at_least(value: Any, low: float) -> bool:
    return isinstance(value, Real) and bool(value >= low)  # type: ignore[operator]


def _group_mean(weights: Tensor, group_ids: Tensor | Iterable[Any]) -> Tensor:
    slots, size = _groups.label(group_ids, weights)
    total = weights.new_zeros(2, size)
    total[0].scatter_add_(0, slots, weights)
    total[1].scatter_add_(0, slots, torch.ones_like(weights))
    return (total[0] / total[1]).index_select(0, slots)


def _response_weights(logps: Tensor, mask: Tensor, group_size: int) -> Tensor:
    length, kept = mask.sum(-1).clamp(min=1).to(logps.dtype), torch.where(mask, logps, 0)
    if logps.device.type == "cpu":
        with np.errstate(over="ignore"):
            mean = kept.numpy().sum(-1) / length.numpy()
            return torch.from_numpy(response_weight(mean, group_size))
    return response_weight(kept.sum(-1) / length, group_size)


# An opaque operator, so that on the host the arithmetic stays NumPy's also under a compiler.
_response_weights_op = torch.library.custom_op(
    "tailmiss::response_weights", _response_weights, mutates_args=()
)


@_response_weights_op.register_fake
def _(logps, mask, group_size):  # type: ignore[no-untyped-def]
    return logps.new_empty(logps.shape[:1])


def log_variance_ratio(logps: Tensor, old_logps: Tensor, *, differentiate: bool = False) -> Tensor:
    r"""Logarithm of ReCo's token ratio, a drop-in for ``logps - old_logps``.

    .. math:: \ln\frac{p(1-p)}{p_{old}(1-p_{old})}, \qquad
              \ln(p(1-p)) = \ell + \ln(-\mathrm{expm1}(\ell)),\ \ell = \ln p

    Parameters
    ----------
    logps, old_logps : tensors of one shape, <= 0
        Log-probability of the sampled tokens under the current and the rollout policy. Both from
        the trainer, at one temperature: engine noise that moves p little moves 1 - p much.
    differentiate : bool
        False: the gradient is that of ``logps``, so the ratio acts as a detached coefficient on
        the gradient of log p, which is how the paper writes the update. True: the derivative of the
        value itself, whose factor (1-2p)/(1-p) turns the update around for p > 1/2; a diagnostic.

    Returns
    -------
    tensor like logps
        Finite also at log p = 0, at padding and at -inf; exactly 0 on policy.

    Raises
    ------
    ValueError
        Shapes differ.

    Notes
    -----
    [RECO] v1. log p is held in [-1e4, -1e-6] on both sides before 1 - p is formed (our choice),
    because float32 log-softmax returns exactly 0 from a logit gap of about 18. At least float32
    inside; absolute error below 1e-4 in float32 and 1e-9 in float64 at the upper end, where the
    subtraction from 1 costs most (tests/test_torch_reco.py).

    Examples
    --------
    >>> log_variance_ratio(torch.tensor([0.1]).log(), torch.tensor([0.9]).log()).abs() < 1e-6
    tensor([True])
    """
    if logps.shape != old_logps.shape:
        raise ValueError(
            f"logps and old_logps must have one shape; got {tuple(logps.shape)}"
            f" and {tuple(old_logps.shape)}"
        )
    value = _log_variance(logps) - _log_variance(old_logps.detach())
    if not differentiate:
        value = value.detach() + torch.nan_to_num(logps - logps.detach())
    return value.to(logps.dtype)


def _log_variance(logps: Tensor) -> Tensor:
    log_p = logps.to(torch.promote_types(logps.dtype, torch.float32)).clamp(-1e4, -SATURATION)
    return log_p + torch.log(-torch.expm1(log_p))


def token_coefficients(
    logps: Tensor,
    old_logps: Tensor,
    advantages: Tensor,
    *,
    mode: str = "ppo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float = RATIO_CAP,
) -> Tensor:
    r"""Detached coefficient c of every token: the update is :math:`c\,A\,\nabla\log p`.

    With v the variance ratio and r the importance ratio:

    ============ ==================================================================
    none         min(v, cap)
    ppo          min(v, cap), but 0 where A > 0 and v > 1 + high, or A < 0 and v < 1 - low
    cispo        v held in [1 - low, 1 + high]
    ratio_mask   min(v, cap), but 0 where A > 0 and r > 1 + high, or A < 0 and r < 1 - low
    ============ ==================================================================

    Parameters
    ----------
    logps, old_logps : tensors (B, T)
        As for :func:`log_variance_ratio`.
    advantages : tensor (B, 1), (B, T) or (B,)
        Signs decide which side is clipped.
    mode : str
        One of ``MODES``. DAPO is "ppo" or "ratio_mask" with clip_high = 0.28.
    clip_low, clip_high : float >= 0
        Clip range around 1.
    cap : float >= 1
        Largest coefficient, our choice.

    Returns
    -------
    tensor (B, T) without gradient, at least float32; exactly 1 on policy in every mode.

    Raises
    ------
    ValueError
        Unknown mode; a negative clip; cap below 1; shapes differ.

    Notes
    -----
    Readings A, B, E and D of [RECO] v1's ratio (``tailmiss.reco``): its text leaves the clip open.
    A clip on v is no trust region, since v(p) = v(1-p); "ratio_mask" keeps PPO's. Held in
    tests/test_torch_reco.py.

    Examples
    --------
    >>> p, old = torch.tensor([[0.6]]), torch.tensor([[0.5]])
    >>> token_coefficients(p.log(), old.log(), torch.ones(1), mode="none")
    tensor([[0.9600]])
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}; got {mode!r}")
    if not (_at_least(clip_low, 0) and _at_least(clip_high, 0)):
        raise ValueError(f"clip_low and clip_high must be >= 0; got {clip_low!r}, {clip_high!r}")
    if not _at_least(cap, 1):
        raise ValueError(f"cap must be >= 1; got {cap!r}")
    A = _per_token(advantages, logps)
    with torch.no_grad():
        low, high = 1 - clip_low, 1 + clip_high
        logps, old_logps = logps.detach(), old_logps.detach()
        wide = torch.promote_types(logps.dtype, torch.float32)
        variance = log_variance_ratio(logps.to(wide), old_logps.to(wide)).exp()
        if mode == "cispo":
            return variance.clamp(low, high)
        kept = variance.clamp(max=cap)
        if mode == "none":
            return kept
        watched = variance if mode == "ppo" else _log_ratio(logps, old_logps).exp()
        return kept.masked_fill(((A > 0) & (watched > high)) | ((A < 0) & (watched < low)), 0)


def _per_token(advantages: Tensor, logps: Tensor) -> Tensor:
    A = advantages.unsqueeze(-1) if advantages.dim() == 1 else advantages
    if A.shape[:-1] != logps.shape[:-1] or A.shape[-1] not in (1, logps.shape[-1]):
        raise ValueError(
            f"advantages must be (B,), (B, 1) or (B, T) for logps {tuple(logps.shape)};"
            f" got {tuple(advantages.shape)}"
        )
    return A


def _log_ratio(logps: Tensor, old_logps: Tensor) -> Tensor:
    wide = torch.promote_types(logps.dtype, torch.float32)
    return torch.nan_to_num(logps.to(wide) - old_logps.to(wide), posinf=80.0, neginf=-80.0).clamp(
        max=80
    )


def reco_loss(
    logps: Tensor,
    old_logps: Tensor,
    advantages: Tensor,
    *,
    mode: str = "ppo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float = RATIO_CAP,
    differentiate: bool = False,
) -> Tensor:
    r"""Per-token loss with gradient :math:`-c\,A\,\nabla\log p`.

    The coefficient c is that of :func:`token_coefficients`. Mask and average the loss as any policy
    loss: token mean, sequence mean, or over high-entropy tokens only (80/20). Multiply the
    advantages by focal or response weights beforehand.

    Parameters
    ----------
    logps, old_logps, advantages, mode, clip_low, clip_high, cap
        As for :func:`token_coefficients`.
    differentiate : bool
        True ignores the mode and differentiates the ratio itself, up to the cap: the diagnostic
        that shows why the ratio must be a coefficient.

    Returns
    -------
    tensor (B, T) with gradient to logps; its value is -c A.

    Raises
    ------
    ValueError
        As :func:`token_coefficients`.

    Notes
    -----
    On fresh rollouts c = 1: the gradient equals GRPO's exactly in every mode
    (tests/test_torch_reco.py). The ratio acts only from the second update on the same rollouts on.

    Examples
    --------
    >>> logps = torch.tensor([[-0.1, -2.0]], requires_grad=True)
    >>> reco_loss(logps, logps.detach(), torch.ones(1)).sum().backward()
    >>> logps.grad
    tensor([[-1., -1.]])
    """
    A = _per_token(advantages, logps)
    if differentiate:
        ratio = log_variance_ratio(logps, old_logps, differentiate=True)
        return -ratio.clamp(max=math.log(cap)).exp() * A
    c = token_coefficients(
        logps, old_logps, A, mode=mode, clip_low=clip_low, clip_high=clip_high, cap=cap
    )
    return -c * A * torch.exp(torch.nan_to_num(logps - logps.detach()))
