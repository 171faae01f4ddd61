"""Training dynamics of a small language model, with and without the focal weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE, read_csv
from ._palette import COLOURS, DASHES
from ._training import LABELS, MEASURED, RESULTS, STEPS, curves, finished, over_seeds, paired

CAPTION = """An 84,000-parameter Qwen2 trained by TRL's GRPO on arithmetic with many right answers,
N = 8: exact measures on training prompts, and reward, entropy and length of the rollouts. Lines are
means over four seeds (gamma = 0 and 1: eight, with 95 % t intervals as bands), and start apart for
that reason. The table also has the runs with the DAPO and CISPO losses, and paired differences from
gamma = 0 at the end."""
SIZE = (PAGE, 5.0)
PARAMS = MEASURED
CELLS = ("N=8", "N=8 gamma=.5", "N=8 gamma=1", "N=8 gamma=2")
DAPO, CISPO = (
    tuple(f"{loss} gamma={g}" for g in ("0", "0.5", "1", "2")) for loss in ("dapo", "cispo")
)
EXACT = ("pass_1", "pass_256", "retained", "modes", "effective_modes", "rare_nll")
BANDED = 8
SAMPLED = {"reward": "reward", "entropy": "entropy, nats", "tokens": "answer, tokens"}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Rows `level`, and `difference`: at the end, paired, from gamma = 0 with the same loss."""
    exact, groups = curves(), read_csv(RESULTS / "groups.csv")
    exact, groups = exact[exact["split"] == "train"], groups.assign(split="train")
    parts = []
    for baseline, *others in (CELLS, DAPO, CISPO):
        cells = finished((baseline, *others))
        for frame, measures in ((exact, EXACT), (groups, tuple(SAMPLED))):
            own = frame[frame["cell"].isin(cells)]
            parts.append(over_seeds(own, ["cell", "step"], measures).assign(kind="level"))
            if baseline in cells and len(cells) > 1:
                change = paired(own[own["step"] == STEPS], baseline, measures).assign(step=STEPS)
                means = over_seeds(change, ["cell", "step"], measures)
                parts.append(means.assign(kind="difference"))
    return pd.concat(parts, ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame[frame["kind"] == "level"]
    panels = fig.subplots(3, 3, sharex=True)
    for axes, (measure, label) in zip(
        panels.ravel(), {**{m: LABELS[m] for m in EXACT}, **SAMPLED}.items(), strict=True
    ):
        for i, cell in enumerate(c for c in CELLS if c in set(frame["cell"])):
            rows = frame[(frame["cell"] == cell) & (frame["measure"] == measure)]
            name = (cell.removeprefix("N=8").strip() or "gamma=0").replace("gamma=", r"$\gamma$ = ")
            axes.plot(rows["step"], rows["value"], ls=DASHES[i], color=COLOURS[i], label=name)
            if rows["seeds"].min() >= BANDED:
                axes.fill_between(
                    rows["step"], rows["low"], rows["high"], color=COLOURS[i], alpha=0.15, lw=0
                )
        axes.set_ylabel(label)
    for axes in panels[-1]:
        axes.set_xlabel("step")
    panels[0, 0].legend()
