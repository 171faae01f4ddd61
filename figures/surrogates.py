"""Which surrogate and optimizer give the paper's simulation: the literal formula does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._categorical import scaled, sweep
from ._figure import PAGE
from ._palette import BLACK, COLOURS, DASHES, HOLLOW, PAPER
from ._seeds import bars, over_seeds

CAPTION = """Success rate Q_pos and retained correct mass M_ret after 1,000 updates of the
categorical policy at learning rate 0.01, for surrogates and optimizers that fit the paper's text,
which names neither. Claimed: Q_pos rises from 0.63 (grey) at every N; M_ret is kept at small N,
lost at middle N and again about 1 only at N = 131,072 (open diamond). Only the ratio surrogate with
Adam and no weight decay fits all of it at full scale. Means over seeds with 95 % t intervals, cut
at 1; variants are drawn side by side."""
SIZE = (PAGE, 2.9)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"divisor": 32, "N": [2, 32, 512, 4096], "steps": 1000, "seeds": 1,
              "store": None},
    "full": {"divisor": 1, "N": [2, 16, 256, 8192, 65536, 131072],
             "steps": 1000, "seeds": 4, "store": None},
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "ratio, Adam": {},
    "ratio, AdamW": {"optimizer": "adamw"},
    "literal, Adam": {"surrogate": "probability"},
    "literal, AdamW": {"surrogate": "probability", "optimizer": "adamw"},
    "literal, Adam, eps 1e-16": {"surrogate": "probability", "eps": 1e-16},
    "literal, distinct, Adam": {"surrogate": "probability", "distinct": True},
    "literal, distinct, eps 1e-12": {"surrogate": "probability", "distinct": True, "eps": 1e-12},
}
VALUES = ["q_pos", "retained_mass", "entropy"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    grid = [
        (
            {"variant": variant, "N": N, "divisor": params["divisor"]},
            scaled(
                params["divisor"],
                group_size=N,
                steps=params["steps"],
                record_every=params["steps"],
                **change,
            ),
        )
        for N in sorted(params["N"], reverse=True)
        for variant, change in VARIANTS.items()
    ]
    runs = sweep(grid, params, rng)
    table = over_seeds(runs[runs.step == params["steps"]], ["variant", "N", "divisor"], VALUES)
    return table.sort_values(["variant", "N"], ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, 2)
    for axes, name, label in zip(panels, VALUES, ("$Q_{pos}$", "$M_{ret}$"), strict=False):
        for i, variant in enumerate(VARIANTS):
            part = frame[frame.variant == variant]
            axes.errorbar(
                part.N * 1.06 ** (i - 3), part[name], bars(part, name, top=1.0),
                color=COLOURS[i % len(COLOURS)], marker=HOLLOW[i % len(HOLLOW)],
                ls=DASHES[i % len(DASHES)], markersize=3.2, lw=1,
                elinewidth=0.8, label=variant, markerfacecolor=None if i < 2 else "white",
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set(xlabel="group size N", ylabel=f"{label} after the last update")
    panels[0].axhline(0.63008, color="0.6", lw=0.8, zorder=0)
    if (frame.divisor == 1).all():
        panels[1].plot(131072, 1.0, color=BLACK, ms=8, zorder=5, label="paper", **PAPER)
    panels[0].set_ylim(0.4, 1.03)
    panels[1].set_ylim(-0.03, 1.05)
    handles, names = panels[1].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside lower center", ncols=4, fontsize=7)
