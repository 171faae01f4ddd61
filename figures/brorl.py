"""BroRL's simulation: a larger group raises the success rate faster and drops less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._categorical import scaled, sweep
from ._figure import PAGE
from ._palette import COLOURS, DASHES, MARKERS
from ._seeds import bars, over_seeds

CAPTION = """BroRL's categorical simulation (arXiv 2510.01180, Fig. 3): the literal surrogate under
AdamW with torch's defaults and learning rate 0.001. Success rate Q_pos, share of correct actions
above their initial probability, and the largest drop of one. Grey (full scale): the range of the
paper's axis, 0.60 to 0.64; the paper does not state its decay and epsilon. Means over seeds with 95
% t intervals, those of the drop cut at 0."""
SIZE = (PAGE, 2.5)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"divisor": 32, "N": [4, 16, 1600], "steps": 1000, "every": 50, "seeds": 4,
              "store": None},
    "full": {"divisor": 1, "N": [4, 8, 16, 512, 51200], "steps": 1000, "every": 20, "seeds": 4,
             "store": None},
}  # fmt: skip
VALUES = {
    "q_pos": "success rate $Q_{pos}$",
    "improved_share": "share of correct\nactions improved",
    "worst_drop": "largest drop of\na correct action",
}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    grid = [
        (
            {"divisor": params["divisor"], "N": N},
            scaled(
                params["divisor"], group_size=N, steps=params["steps"],
                record_every=params["every"], learning_rate=1e-3, surrogate="probability",
                optimizer="adamw",
            ),
        )
        for N in params["N"]
    ]  # fmt: skip
    return over_seeds(sweep(grid, params, rng), ["divisor", "N", "step"], list(VALUES))


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, 3)
    for axes, (name, label) in zip(panels, VALUES.items(), strict=True):
        top = 0.0 if name == "worst_drop" else np.inf
        for i, (N, curve) in enumerate(frame.groupby("N")):
            marks = curve[curve.step % 200 == 0]
            axes.plot(curve.step, curve[name], color=COLOURS[i], ls=DASHES[i], lw=0.9)
            axes.errorbar(
                marks.step, marks[name], bars(marks, name, top=top), color=COLOURS[i],
                marker=MARKERS[i], ls="none", markersize=3, elinewidth=0.8, label=f"N = {N:,}",
            )  # fmt: skip
        axes.set(xlabel="update", ylabel=label)
    if (frame.divisor == 1).all():
        panels[0].axhspan(0.60, 0.64, color="0.92", zorder=0)
    panels[2].ticklabel_format(axis="y", scilimits=(0, 0))
    handles, names = panels[0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside lower center", ncols=5)
