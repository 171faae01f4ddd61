"""Focal weights of batches past a training batch, on the host, by compiled loops.

A million rollouts in 100,000 groups take two to three scatter-adds (tests/bench_torch.py): one pass
checks the flags, one counts, one looks weights up. Torch's own passes take four to six. Imported
when such a batch comes, so that nobody else waits for numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from . import _tables

_DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64)


def focal_weights(
    success: Tensor, slots: Tensor, size: int, gamma: float, dtype: torch.dtype
) -> Tensor | None:
    """Weight of every rollout, or None unless all are scored with flags of a common dtype."""
    if success.dtype not in _DTYPES:
        return None
    places = slots.numpy().view(np.uint64)  # spares the loops Python's negative indices
    packed = np.zeros(size, np.int64)
    if not _tally(places, success.detach().numpy(), packed):
        return None
    n = packed >> 32
    table, offset = _tables.host_table("focal", gamma, "", n, dtype)
    weights = np.empty(slots.numel(), table.numpy().dtype)
    _look_up(places, packed, table[0].numpy(), offset.numpy(), weights)
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
def _look_up(slots: Any, packed: Any, table: Any, offset: Any, weights: Any) -> None:
    of_slot = np.empty(packed.size, table.dtype)
    for slot in range(packed.size):
        of_slot[slot] = table[offset[packed[slot] >> 32] + (packed[slot] & 0xFFFFFFFF)]
    for i in range(slots.size):
        weights[i] = of_slot[slots[i]]
