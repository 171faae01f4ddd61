"""Fig. 7: mazes during training, one column a group size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from . import _maze
from ._figure import PAGE

POLICY = "window"
CAPTION = """Mazes with one correct path during training, one column a group size N: reward on
training mazes, and exact pass@1 and pass@2048 on held-out mazes. Window policy, 17x17 mazes.
Dashed: the warm-started base. Means over seeds; bands: 95 % t intervals."""
SIZE = (PAGE, 4.2)
PARAMS = _maze.only(POLICY)
ROWS = {"reward": "train reward", "pass@1": "test pass@1", "pass@2048": "test pass@2048"}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    table = _maze.summary(_maze.runs(params, rng))
    columns = [f"{name}{end}" for name in ROWS for end in ("", "_low", "_high")]
    return table[[*_maze.ARM, "step", "seeds", *columns]]


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    sizes = sorted(frame.N.unique())
    panels = fig.subplots(len(ROWS), len(sizes), sharex="col", sharey="row", squeeze=False)
    for row, (name, label) in zip(panels, ROWS.items(), strict=True):
        for axes, N in zip(row, sizes, strict=True):
            _maze.curves(axes, frame[frame.N == N], name)
            axes.margins(x=0)
        row[0].set_ylabel(label)
        low, high = row[0].get_ylim()
        row[0].set_ylim(max(low, 0) if name == "pass@2048" else 0, min(high, 1))
    for axes, N in zip(panels[0], sizes, strict=True):
        axes.set_title(f"$N$ = {N}")
    for axes, N in zip(panels[-1], sizes, strict=True):
        axes.set_xlabel("update")
        axes.set_xticks([0, frame[frame.N == N].step.max() // 2])
    made = _maze.handles(set(frame.gamma), controls=set(frame.weighting), base=True)
    fig.legend(handles=made, loc="outside upper center", ncols=4 if len(made) < 5 else 3)
