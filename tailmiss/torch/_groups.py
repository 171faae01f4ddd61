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

_PIECE = 1 << 16


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
    if isinstance(group_ids, np.ndarray) and group_ids.dtype.kind in "iu":
        return torch.tensor(group_ids.astype(np.int64, copy=False))
    numbers: dict[Any, int] = {}
    ids = []
    for row, key in enumerate(group_ids):
        if key is None or key != key:
            raise ValueError(
                f"group_ids must name a group for every rollout; got {key} at index {row}"
            )
        ids.append(numbers.setdefault(key, len(numbers)))
    return torch.tensor(ids, dtype=torch.int64)


def flags(success: Tensor, scored: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Masks of the correct rollouts, of the scored (None: all) and of bad flags (None: none).

    A flag is True/False, 1/0, or NaN for an unscored rollout. Anything else is refused where it can
    be read; elsewhere the third mask marks it, and the caller answers NaN there.
    """
    if success.dim() != 1:
        raise ValueError(
            f"success must have one entry per rollout; got shape {tuple(success.shape)}"
        )
    if scored is not None:
        if scored.shape != success.shape:
            raise ValueError(
                f"scored must have the shape of success, {tuple(success.shape)};"
                f" got {tuple(scored.shape)}"
            )
        scored = scored.to(success.device, torch.bool)
    if success.dtype == torch.bool:
        return (success if scored is None else success & scored), scored, None
    correct, wrong = _equal(success, 1), _equal(success, 0)
    if scored is None and readable(success):
        flagged = np.count_nonzero(correct.numpy()) + np.count_nonzero(wrong.numpy())
        if flagged == success.shape[0]:
            return correct, None, None
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


def _equal(values: Tensor, number: int) -> Tensor:
    if readable(values) and values.dtype != torch.bfloat16:
        return torch.from_numpy(values.numpy(force=True) == number)  # four times torch's speed
    return values == number


def counts(
    correct: Tensor, scored: Tensor | None, slots: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Scored and correct rollouts of every slot: both ride in one scatter-add."""
    if readable(slots):
        n, k = _counts(correct, scored, slots, size, torch.int32)
        # Half the width is faster, and a count that overflowed cannot leave this sum right.
        if int(n.sum()) == (len(slots) if scored is None else int(scored.sum())):
            return n, k
    return _counts(correct, scored, slots, size, torch.int64)


def _counts(
    correct: Tensor, scored: Tensor | None, slots: Tensor, size: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    bits = 4 * dtype.itemsize
    packed = torch.zeros(size, dtype=dtype, device=slots.device)
    rows = slots.shape[0]
    # On the host in pieces that stay in the cache: a temporary of the batch costs more to allocate.
    step = _PIECE if readable(slots) else rows
    for start in range(0, rows, step) if rows else ():
        part = slice(start, start + step)
        one = correct[part].to(dtype).bitwise_or_(1 << bits)
        if scored is not None:
            one = torch.where(scored[part], one, 0)
        packed.scatter_add_(0, slots[part], one)
    low = (1 << bits) - 1
    return (packed >> bits) & low, packed & low
