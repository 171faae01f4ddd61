"""Groups on the device: rollouts to slots, counts per slot, values looked up by count.

Nothing here waits for the device: no value is read on the host, and no shape depends on data.
Tensors that live on the host may be looked at, and are, which makes the common case fast there.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..advantages import advantage_table
from ..weights import focal_weight

# Largest group whose values are tabulated ahead on an accelerator, where sizes cannot be read.
MAX_GROUP_SIZE = 1024
_COUNT_BITS = 32


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
    correct = success == 1
    wrong = success == 0
    if scored is None and readable(success):
        flagged = torch.count_nonzero(correct) + torch.count_nonzero(wrong)
        if int(flagged) == success.shape[0]:
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


def counts(
    correct: Tensor, scored: Tensor | None, slots: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Scored and correct rollouts of every slot, int64: both ride in one scatter-add."""
    packed = torch.zeros(size, dtype=torch.int64, device=slots.device)
    rows = slots.shape[0]
    # On the host in pieces that stay in the cache: a temporary of the batch costs more to allocate.
    step = 1 << 15 if readable(slots) else rows
    for start in range(0, rows, step) if rows else ():
        part = slice(start, start + step)
        one = correct[part].long().bitwise_or_(1 << _COUNT_BITS)
        if scored is not None:
            one = torch.where(scored[part], one, 0)
        packed.scatter_add_(0, slots[part], one)
    return packed >> _COUNT_BITS, packed & ((1 << _COUNT_BITS) - 1)


def values(
    rule: str,
    n: Tensor,
    k: Tensor,
    gamma: float,
    options: dict[str, Any],
    limit: int,
    dtype: torch.dtype,
) -> Tensor:
    """(2, size): what a correct and a wrong rollout get in every slot, as NumPy computes it.

    rule "focal" is the focal weight itself; other names are those of ``tailmiss.RULES``.
    """
    dtype = torch.promote_types(dtype, torch.float32)
    spelled = ";".join(f"{name}={value!r}" for name, value in options.items())
    return _values(n, k, rule, float(gamma), spelled, limit, dtype)


# An opaque operator: a compiler's own power would differ from NumPy's in the last bit.
@torch.library.custom_op("tailmiss::group_values", mutates_args=())
def _values(
    n: Tensor, k: Tensor, rule: str, gamma: float, options: str, limit: int, dtype: torch.dtype
) -> Tensor:
    sizes: Iterable[int] = range(limit + 1)
    if n.device.type == "cpu":
        sizes = np.flatnonzero(np.bincount(n.numpy())).tolist()
        limit = max(sizes, default=0)
    table, offset = _table(rule, gamma, options, tuple(sizes), n.device, dtype)
    if n.device.type == "cpu":
        return table.index_select(1, offset.index_select(0, n) + k)
    found = table[:, offset[n.clamp(max=limit)] + k.clamp(max=limit)]
    rate = torch.where(n > 0, k / n, 1.0).to(dtype)
    beyond = focal_weight(rate, gamma) if rule == "focal" else torch.full_like(rate, torch.nan)
    return torch.where(n > limit, beyond, found)


@_values.register_fake
def _(n, k, rule, gamma, options, limit, dtype):  # type: ignore[no-untyped-def]
    return n.new_empty((2, n.shape[0]), dtype=dtype)


@lru_cache(maxsize=64)
def _table(
    rule: str,
    gamma: float,
    options: str,
    sizes: tuple[int, ...],
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The values of all counts of the given group sizes, end to end, and where each size begins."""
    offset = np.zeros(max(sizes, default=0) + 1, np.int64)
    offset[list(sizes)] = np.cumsum([0, *(N + 1 for N in sizes)])[:-1]
    largest = len(offset) - 1
    pairs = (option.split("=") for option in options.split(";") if option)
    chosen = {name: literal_eval(value) for name, value in pairs}
    rows = [_row(rule, N, gamma, chosen, required=1 < N == largest) for N in sizes]
    table = np.concatenate(rows, axis=1) if rows else np.zeros((2, 0))
    return torch.tensor(table, dtype=dtype, device=device), torch.tensor(offset, device=device)


def _row(rule: str, N: int, gamma: float, options: dict[str, Any], *, required: bool) -> Any:
    if rule == "focal":
        # A group without a scored rollout says nothing: like one without a wrong rollout.
        rate = np.arange(N + 1) / N if N else np.ones(1)
        return np.broadcast_to(focal_weight(rate, gamma), (2, N + 1))
    try:
        return np.stack(advantage_table(rule, N, gamma=gamma, **options)) if N else np.zeros((2, 1))
    except ValueError:
        if required:
            raise
        return np.zeros((2, N + 1))
