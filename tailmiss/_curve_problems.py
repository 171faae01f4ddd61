"""Whether whole numbers of problems, and not only proportions of them, can have a printed curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def whole_problems(
    curves: Array, value: Array, reach: float, problems: int, shares: Array
) -> bool | None:
    """Whether whole numbers of problems give the curve within reach; None where not settled.

    Descent from the best proportions first; what it does not find is left to branch and bound.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if _descend(curves, value, reach, problems, shares):
        return True
    size = curves.shape[1]
    result = milp(
        np.zeros(size),
        integrality=np.ones(size, int),
        bounds=Bounds(0, problems),
        constraints=[
            LinearConstraint(curves, problems * (value - reach), problems * (value + reach)),
            LinearConstraint(np.ones((1, size)), problems, problems),
        ],
        options={"time_limit": 30.0},
    )
    return {0: True, 2: False}.get(result.status)


def _descend(curves: Array, value: Array, reach: float, problems: int, shares: Array) -> bool:
    """Change one problem's count at a time for the better, from jittered proportions."""
    rng = np.random.default_rng(0)
    start = np.searchsorted(np.cumsum(shares), (np.arange(problems) + 0.5) / problems)
    for attempt in range(12):
        spread = rng.integers(-attempt, attempt + 1, problems) if attempt else 0
        counts = np.clip(start + spread, 0, curves.shape[1] - 1)
        total = curves[:, counts].sum(axis=1)
        best = np.inf
        while True:
            order = rng.permutation(problems)
            before = best
            for i in order:
                rest = total - curves[:, counts[i]]
                off = np.abs((rest[:, None] + curves) / problems - value[:, None])
                loss = (np.maximum(off - 0.8 * reach, 0.0) ** 2).sum(axis=0)
                counts[i] = int(np.argmin(loss))
                total, best = rest + curves[:, counts[i]], float(loss[counts[i]])
            if np.abs(total / problems - value).max() <= reach:
                return True
            if not best < 0.999 * before:
                break
    return False
