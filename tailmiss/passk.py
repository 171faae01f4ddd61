from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def log_all_wrong_prob(n: Any, c: Any, k: Any) -> NDArray[np.float64]:
    """ln of C(n-c, k) / C(n, k): no correct one among k drawn without replacement from n."""
    n, c, k = np.broadcast_arrays(*(np.asarray(v, float) for v in (n, c, k)))
    few, many = np.minimum(c, k), np.maximum(c, k)
    total = np.zeros(n.shape)
    with np.errstate(divide="ignore"):
        for i in range(int(few.max(initial=0))):
            live = i < few
            total[live] += np.log1p(-np.minimum(many[live] / (n[live] - i), 1.0))
    return total
