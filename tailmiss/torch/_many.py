"""Focal weights of batches past a training batch, on the host, by compiled loops.

A million rollouts in 100,000 groups take about three scatter-adds: one pass checks the flags, one
counts, one over the slots looks weights up. Torch's own passes take four to six. Imported when such
a batch comes, so that nobody else waits for numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from . import _tables

_DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64)


def focal_weights_of_slots(
    success: Tensor, slots: Tensor, size: int, gamma: float, dtype: torch.dtype
) -> Tensor | None:
    """Weight of every slot, or None unless all rollouts are scored with flags of a common dtype."""
    if success.dtype not in _DTYPES:
        return None
    packed = np.zeros(size, np.int64)
    if not _tally(slots.numpy(), success.detach().numpy(), packed):
        return None
    n = packed >> 32
    table, offset = _tables.host_table("focal", gamma, "", n, dtype)
    weights = np.empty(size, table.numpy().dtype)
    _look_up(packed, table[0].numpy(), offset.numpy(), weights)
    return torch.from_numpy(weights)


@njit(nogil=True, cache=True)
def _tally(slots: Any, flags: Any, packed: Any) -> bool:
    """Add 2**32 + flag to the slot of every rollout if all flags are 0 or 1; whether they are."""
    clean = True
    for i in range(flags.size):  # apart from the sums, so that vector instructions do it
        clean &= (flags[i] == 1) | (flags[i] == 0)
    if clean:
        for i in range(slots.size):
            packed[slots[i]] += (1 << 32) + np.int64(flags[i])
    return clean


@njit(nogil=True, cache=True)
def _look_up(packed: Any, table: Any, offset: Any, weights: Any) -> None:
    for slot in range(packed.size):
        weights[slot] = table[offset[packed[slot] >> 32] + (packed[slot] & 0xFFFFFFFF)]
