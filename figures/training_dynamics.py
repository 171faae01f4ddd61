"""Training dynamics of a small language model, with and without the focal weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE, read_csv
from ._palette import COLOURS, DASHES
from ._training import LABELS, MEASURED, RESULTS, curves, finished, over_seeds

CAPTION = """An 84,000-parameter Qwen2 trained by TRL's GRPO on arithmetic with many right
answers, N = 8: exact measures on training prompts, and reward, entropy and length of the
rollouts. Lines are means over seeds, bands 95 % t intervals."""
SIZE = (PAGE, 5.0)
PARAMS = MEASURED
CELLS = ("N=8", "N=8 gamma=.5", "N=8 gamma=1", "N=8 gamma=2")
EXACT = ("pass_1", "pass_256", "retained", "modes", "effective_modes", "rare_nll")
SAMPLED = {"reward": "reward", "entropy": "entropy, nats", "tokens": "answer, tokens"}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    cells, exact = finished(CELLS), curves()
    exact = exact[exact["cell"].isin(cells) & (exact["split"] == "train")]
    groups = read_csv(RESULTS / "groups.csv")
    groups = groups[groups["cell"].isin(cells)]
    by = ["cell", "step"]
    return pd.concat([over_seeds(exact, by, EXACT), over_seeds(groups, by, list(SAMPLED))])


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(3, 3, sharex=True)
    for axes, (measure, label) in zip(
        panels.ravel(), {**{m: LABELS[m] for m in EXACT}, **SAMPLED}.items(), strict=True
    ):
        for i, cell in enumerate(c for c in CELLS if c in set(frame["cell"])):
            rows = frame[(frame["cell"] == cell) & (frame["measure"] == measure)]
            name = cell.replace("N=8", "").strip() or "gamma=0"
            axes.plot(rows["step"], rows["value"], ls=DASHES[i], color=COLOURS[i], label=name)
            axes.fill_between(
                rows["step"], rows["low"], rows["high"], color=COLOURS[i], alpha=0.15, lw=0
            )
        axes.set_ylabel(label)
    for axes in panels[-1]:
        axes.set_xlabel("step")
    panels[0, 0].legend()
