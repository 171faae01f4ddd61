"""Table 1: gain of the focal weight over its baseline, per model, method and benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._published import BENCHMARKS, METHODS, MODELS, PRINTED, heat, published

CAPTION = """Published numbers (N = 8): points gained by the focal weight over the same method
without it, pass@1 above and pass@256 below. Averages in bold."""
SIZE = (PAGE, 5.2)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    columns = ["model", "method", "benchmark", "k"]
    table = published("table1_main").pivot(index=columns, columns="focal", values="value")
    table = table.rename(columns={0: "baseline", 1: "focal"}).reset_index()
    return table.assign(gain=(table.focal - table.baseline).round(1))


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame.assign(row=frame.model + "  F-" + frame.method)
    rows = [f"{model}  F-{method}" for model in MODELS for method in METHODS]
    for axes, k in zip(fig.subplots(2, 1), (1, 256), strict=True):
        table = frame[frame.k == k].pivot(index="row", columns="benchmark", values="gain")
        heat(axes, table.loc[rows, list(BENCHMARKS)], gains=True)
        axes.set_xlabel(f"gain in pass@{k}, points")
