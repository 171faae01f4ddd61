"""The numbers the F-GRPO paper printed (arXiv 2602.06717 v2), and the two ways they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from ._figure import PUBLISHED, read_csv
from ._palette import COLOURS, MARKERS

PRINTED: dict[str, dict[str, Any]] = {"quick": {}, "full": {}}
BENCHMARKS = (
    "AvgMath", "AIME24", "AIME25", "AMC23", "MATH500", "Minerva", "Olympiad",
    "AvgOOD", "IFEval", "SynLogic", "GPQA",
)  # fmt: skip
MODELS = ("Qwen2.5-7B", "Qwen3-4B-Base", "Llama-3.2-3B-Instruct")
METHODS = ("GRPO", "DAPO", "CISPO")
SPLITS = {"math": "math", "ood": "OOD"}
_GAINS = LinearSegmentedColormap.from_list(
    "gains", ["#D55E00", "#fbe6d9", "white", "#dcecf6", "#0072B2"]
)
_LEVELS = LinearSegmentedColormap.from_list("levels", ["white", "#56B4E9"])


def published(name: str) -> pd.DataFrame:
    """One printed table, as transcribed into figures/published."""
    return read_csv(PUBLISHED / f"{name}.csv")


def heat(axes: Axes, table: pd.DataFrame, *, gains: bool = False) -> None:
    """A table of numbers on a coloured ground; gains are signed and centred on white."""
    values = table.to_numpy(float)
    colours: Colormap
    if gains:
        reach = float(np.nanmax(np.abs(values)))
        colours, low, high = _GAINS, -reach, reach
    else:
        colours, low, high = _LEVELS, 0.0, 100.0
    axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        bold = "bold" if str(table.columns[column]).startswith("Avg") else "normal"
        text = f"{value:+.1f}" if gains else f"{value:.1f}"
        axes.text(column, row, text, ha="center", va="center_baseline", fontsize=6.5, weight=bold)
    axes.set_xticks(range(len(table.columns)), table.columns, fontsize=7)
    axes.set_yticks(range(len(table.index)), table.index, fontsize=7)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def heat_by_k(frame: pd.DataFrame, rows: list[str], fig: Figure) -> None:
    """Pass@1 above pass@256: one row a method, one column a benchmark."""
    for axes, k in zip(fig.subplots(2, 1), (1, 256), strict=True):
        table = frame[frame.k == k].pivot(index="row", columns="benchmark", values="value")
        heat(axes, table.loc[rows, list(BENCHMARKS)])
        axes.set_xlabel(f"pass@{k}, percent")


def passk_data(model: str) -> pd.DataFrame:
    """The pass@k curves of one model (Tables 12-14)."""
    table = published("tables12_14_passk")
    return table[table.model == model].drop(columns="model")


def passk_panels(frame: pd.DataFrame, fig: Figure) -> None:
    """One panel a benchmark: each method plain (dashed) and with the focal weight (solid)."""
    panels = fig.subplots(3, 3, sharex=True)
    for axes, (benchmark, panel) in zip(
        panels.flat, frame.groupby("benchmark", sort=False), strict=True
    ):
        for method, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=False):
            for focal, dash in ((0, (0, (4, 1.5))), (1, "-")):
                curve = panel[(panel.method == method) & (panel.focal == focal)]
                label = f"F-{method}" if focal else method
                face = colour if focal else "white"
                axes.plot(curve.k, curve.value, color=colour, ls=dash, marker=marker, ms=3,
                          mfc=face, lw=1.1, label=label)  # fmt: skip
        axes.text(0.04, 0.95, benchmark, transform=axes.transAxes, va="top")
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 4, 16, 64, 256], [1, 4, 16, 64, 256])
    for axes in panels[-1]:
        axes.set_xlabel("k")
    for axes in panels[:, 0]:
        axes.set_ylabel("pass@k, percent")
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
