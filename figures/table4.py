"""Table 4: pass@1, pass@128 and pass@256 on mazes, beside the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from . import _maze
from ._figure import PAGE
from ._published import published
from ._seeds import bars

CAPTION = """Pass@K on held-out mazes after training, in percent, against the group size N. Filled:
ours, means over seeds with 95 % t intervals (above: window policy, 17x17 mazes; below: transformer,
4x4 cells). Open diamonds: the paper's Table 4 (3.9M-parameter transformer, 17x17 mazes, 20,000
steps). Ours learn less in their 2,000 updates: compare orders, not heights."""
SIZE = (PAGE, 4.2)
PARAMS = _maze.PRESETS
SHOWN = (1, 128, 256)


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """One row per arm and K where every arm has come and where this one ended.

    `gain` is over GRPO on the same base, mazes, N and step, seed by seed.
    """
    runs = _maze.runs(params, rng)
    runs = runs[runs.mazes == "all"]
    own = runs.groupby(_maze.ARM).step.transform("max")
    last = runs[(runs.step == own) | (runs.step == _maze.common_end(runs))]
    seed = ["policy", "N", "step", "seed", "k"]
    columns = [f"pass@{k}" for k in (*SHOWN, 2048)]
    long = last.melt([*_maze.ARM, "step", "seed"], columns, "k", "pass")
    long["pass"] *= 100
    long["k"] = long["k"].str.removeprefix("pass@").astype(int)
    plain = long[long.gamma == 0].set_index(seed)["pass"]
    places = pd.MultiIndex.from_frame(long[seed])
    long["gain"] = long["pass"] - plain.reindex(places).to_numpy()
    table = _maze.over_seeds(long, [*_maze.ARM, "step", "k"], ["pass", "gain"])
    base = runs[runs.step == 0].groupby("policy")[columns].mean()
    table["base"] = [
        100 * base.loc[p, f"pass@{k}"] for p, k in zip(table.policy, table.k, strict=True)
    ]
    paper = published("table4_maze").rename(columns={"value": "paper"})
    table = table.merge(paper, "left", ["N", "gamma", "k"])
    table.loc[table.weighting != "focal", "paper"] = np.nan
    return table.sort_values(["policy", "k", "N", "gamma", "weighting", "step"], ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame[frame.step == _maze.common_end(frame)]
    policies = [name for name in ("window", "transformer") if name in set(frame.policy)]
    panels = fig.subplots(len(policies), len(SHOWN), sharex=True, sharey="col", squeeze=False)
    for row, policy in zip(panels, policies, strict=True):
        for axes, k in zip(row, SHOWN, strict=True):
            rows = frame[(frame.policy == policy) & (frame.k == k) & (frame.weighting == "focal")]
            axes.axhline(rows.base.iloc[0], **_maze.BASE)
            for gamma, shift in _maze.APART.items():
                curve, look = rows[rows.gamma == gamma], _maze.LOOKS[gamma]
                axes.errorbar(
                    curve.N * shift, curve["pass"], bars(curve, "pass"), ms=3.5, elinewidth=0.8,
                    **look,
                )  # fmt: skip
                axes.plot(curve.N * shift, curve.paper, color=look["color"], **_maze.PAPER_LOOK)
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(frame.N.unique()), sorted(frame.N.unique()))
            axes.minorticks_off()
            axes.set_ylim(0, 100)
        row[0].set_ylabel(f"{policy}\npass@$K$, %")
    for axes, k in zip(panels[0], SHOWN, strict=True):
        axes.set_title(f"$K$ = {k}")
    for axes in panels[-1]:
        axes.set_xlabel("group size N")
    fig.legend(handles=_maze.handles(base=True, paper=True), loc="outside upper center", ncols=5)
