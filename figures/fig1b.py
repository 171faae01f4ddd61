"""Fig. 1b: pass@1 and pass@256 of four published runs on AIME25."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import COLUMN
from ._palette import BLUE, RED
from ._published import PRINTED, published

CAPTION = """Published numbers (Qwen2.5-7B on AIME25, Table 10): GRPO with group size 2, 8 and 32
and F-GRPO with 8. The arrow is the gain over GRPO at the same group size; the paper prints +3.5
for the first coordinate, its own table gives +3.4."""
SIZE = (COLUMN, 2.4)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator, panel: str = "1b") -> pd.DataFrame:
    points = published("fig1_points")
    return points[points.panel == panel].drop(columns=["panel", "coordinates_from"])


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    axes = fig.subplots()
    plain, focal = frame[frame.method == "GRPO"], frame[frame.method == "F-GRPO"].iloc[0]
    base = plain[plain.N == focal.N].iloc[0]
    for rows, mark, colour, size in ((plain, "o", BLUE, 5), (frame.tail(1), "*", RED, 10)):
        axes.plot(rows.pass1, rows.pass256, mark, color=colour, ms=size)
    for _, row in frame.iterrows():
        below, left = row.label == base.label, row.method == "F-GRPO"
        axes.annotate(
            row.label.replace("n=", "N = "),
            (row.pass1, row.pass256),
            (0 if left else 6, -11 if below else 6),
            textcoords="offset points",
            ha="right" if left else "left",
        )
    end = (focal.pass1, focal.pass256)
    axes.annotate(
        "", end, (base.pass1, base.pass256), arrowprops={"arrowstyle": "->", "color": RED}
    )
    middle = ((base.pass1 + focal.pass1) / 2, (base.pass256 + focal.pass256) / 2)
    gain = f"{focal.pass1 - base.pass1:+.1f} / {focal.pass256 - base.pass256:+.1f}"
    axes.annotate(gain, middle, (6, -10), textcoords="offset points", color=RED)
    axes.margins(0.18)
    axes.set(xlabel=f"{focal.benchmark} pass@1, percent", ylabel="pass@256, percent")
