"""Fig. 6: mazes with one correct path, after training, against the group size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from . import _maze
from ._figure import PAGE
from ._published import published
from ._seeds import bars

CAPTION = """Mazes with one correct path: -ln pass@K on held-out mazes after training, against the
group size N (lower is better). Above: a window policy of 6,000 parameters on 17x17 mazes; below: a
transformer of 0.1M parameters on mazes of 4x4 cells (N > 32 was not run); after 2,000 updates.
Dashed: the warm-started base. Means over 4 seeds with 95 % t intervals; pass@K is exact. Open
diamonds: the paper's transformer (3.9M parameters, 17x17 mazes, 20,000 steps), whose Table 4 gives
K = 1 and 128."""
SIZE = (PAGE, 4.0)
PARAMS = _maze.PRESETS
SHOWN = (1, 128, 1024, 2048)
NAMES = {"window": "window, 17x17", "transformer": "transformer, 4x4 cells"}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    table = _maze.summary(_maze.runs(params, rng))
    table = table[table.weighting == "focal"]
    ends = table[(table.step == 0) | (table.step == _maze.common_end(table))]
    paper = published("table4_maze").pivot(index=["N", "gamma"], columns="k", values="value")
    for k in (1, 128):
        share = paper[k].rename(f"paper_nl_pass@{k}") / 100
        ends = ends.merge(-np.log(share), "left", left_on=["N", "gamma"], right_index=True)
    return ends.sort_values([*_maze.ARM, "step"], ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    policies = [name for name in NAMES if name in set(frame.policy)]
    panels = fig.subplots(len(policies), len(SHOWN), sharex=True, squeeze=False)
    for row, policy in zip(panels, policies, strict=True):
        for axes, k in zip(row, SHOWN, strict=True):
            _panel(axes, frame[frame.policy == policy], k, sorted(frame.N.unique()))
        row[0].set_ylabel(f"{NAMES[policy]}\n$-\\ln$ pass@$K$")
    for axes, k in zip(panels[0], SHOWN, strict=True):
        axes.set_title(f"$K$ = {k:,}")
    for axes in panels[-1]:
        axes.set_xlabel("group size N")
    fig.legend(handles=_maze.handles(base=True, paper=True), loc="outside upper center", ncols=5)


def _panel(axes: Axes, frame: pd.DataFrame, k: int, ticks: list[int]) -> None:
    name = f"nl_pass@{k}"
    axes.axhline(frame[frame.step == 0][name].mean(), **_maze.BASE)
    after = frame[frame.step > 0]
    for gamma, shift in _maze.APART.items():
        curve, look = after[after.gamma == gamma], _maze.LOOKS[gamma]
        axes.errorbar(
            curve.N * shift, curve[name], bars(curve, name), ms=3.5, elinewidth=0.8, **look
        )
        if k in (1, 128):
            paper = curve[f"paper_{name}"]
            axes.plot(curve.N * shift, paper, color=look["color"], **_maze.PAPER_LOOK)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
