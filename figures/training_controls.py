"""Is it the focal weight? Controls and ReCo against plain GRPO in a real training run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import BLUE, RED
from ._training import BASELINE, LABELS, MEASURED, changes, curves, finished, intervals

CAPTION = """Table 3's question, and ReCo's ablation, with an 84,000-parameter Qwen2 at N = 8:
change against plain GRPO of the same seed on training prompts, after 300 steps (filled) and at the
training pass@1 that both reach (open). "other rollouts" repeats plain GRPO with other random
numbers: the noise floor. The table also compares ReCo with four plain inner steps, and gamma = 1
with every control. Bars: 95 % t intervals of the paired differences: four seeds, eight for gamma =
1."""
SIZE = (PAGE, 4.2)
PARAMS = MEASURED
FOCAL, INNER = "N=8 gamma=1", "4 inner steps"
CELLS = (
    FOCAL,
    "other rollouts",
    "low learning rate",
    "constant weight",
    "no clipping",
    "entropy bonus",
    "KL to the base",
    "differential smoothing",
    INNER,
    "4 inner steps gamma=1",
    "ReCo response",
    "ReCo token",
    "ReCo",
    "ReCo gamma=1",
)
FOUR = ("4 inner steps gamma=1", "ReCo token", "ReCo", "ReCo gamma=1")
MEASURES = ("pass_1", "pass_256", "retained", "modes", "rare_nll")
TABLED = (*MEASURES, "pass_16")


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    frame = curves()
    frame = frame[frame["split"] == "train"]
    pairs = [
        *((cell, BASELINE) for cell in CELLS),
        *((cell, INNER) for cell in FOUR),
        *((FOCAL, cell) for cell in CELLS if cell != FOCAL),
    ]
    parts = [
        changes(frame, [cell], baseline, TABLED).query("kind == 'difference'")
        for cell, baseline in pairs
        if len(finished((cell, baseline))) == 2
    ]
    return pd.concat(parts, ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame[frame["baseline"] == BASELINE]
    cells = [cell for cell in CELLS if cell in set(frame["cell"])][::-1]
    panels = fig.subplots(1, len(MEASURES), sharey=True)
    for axes, measure in zip(panels, MEASURES, strict=True):
        rows = frame[frame["measure"] == measure]
        for compared, colour, lift in (("300 steps", BLUE, 0.12), ("equal pass@1", RED, -0.12)):
            some = rows[rows["compared"] == compared]
            y = [cells.index(cell) + lift for cell in some["cell"]]
            intervals(
                axes, y, some, horizontal=True, color=colour, ls="none", label=compared,
                marker="o" if lift > 0 else "s", markerfacecolor=colour if lift > 0 else "white",
            )  # fmt: skip
        axes.axvline(0, color="k", lw=0.7)
        axes.set_xlabel(f"$\\Delta$ {LABELS[measure].replace('mass ', '').replace(' above', ' >')}")
        axes.locator_params(axis="x", nbins=3)
    names = [cell.removeprefix("N=8 ").replace("gamma=", r"$\gamma$ = ") for cell in cells]
    panels[0].set_yticks(range(len(cells)), names, fontsize=7)
    panels[0].set_ylim(-0.6, len(cells) - 0.4)
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
