"""Table 6: published sensitivity to the focal exponent gamma."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import COLOURS, DASHES, MARKERS
from ._published import METHODS, PRINTED, SPLITS, published

CAPTION = """Published numbers (N = 8): averages over math and out-of-domain benchmarks against the
focal exponent; gamma = 0 is the plain method."""
SIZE = (PAGE, 6.0)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    return published("table6_gamma")


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    models = frame.model.unique()
    panels = fig.subplots(4, len(models), sharex=True)
    rows = [(split, k) for split in SPLITS for k in (1, 256)]
    for (split, k), line in zip(rows, panels, strict=True):
        for model, axes in zip(models, line, strict=True):
            chosen = frame[(frame.model == model) & (frame.split == split) & (frame.k == k)]
            for method, colour, dash, mark in zip(METHODS, COLOURS, DASHES, MARKERS, strict=False):
                curve = chosen[chosen.method == method]
                axes.plot(
                    curve.gamma, curve.value, color=colour, ls=dash, marker=mark, label=method
                )
            axes.margins(y=0.15)
        line[0].set_ylabel(f"{SPLITS[split]} pass@{k}, %")
    for model, top, bottom in zip(models, panels[0], panels[-1], strict=True):
        top.set_title(model)
        bottom.set(xlabel=r"focal exponent $\gamma$", xticks=[0, 0.5, 1, 2])
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
