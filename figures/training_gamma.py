"""The focal exponent in a real training run, for three losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import COLOURS, HOLLOW, PAPER
from ._published import published
from ._training import LABELS, MEASURED, changes, config, curves, finished, intervals

CAPTION = """Table 6's question with an 84,000-parameter Qwen2, N = 8: the change that gamma makes
against gamma = 0 of the same seed and loss, on training prompts, after 300 steps (100 for one
million parameters) and at the training pass@1 that all gammas of a seed reach. Bars: 95 % t
intervals of the paired differences. Open diamonds: the paper's differences for its three models. On
policy (one update a batch) CISPO has DAPO's gradient and is left out of the picture. Four seeds;
eight for gamma = 1 with GRPO at the end."""
SIZE = (PAGE, 5.2)
PARAMS = MEASURED
GAMMAS = {0.0: "0", 0.5: ".5", 1.0: "1", 2.0: "2"}
CELLS = {
    "grpo": {g: "N=8" if g == 0 else f"N=8 gamma={text}" for g, text in GAMMAS.items()},
    "dapo": {g: f"dapo gamma={g:g}" for g in GAMMAS},
    "cispo": {g: f"cispo gamma={g:g}" for g in (0.0, 1.0)},
    "grpo, 4 inner steps": {0.0: "4 inner steps", 1.0: "4 inner steps gamma=1"},
    "cispo, 4 inner steps": {g: f"cispo, 4 inner steps gamma={g:g}" for g in (0.0, 1.0)},
    "grpo, 1M": {g: f"1M gamma={g:g}" for g in (0.0, 1.0)},
}
END, EQUAL = "at the end", "equal pass@1"
MEASURES = ("pass_1", "pass_256", "retained", "modes", "effective_modes", "rare_nll")
TABLED = (*MEASURES, "pass_4", "pass_16", "pass_64")


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    frame = curves()
    frame = frame[frame["split"] == "train"]
    parts = []
    for loss, cells in CELLS.items():
        done = finished(list(cells.values()))
        if cells[0.0] not in done or len(done) < 2:
            continue
        steps = config(cells[0.0])["steps"]
        rows = changes(frame, [c for c in done if c != cells[0.0]], cells[0.0], TABLED, step=steps)
        rows["compared"] = rows["compared"].replace(f"{steps} steps", END)
        gammas = {cell: gamma for gamma, cell in cells.items()}
        parts.append(rows.assign(gamma=rows["cell"].map(gammas), loss=loss))
    return pd.concat([*parts, _printed()], ignore_index=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(2, 3, sharex=True)
    frame = frame[frame["kind"] == "difference"]
    drawn = set(frame[frame["compared"] != "paper"]["loss"]) - {"cispo"}
    losses = [loss for loss in CELLS if loss in drawn]
    place = _places(frame, losses)
    for axes, measure in zip(panels.ravel(), MEASURES, strict=True):
        rows = frame[frame["measure"] == measure]
        paper = rows[rows["compared"] == "paper"]
        if len(paper):
            x = [place[g, "paper"] for g in paper["gamma"]]
            axes.plot(x, paper["value"], color="0.5", ms=3.5, label="paper", **PAPER)
        for i, loss in enumerate(losses):
            for j, compared in enumerate((END, EQUAL)):
                some = rows[(rows["loss"] == loss) & (rows["compared"] == compared)]
                intervals(
                    axes, [place[g, f"{loss}, {compared}"] for g in some["gamma"]], some,
                    color=COLOURS[i], ls="none", marker=HOLLOW[i],
                    markerfacecolor="white" if j else None, ms=4, label=f"{loss}, {compared}",
                )  # fmt: skip
        axes.axhline(0, color="k", lw=0.7)
        axes.set_xticks([1, 2, 3], ["0.5", "1", "2"])
        axes.set_xlim(0.5, 3.5)
        axes.set_ylabel(f"$\\Delta$ {LABELS[measure]}")
    for axes in panels[-1]:
        axes.set_xlabel(r"focal exponent $\gamma$")
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def _places(frame: pd.DataFrame, losses: Sequence[str]) -> dict[tuple[float, str], float]:
    """Where on the axis each series stands at each gamma: side by side, around the gamma's tick."""
    places = {}
    for tick, gamma in enumerate(GAMMAS):
        there = set(frame[frame["gamma"] == gamma]["loss"])
        names = [f"{loss}, {c}" for loss in losses if loss in there for c in (END, EQUAL)]
        for i, name in enumerate(("paper", *names)):
            places[gamma, name] = tick + 0.08 * (i - len(names) / 2)
    return places


def _printed() -> pd.DataFrame:
    """The paper's changes of pass@1 and pass@256, as fractions."""
    table = published("table6_gamma").query("split == 'math'")
    wide = table.set_index(["model", "method", "gamma", "k"])["value"].unstack("gamma") / 100
    change = wide.sub(wide[0.0], axis=0).drop(columns=0.0)
    change = change.reset_index().melt(["model", "method", "k"], value_name="value")
    change["measure"] = "pass_" + change["k"].astype(str)
    change["loss"] = change["method"].str.lower()
    change["cell"] = change["model"]
    return change[["cell", "measure", "value", "gamma", "loss"]].assign(
        split="math", baseline="gamma=0", compared="paper", kind="difference"
    )
