"""Tail-miss theory inside a training run: groups of every step against the exact policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from ._figure import PAGE, read_csv
from ._palette import BLACK, COLOURS, DASHES, MARKERS
from ._training import MEASURED, OWN_NUMBERS, RESULTS, finished

CAPTION = """Share of groups that are mixed, and mixed without any of a prompt's least likely right
answers (those that hold 20 % of the base model's correct mass), while GRPO trains a small language
model. Lines: the closed forms at the exact policy of each step; markers: what the sampled groups
did, seeds pooled, with 95 % intervals. Right: 30-step blocks in standard errors, and the normal
density; of runs that draw the same random numbers (same seed and N) only one is counted."""
SIZE = (PAGE, 2.6)
PARAMS = MEASURED
EVENTS = {"mixed": "mixed groups", "tail_miss": "tail-miss groups"}
SHOWN = ("N=2", "N=8", "N=32")
COUNTED = ("right", *EVENTS)
BLOCK = 30


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Rows `share` (observed and expected by block) and `z` (one a run and block, and pooled)."""
    groups = read_csv(RESULTS / "groups.csv")
    groups["step"] = -(-groups["step"] // BLOCK) * BLOCK
    groups = groups[groups["cell"].isin(OWN_NUMBERS)]
    cells = finished(SHOWN)
    rows = []
    for event in COUNTED:
        columns = [event, f"{event}_expected", f"{event}_variance", "groups"]
        for kind, by in (
            ("share", ["cell", "step"]),
            ("z", ["cell", "seed", "step"]),
            ("run", ["cell", "seed"]),
            ("all", None),
        ):
            chosen = groups[groups["cell"].isin(cells)] if kind == "share" else groups
            if by is None:
                total = chosen[columns].sum().to_frame().T
            else:
                total = chosen.groupby(by, sort=False)[columns].sum().reset_index()
            total.columns = [*total.columns[:-4], "seen", "expected", "variance", "groups"]
            rows.append(total.assign(kind=kind, event=event))
    frame = pd.concat(rows, ignore_index=True)
    frame["cell"] = frame["cell"].fillna("all")
    frame["z"] = (frame["seen"] - frame["expected"]) / np.sqrt(frame["variance"])
    return frame[["kind", "event", "cell", "seed", "step", "seen", "expected", "groups", "z"]]


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, 3, width_ratios=(1, 1, 0.9))
    shares = frame[frame["kind"] == "share"]
    for axes, (event, label) in zip(panels, EVENTS.items(), strict=False):
        for i, cell in enumerate(c for c in SHOWN if c in set(shares["cell"])):
            rows = shares[(shares["cell"] == cell) & (shares["event"] == event)]
            style = {"color": COLOURS[i]}
            middle = rows["step"] - BLOCK / 2
            name = cell.replace("=", " = ")
            axes.plot(middle, rows["expected"] / rows["groups"], ls=DASHES[i], label=name, **style)
            error = (rows["seen"] - rows["expected"]) / rows["z"]  # standard error of the count
            axes.errorbar(
                middle, rows["seen"] / rows["groups"], 1.96 * error.fillna(0) / rows["groups"],
                fmt=MARKERS[i], ms=3, elinewidth=0.8, **style,
            )  # fmt: skip
        axes.set(xlabel="step", ylabel=f"share of {label}")
        axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
    panels[0].legend(ncols=3, fontsize=6.5, handlelength=1.6, columnspacing=1)
    axes = panels[2]
    grid = np.linspace(-4, 4, 200)
    bins = np.linspace(-4, 4, 17)
    for i, (event, label) in enumerate(EVENTS.items()):
        z = frame[(frame["kind"] == "z") & (frame["event"] == event)]["z"]
        heights, _ = np.histogram(z, bins, density=True)
        centres = (bins[1:] + bins[:-1]) / 2
        axes.plot(centres, heights, MARKERS[i + 3], color=COLOURS[i + 3], ms=4, label=label)
    axes.plot(grid, stats.norm.pdf(grid), color=BLACK, label="normal")
    axes.set(xlabel="(observed - predicted) / s.e.", ylabel="density", ylim=(0, 0.75))
    axes.legend(fontsize=6.5)
