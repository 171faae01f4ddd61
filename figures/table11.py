"""Table 11: the published controls per benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._published import PRINTED, heat_by_k, published

CAPTION = """Published numbers (Qwen2.5-7B, N = 8): lower learning rate, entropy bonus, KL penalty,
differential smoothing and the focal weight, per benchmark."""
SIZE = (PAGE, 3.8)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    return published("table11_controls_per_benchmark")


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame.assign(row=frame.method)
    heat_by_k(frame, list(frame.row.unique()), fig)
