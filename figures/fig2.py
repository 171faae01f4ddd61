"""Fig. 2: correct mass is lost at middle group sizes and kept at the two ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from tailmiss import tail_miss_prob

from ._categorical import scaled, sweep
from ._figure import PAGE
from ._palette import BLACK, BLUE, COLOURS, HOLLOW, PAPER, RED
from ._seeds import bars, over_seeds

CAPTION = """Categorical policy trained by group-relative updates (ratio surrogate, Adam, learning
rate 0.01; the paper names neither surrogate nor optimizer). (a) Success rate Q_pos and (b) retained
correct mass M_ret against the update, for four group sizes N. (c) Both at the last update against
N; shaded: M_ret below one half at gamma = 0; dotted: tail-miss probability of a non-anchor correct
action under the initial policy (Lemma 3.1). Filled, solid: gamma = 0; hollow, dashed: gamma = 1.
Means over seeds, 95 % t intervals cut at 1; open diamond (full scale): the paper's M_ret of about 1
at N = 131,072."""
SIZE = (PAGE, 2.75)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {
        "divisor": 16, "N": [2, 4, 16, 256, 2048, 8192], "gamma": [0, 1],
        "curves": [2, 16, 2048, 8192], "steps": 1000, "every": 50, "seeds": 4, "store": None,
    },
    "full": {
        "divisor": 1, "N": [2**k for k in range(1, 18)], "gamma": [0, 1],
        "curves": [2, 256, 8192, 131072], "steps": 1000, "every": 10, "seeds": 4, "store": None,
    },
}  # fmt: skip
VALUES = ["q_pos", "retained_mass"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    divisor = params["divisor"]
    grid = [
        (
            {"N": N, "gamma": gamma},
            scaled(
                divisor,
                group_size=N,
                gamma=gamma,
                steps=params["steps"],
                record_every=params["every"],
            ),
        )
        for N in sorted(params["N"], reverse=True)  # the longest runs first
        for gamma in params["gamma"]
    ]
    runs = sweep(grid, params, rng)
    last = runs.step == params["steps"]
    shown = runs[last | runs.N.isin(params["curves"])]
    table = over_seeds(shown, ["gamma", "N", "step"], VALUES)
    start = scaled(divisor)
    p = np.exp(start.initial_logits())
    p /= p.sum()
    table["tail_miss"] = tail_miss_prob(table.N, p[: start.n_correct].sum(), p[1])
    table["curve"] = table.N.isin(params["curves"]).astype(int)
    table["divisor"] = divisor
    return table.sort_values(["gamma", "N", "step"], ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    a, b, c = fig.subplots(1, 3, width_ratios=(1, 1, 1.35))
    curves = frame[frame.curve == 1]
    for axes, name, label in ((a, VALUES[0], "$Q_{pos}$"), (b, VALUES[1], "$M_{ret}$")):
        _curves(axes, curves, name)
        axes.set(xlabel="update", ylabel=label, xticks=range(0, 1001, 500))
    a.set_ylim(0.6, 1.01)
    b.set_ylim(-0.02, 1.05)
    right = _end_points(c, frame[frame.step == frame.step.max()])
    handles = [h for axes in (a, c, right) for h in axes.get_legend_handles_labels()[0]]
    handles.sort(key=lambda handle: not isinstance(handle, ErrorbarContainer))
    fig.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=7)
    for axes, letter in ((a, "(a)"), (b, "(b)"), (c, "(c)")):
        axes.text(0.0, 1.03, letter, transform=axes.transAxes, va="bottom")


def _curves(axes: Axes, curves: pd.DataFrame, name: str) -> None:
    look = dict(zip(sorted(curves.N.unique()), zip(COLOURS, HOLLOW, strict=False), strict=False))
    for (gamma, N), curve in curves.groupby(["gamma", "N"]):
        colour, marker = look[N]
        marks = curve[curve.step % 200 == 0]
        axes.plot(curve.step, curve[name], color=colour, ls="-" if gamma == 0 else "--", lw=0.9)
        axes.errorbar(
            marks.step, marks[name], bars(marks, name, top=1), color=colour, marker=marker,
            ls="none", markersize=3, elinewidth=0.8,
            markerfacecolor=None if gamma == 0 else "white",
            label=f"N = {N:,}" if gamma == 0 else None,
        )  # fmt: skip


def _end_points(c: Axes, ends: pd.DataFrame) -> Axes:
    right = c.twinx()
    right.grid(False)
    right.spines.right.set_visible(True)
    plain = ends[ends.gamma == 0]
    zone = plain[plain.retained_mass < 0.5].N
    edges = np.sqrt([zone.min() / 2 * zone.min(), zone.max() * 2 * zone.max()])
    c.axvspan(*edges, color="0.92", lw=0)
    places = (plain.N.min() * edges[0], edges[0] * edges[1], edges[1] * plain.N.max() * 1.3)
    for numeral, place in zip(("I", "II", "III"), places, strict=True):
        c.text(np.sqrt(place), 1.06, numeral, ha="center")
    for gamma, dash, fill in ((0, "-", None), (1, "--", "white")):
        part = ends[ends.gamma == gamma]
        for axes, name, colour, marker, label in (
            (c, "q_pos", BLUE, "o", "$Q_{pos}$"), (right, "retained_mass", RED, "s", "$M_{ret}$")
        ):  # fmt: skip
            axes.errorbar(
                part.N, part[name], bars(part, name, top=1), color=colour, marker=marker, ls=dash,
                lw=0.9, markersize=3.2, markerfacecolor=fill, elinewidth=0.8,
                label=rf"{label}, $\gamma$ = {gamma}",
            )  # fmt: skip
    right.plot(plain.N, plain.tail_miss, ":", color=BLACK, label="tail miss")
    if (ends.divisor == 1).all():
        right.plot(131072, 1.0, color=BLACK, ms=7, zorder=5, label="paper", **PAPER)
    c.set_xscale("log")
    c.set(xlabel="group size N", ylabel="$Q_{pos}$", ylim=(0.5, 1.12), xlim=(1.5, 3e5))
    c.set_yticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    right.set(ylabel="$M_{ret}$, tail miss", ylim=(0, 1.24), yticks=[0, 0.2, 0.4, 0.6, 0.8, 1.0])
    return right
