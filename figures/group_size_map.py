"""Worst and covering group size over success probability and rare share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure

from tailmiss import covering_group_size, tail_miss_prob, worst_group_size

from ._figure import PAGE

CAPTION = """Left: the group size with the largest tail-miss probability, over the success
probability mu and the share rho of the correct mass that is rare. Middle: that largest probability.
Right: the smallest group size past it whose tail-miss probability is at most 0.01."""
SIZE = (PAGE, 2.7)
PALE = ListedColormap(colormaps["Blues"](np.linspace(0, 0.7, 256)))  # black lines stay legible
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"mu_pos": [0.01, 0.99], "rho": [0.001, 0.5], "points": 60, "delta": 0.01},
    "full": {"mu_pos": [0.01, 0.99], "rho": [0.001, 0.5], "points": 80, "delta": 0.01},
}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    (low, high), (rarest, commonest) = params["mu_pos"], params["rho"]
    mu_pos, rho = np.meshgrid(
        np.linspace(low, high, params["points"]),
        np.geomspace(rarest, commonest, params["points"]),
    )
    tau = mu_pos * rho
    worst = worst_group_size(mu_pos, tau)
    columns = {
        "mu_pos": mu_pos,
        "rho": rho,
        "worst_N": worst,
        "worst_tail_miss": tail_miss_prob(worst, mu_pos, tau),
        "covering_N": covering_group_size(mu_pos, tau, params["delta"]),
    }
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()})


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, 3, sharey=True)
    marks = {
        "worst_N": ("worst N", [4, 8, 16, 32, 64]),
        "worst_tail_miss": ("tail miss at worst N", [0.5, 0.7, 0.9]),
        "covering_N": ("covering N", [32, 128, 512, 2048, 8192]),
    }
    places = {  # of the lines' labels, clear of the frame
        "worst_N": [(0.35, 0.25), (0.3, 0.05), (0.24, 0.02), (0.14, 0.02), (0.08, 0.02),
                    (0.76, 0.004), (0.89, 0.004), (0.95, 0.004)],
        "worst_tail_miss": [(0.4, 0.27), (0.4, 0.12), (0.4, 0.026)],
        "covering_N": [(0.6, 0.2), (0.6, 0.06), (0.6, 0.015), (0.6, 0.004), (0.3, 0.0018)],
    }  # fmt: skip
    for axes, (column, (label, levels)) in zip(panels, marks.items(), strict=True):
        grid = frame.pivot(index="rho", columns="mu_pos", values=column)
        norm = None if column == "worst_tail_miss" else LogNorm()
        shade = axes.pcolormesh(
            grid.columns, grid.index, grid, norm=norm, cmap=PALE, rasterized=True
        )
        lines = axes.contour(
            grid.columns, grid.index, grid, levels=levels, colors="black", linewidths=0.9
        )
        axes.set_yscale("log")
        axes.clabel(lines, fontsize=6.5, fmt="%g", manual=places[column])
        axes.grid(False)
        axes.set_xlabel(r"success probability $\mu$")
        fig.colorbar(shade, ax=axes, label=label, location="top")
    panels[0].set_ylabel(r"rare share $\rho$")
