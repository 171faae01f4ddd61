"""Groups on the device: rollouts to slots, and counts per slot.

Nothing here waits for the device: no value is read on the host, and no shape depends on data.
Tensors that live on the host may be looked at, and are, which makes the common case fast there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def readable(tensor: Tensor) -> bool:
    """Whether looking at the values costs nothing: host memory, not traced, not fake."""
    return (
        not torch.compiler.is_compiling()
        and tensor.device.type == "cpu"
        and not isinstance(tensor, FakeTensor)
    )


def label(group_ids: Tensor | Iterable[Any], like: Tensor) -> tuple[Tensor, int]:
    """Slots (int64, one per rollout) and their number: equal slots are equal ids, on like's device.

    Slots need not be consecutive. Integer ids whose range is below twice the batch are used as they
    are; other integers are ranked by one sort; strings and other host objects by one dictionary.
    """
    if not isinstance(group_ids, Tensor):
        group_ids = _numbered(group_ids)
    if group_ids.shape != like.shape:
        raise ValueError(
            f"group_ids must have the shape of success, {tuple(like.shape)};"
            f" got {tuple(group_ids.shape)}"
        )
    if group_ids.dtype.is_floating_point or group_ids.dtype.is_complex:
        raise ValueError(f"group_ids must be integers or strings; got {group_ids.dtype}")
    ids = group_ids.to(like.device, torch.int64)
    rows = ids.numel()
    if rows and readable(ids):
        low, high = (int(end) for end in torch.aminmax(ids))
        if 0 <= low and high < 2 * rows:
            return ids, high + 1
        if high - low < 2 * rows:
            return ids - low, high - low + 1
    ranked, order = torch.sort(ids)
    starts = torch.zeros_like(ids)
    starts[1:] = ranked[1:] != ranked[:-1]
    return torch.empty_like(ids).scatter_(0, order, starts.cumsum(0)), rows


def _numbered(group_ids: Iterable[Any]) -> Tensor:
    if not isinstance(group_ids, Iterable):
        raise ValueError(f"group_ids must be a tensor or one id a rollout; got {group_ids!r}")
    if isinstance(group_ids, np.ndarray):
        if torch.compiler.is_compiling():  # an array of strings is no part of a graph
            return torch.as_tensor(group_ids)
        if group_ids.dtype.kind in "iu":
            return torch.tensor(group_ids.astype(np.int64, copy=False), device="cpu")
    numbers: dict[Any, int] = {}
    ids = []
    for row, key in enumerate(group_ids):
        if isinstance(key, Tensor):  # hashes by identity, not by value
            key = key.item()
        try:
            if key is None or key != key:
                raise TypeError
            ids.append(numbers.setdefault(key, len(numbers)))
        except (TypeError, ValueError):  # missing, as pandas has it, or not hashable
            raise ValueError(
                f"group_ids must name a group for every rollout; got {key} at index {row}"
            ) from None
    return torch.tensor(ids, dtype=torch.int64, device="cpu")


def check_shape(success: Tensor) -> None:
    if not isinstance(success, Tensor):
        raise ValueError(f"success must be a tensor; got {type(success).__name__}")
    if success.dim() != 1:
        raise ValueError(
            f"success must have one entry per rollout; got shape {tuple(success.shape)}"
        )


def check_like(name: str, tensor: Tensor, success: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor; got {type(tensor).__name__}")
    if tensor.shape != success.shape:
        raise ValueError(
            f"{name} must have the shape of success, {tuple(success.shape)};"
            f" got {tuple(tensor.shape)}"
        )


def flags(success: Tensor, scored: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Masks of the correct rollouts, of the scored (None: all) and of bad flags (None: none).

    A flag is True/False, 1/0, or NaN for an unscored rollout. Anything else is refused where it can
    be read; elsewhere the third mask marks it, and the caller answers NaN there.
    """
    if scored is not None:
        check_like("scored", scored, success)
        scored = scored.to(success.device, torch.bool)
    if success.dtype == torch.bool:
        return (success if scored is None else success & scored), scored, None
    correct, wrong = success == 1, success == 0
    if success.dtype.is_floating_point:
        seen = ~success.isnan()
        scored = seen if scored is None else scored & seen
    invalid = ~(correct | wrong)
    if scored is not None:
        correct, invalid = correct & scored, invalid & scored
    if readable(success):
        if bool(invalid.any()):
            row = int(invalid.nonzero()[0])
            raise ValueError(
                f"success must be flags, 1 or 0 (NaN: unscored); got {success[row].item()!r} at"
                f" index {row}. Compare rewards with a threshold first."
            )
        return correct, scored, None
    return correct, scored, invalid


def counts(
    correct: Tensor, scored: Tensor | None, slots: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Scored and correct rollouts of every slot, int64: both ride in one scatter-add."""
    one = correct.long().bitwise_or_(1 << 32)
    if scored is not None:
        one = torch.where(scored, one, 0)
    packed = torch.zeros(size, dtype=torch.int64, device=slots.device).scatter_add_(0, slots, one)
    return packed >> 32, packed & 0xFFFFFFFF
