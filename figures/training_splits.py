"""Where training changes a small language model: easy and hard, held-out and other problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import COLOURS, MARKERS
from ._training import (
    BASELINE,
    LABELS,
    MEASURED,
    STEPS,
    changes,
    curves,
    finished,
    intervals,
    over_seeds,
)

CAPTION = """Change from the base model after 300 steps at N = 8, with gamma = 0 and 1: problems
that reinforcement learning saw and held-out ones, the easier and the harder half by the base
model's pass@1, and two variants left out of it, targets from 100 on and four-digit expressions (24
of 887 prompts). The supervised start saw all of them. Bars: 95 % t intervals over eight seeds. The
table also has the paired differences from N = 8, gamma = 0 on every split, for all gammas and group
sizes, at equal steps and at equal training pass@1."""
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
AGAINST = tuple(f"N={N}" for N in (2, 4, 16, 32)) + tuple(
    f"N=8 gamma={g}" for g in (".5", "1", "2")
)
MEASURES = ("pass_1", "pass_256", "retained", "modes")
TABLED = (*MEASURES, "pass_16")


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Rows `from base` (change from the base model) and `difference` (paired, from `baseline`)."""
    frame, cells = curves(), finished(list(CELLS))
    keys = ["cell", "split", "seed"]
    own = frame[frame["cell"].isin(cells)]
    ends = [own[own["step"] == step].set_index(keys)[list(TABLED)] for step in (0, STEPS)]
    moved = over_seeds((ends[1] - ends[0]).reset_index(), ["cell", "split"], TABLED)
    parts = [moved.assign(compared=f"{STEPS} steps", kind="from base", baseline="base")]
    for cell in finished(AGAINST):
        rows = changes(frame, [cell], BASELINE, TABLED)
        parts.append(rows[rows["kind"] == "difference"])
    return pd.concat(parts, ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame[frame["kind"] == "from base"]
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
