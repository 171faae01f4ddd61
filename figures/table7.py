"""Table 7: the focal exponent the paper chose for each model and method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import COLUMN
from ._palette import COLOURS, DASHES, MARKERS
from ._published import METHODS, PRINTED, published

CAPTION = """Published numbers: math pass@1 against gamma for the nine pairs (Table 6) with the
exponent that the paper selected by that number ringed (Table 7)."""
SIZE = (COLUMN, 4.6)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    sweep = published("table6_gamma").query("split == 'math' and k == 1")
    chosen = published("table7_chosen_gamma").assign(chosen=1)
    merged = sweep.merge(chosen, on=["model", "method", "gamma"], how="left")
    return merged.assign(chosen=merged.chosen.fillna(0).astype(int))


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    models = frame.model.unique()
    panels = fig.subplots(len(models), 1, sharex=True)
    for axes, model in zip(panels, models, strict=True):
        for method, colour, dash, mark in zip(METHODS, COLOURS, DASHES, MARKERS, strict=False):
            curve = frame[(frame.model == model) & (frame.method == method)]
            ring = curve[curve.chosen == 1]
            axes.plot(curve.gamma, curve.value, color=colour, ls=dash, marker=mark, label=method)
            axes.plot(ring.gamma, ring.value, "o", ms=11, mfc="none", mec="black")
        axes.set_ylabel(f"{model}\npass@1, %", fontsize=7)
        axes.margins(y=0.2)
    panels[-1].set(xlabel=r"focal exponent $\gamma$", xticks=[0, 0.5, 1, 2])
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
