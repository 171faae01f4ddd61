"""Values that depend on a group's counts only: tabulated by NumPy, looked up on the device."""

from __future__ import annotations

from ast import literal_eval
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..advantages import advantage_table
from ..weights import focal_weight
from ._groups import readable

# Largest group tabulated ahead on an accelerator, where sizes cannot be read.
MAX_GROUP_SIZE = 1024
_SMALL = 65


def values(
    rule: str,
    n: Tensor,
    k: Tensor,
    gamma: float,
    options: dict[str, Any],
    limit: int,
    dtype: torch.dtype,
) -> Tensor:
    """What a correct and a wrong rollout get in every slot, as NumPy computes it: (2, size).

    ``rule`` is one of ``tailmiss.RULES``, or "focal": the focal weight itself, (1, size).
    """
    dtype = torch.promote_types(dtype, torch.float32)
    spelled = ";".join(f"{name}={_plain(value)!r}" for name, value in options.items())
    evaluate = _values if readable(n) else _values_op
    return evaluate(n, k, rule, float(gamma), spelled, limit, dtype)


def _values(
    n: Tensor, k: Tensor, rule: str, gamma: float, options: str, limit: int, dtype: torch.dtype
) -> Tensor:
    if n.device.type == "cpu":
        table, offset = host_table(rule, gamma, options, n.numpy(), dtype)
        if rule != "focal" and len(n) and (largest := int(n.max())) > 1:
            # A rule for which no group is large enough is a mistake, not a lack of signal.
            advantage_table(rule, largest, gamma=gamma, **_read(options))
        return _look_up(table, offset, n, k)
    return _bounded(n, k, rule, gamma, options, limit, dtype)


def host_table(
    rule: str, gamma: float, options: str, n: NDArray[np.int64], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Table and offsets for sizes that may be read: small ones at once, large as they occur."""
    sizes = range(_SMALL) if n.max(initial=0) < _SMALL else np.unique(n).tolist()
    return _table(rule, gamma, options, tuple(sizes), torch.device("cpu"), dtype)


def _bounded(
    n: Tensor, k: Tensor, rule: str, gamma: float, options: str, limit: int, dtype: torch.dtype
) -> Tensor:
    """The same without looking at the sizes: every group up to the limit is tabulated once."""
    table, offset = _table(rule, gamma, options, tuple(range(limit + 1)), n.device, dtype)
    found = _look_up(table, offset, n.clamp(max=limit), k.clamp(max=limit))
    rate = torch.where(n > 0, k.to(dtype) / n, 1.0)
    beyond = focal_weight(rate, gamma) if rule == "focal" else torch.full_like(rate, torch.nan)
    return torch.where(n > limit, beyond, found)


def _look_up(table: Tensor, offset: Tensor, n: Tensor, k: Tensor) -> Tensor:
    place = offset.index_select(0, n).add_(k)
    return torch.stack([row.index_select(0, place) for row in table])


# An opaque operator: a compiler's own power would differ from NumPy's in the last bit.
_values_op = torch.library.custom_op("tailmiss::group_values", _values, mutates_args=())


@_values_op.register_fake
def _(n, k, rule, gamma, options, limit, dtype):  # type: ignore[no-untyped-def]
    return n.new_empty((1 if rule == "focal" else 2, n.shape[0]), dtype=dtype)


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
    chosen = _read(options)
    rows = [_row(rule, int(N), gamma, chosen) for N in sizes]
    table = np.concatenate(rows, axis=1) if rows else np.zeros((1, 0))
    return torch.tensor(table, dtype=dtype, device=device), torch.tensor(offset, device=device)


def _plain(value: Any) -> Any:
    """A number of NumPy or torch as Python's, whose spelling can be read back."""
    return value.item() if isinstance(value, np.generic | Tensor) else value


def _read(options: str) -> dict[str, Any]:
    pairs = (option.split("=") for option in options.split(";") if option)
    return {name: literal_eval(value) for name, value in pairs}


def _row(rule: str, N: int, gamma: float, options: dict[str, Any]) -> Any:
    if rule == "focal":
        # A group without a scored rollout says nothing: like one without a wrong rollout.
        rate = np.arange(N + 1) / N if N else np.ones(1)
        return focal_weight(rate, gamma)[np.newaxis]
    try:
        return np.stack(advantage_table(rule, N, gamma=gamma, **options)) if N else np.zeros((2, 1))
    except ValueError:  # too small a group for the rule: no signal
        return np.zeros((2, N + 1))
