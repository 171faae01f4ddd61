"""ReCo's two levels apart, each reading of them, and more inner steps, at equal pass@1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._reco_runs import against, difference_panels, run_methods

CAPTION = """Paired difference to GRPO with as many inner steps, where pass@1 has doubled; mean and
95 % interval over seeds, each averaged over learning rates 0.5 and 1, the same for all methods. A
missing mark: not run, or no run got there (C). F-GRPO is shown for scale. L: tokens over which the
response weight averages the log-likelihood, 16 for ReCo itself; L = 4 and L = 1 have no cap and are
self-normalised."""
SIZE = (PAGE, 4.6)
_CONFIG = {"prompts": 16, "length": 8, "vocabulary": 8, "strategies": 12, "samples": 4}
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {
        "seeds": 2, "inner": [1, 4], "rates": [1.0], "updates": 60, "records": 6, "factor": 1.3,
        "config": _CONFIG, "settings": {"shared": {}}, "store": None,
    },
    "full": {
        "seeds": 8, "inner": [1, 4, 16], "rates": [0.5, 1.0], "updates": 400, "records": 20,
        "factor": 2.0, "config": {"samples": 12}, "settings": {"shared": {}}, "store": None,
    },
}  # fmt: skip
METHODS = (
    "GRPO", "response only", "token only", "ReCo", "F-GRPO", "GRPO, no clip", "token, A unclipped",
    "token, C autograd", "token, D ratio mask", "token, E CISPO", "token, F absolute",
    "response, self-normalised", "response, L = 4", "response, L = 1",
)  # fmt: skip
# On fresh rollouts these are GRPO; "token only" is kept there, to show it.
STALE_ONLY = ("GRPO, no clip", "token, A", "token, D", "token, E")
FRESH = tuple(m for m in METHODS if not m.startswith(STALE_ONLY))
STALE = METHODS[:7]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    cells = [
        ("shared", method, inner, rate)
        for inner in params["inner"]
        for method in (FRESH if inner == 1 else METHODS if inner <= 4 else STALE)
        for rate in params["rates"]
    ]
    return against(run_methods(cells, params, rng), params["factor"])


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    difference_panels(fig, frame, "method", list(METHODS[1:]), "inner")
