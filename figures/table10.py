"""Table 10: the published group-size sweep per benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._published import PRINTED, heat_by_k, published

CAPTION = "Published numbers (Qwen2.5-7B): GRPO with five group sizes and F-GRPO with N = 8."
SIZE = (PAGE, 4.2)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    return published("table10_group_size_per_benchmark")


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame.assign(row=frame.method + "  N = " + frame.N.astype(str))
    heat_by_k(frame, list(frame.row.unique()), fig)
