"""What multiplies the gradient of a token in each reading of ReCo's variance ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss.reco import gradient_factor

from ._figure import PAGE
from ._palette import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY

CAPTION = """Factor of w A grad log pi against the probability p of the sampled token; clip range
0.2. Left: on fresh rollouts (p = p_old) every detached reading is GRPO's; only differentiating the
ratio (C) and the absolute weight (F) act. Right: rollout probability 0.3 and 0.9, above for
positive and below for negative advantage; a line at 0 is masked. GRPO's mask confines p to one side
of the rollout; that of B lets p run to the mirror image 1 - p_old."""
SIZE = (PAGE, 4.2)
PARAMS: dict[str, dict[str, Any]] = {"quick": {"p_old": [0.3, 0.9], "points": 99}}
PARAMS["full"] = PARAMS["quick"]
LOOKS: dict[str, tuple[str, str, Any, float]] = {
    "importance": ("GRPO", BLACK, "-", 1.8),
    "variance": ("A  detached, no clip", ORANGE, "-", 2.6),
    "variance_ratio_mask": ("D  detached, GRPO's mask", SKY, (0, (1, 1)), 2.2),
    "variance_ppo": ("B  detached, clipped on itself", BLUE, "-", 1.1),
    "variance_cispo": ("E  held in the clip range", GREEN, (0, (5, 1.5)), 1.2),
    "variance_autograd": ("C  differentiated", RED, (0, (5, 1.5, 1, 1.5)), 1.2),
    "variance_absolute": ("F  4p(1-p)", PINK, (0, (3, 1, 1, 1, 1, 1)), 1.2),
}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    p = np.linspace(0.01, 0.99, params["points"])
    frames = []
    for reading in LOOKS:
        for p_old in (np.nan, *params["p_old"]):
            for sign in (1, -1):
                start = p if np.isnan(p_old) else p_old
                factor = gradient_factor(reading, p, start, sign)
                row = {"reading": reading, "p_old": p_old, "advantage": sign, "p": p}
                frames.append(pd.DataFrame(row | {"factor": factor}))
    return pd.concat(frames, ignore_index=True).round(7)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    grid = fig.subplots(2, 3, sharex=True)
    rollouts = [np.nan, *sorted(frame.p_old.dropna().unique())]
    for column, p_old in enumerate(rollouts):
        own = frame[frame.p_old.isna() if np.isnan(p_old) else frame.p_old == p_old]
        for row, sign in enumerate((1, -1)):
            axes = grid[row, column]
            if row and not column:
                axes.set_axis_off()
                continue
            for reading, (label, colour, dash, width) in LOOKS.items():
                line = own[(own.reading == reading) & (own.advantage == sign)]
                axes.plot(line.p, line.factor, color=colour, ls=dash, lw=width, label=label)
            axes.set_ylim(-3.2, 3.2)
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("p")
            where = (
                "on fresh rollouts" if not column else rf"$p_{{old}}$ = {p_old:g}, A {'><'[row]} 0"
            )
            axes.set_title(where, pad=3)
            if column:
                axes.axvline(p_old, color=BLACK, lw=0.6, ls=":")
    grid[0, 0].set_ylabel("factor")
    grid[1, 0].legend(*grid[0, 0].get_legend_handles_labels(), loc="center left", handlelength=3)
