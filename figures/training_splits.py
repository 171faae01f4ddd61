"""Where training changes a small language model: easy and hard, held-out and other problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import COLOURS, MARKERS
from ._training import LABELS, MEASURED, curves, finished, intervals, over_seeds

CAPTION = """Change from the base model after 300 steps at N = 8, with gamma = 0 and 1: problems
that training saw and held-out ones, the easier and the harder half by the base model's pass@1,
and two variants that training never saw, targets from 100 on and four-digit expressions. Bars: 95
% t intervals over seeds."""
SIZE = (PAGE, 2.9)
PARAMS = MEASURED
CELLS = {"N=8": r"$\gamma$ = 0", "N=8 gamma=1": r"$\gamma$ = 1"}
SPLITS = {
    "train": "seen in training",
    "held": "held out",
    "easy": "easier half",
    "hard": "harder half",
    "large": "targets from 100 on",
    "four": "four digits",
}
MEASURES = ("pass_1", "pass_256", "retained", "modes")


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    frame = curves()
    frame = frame[frame["cell"].isin(finished(list(CELLS)))]
    keys = ["cell", "split", "seed"]
    ends = [frame[frame["step"] == step].set_index(keys)[list(MEASURES)] for step in (0, 300)]
    change = (ends[1] - ends[0]).dropna(how="all").reset_index()
    return over_seeds(change, ["cell", "split"], MEASURES)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, len(MEASURES), sharey=True)
    splits = list(SPLITS)[::-1]
    for axes, measure in zip(panels, MEASURES, strict=True):
        for i, (cell, label) in enumerate(CELLS.items()):
            rows = frame[(frame["measure"] == measure) & (frame["cell"] == cell)]
            y = [splits.index(split) + 0.12 - 0.24 * i for split in rows["split"]]
            intervals(
                axes, y, rows, horizontal=True, color=COLOURS[i], ls="none", marker=MARKERS[i],
                label=label,
            )  # fmt: skip
        axes.axvline(0, color="k", lw=0.7)
        axes.set_xlabel(f"$\\Delta$ {LABELS[measure].replace('mass ', '').replace(' above', ' >')}")
        axes.locator_params(axis="x", nbins=3)
    panels[0].set_yticks(range(len(splits)), [SPLITS[s] for s in splits])
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
