"""Group size in a real training run, at equal steps and at equal rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import COLOURS, DASHES, MARKERS, PAPER
from ._published import published
from ._training import (
    BASELINE,
    LABELS,
    MEASURED,
    common_pass_1,
    config,
    curves,
    finished,
    intervals,
    over_seeds,
    paired,
    where,
    where_training_reaches,
)

CAPTION = """Table 2's question with an 84,000-parameter Qwen2, TRL's GRPO and exact evaluation:
measures on training prompts against the group size, after 75 and 300 steps and after 600 rollouts a
prompt (300 steps at N = 2, 19 at N = 32), and at the training pass@1 that all sizes of a seed
reach; seeds are those that all sizes have. Stars: F-GRPO after 300 steps (open: gamma = .5). Bars:
95 % t intervals over four seeds; the table has the paired differences. Open diamonds: the paper's
rare NLL for Qwen2.5-7B."""
SIZE = (PAGE, 4.4)
PARAMS = MEASURED
SWEEP = tuple(f"N={N}" for N in (2, 4, 8, 16, 32))
LARGEST = SWEEP[-1]
FOCAL = ("N=8 gamma=.5", "N=8 gamma=1", "N=32 gamma=.5", "N=32 gamma=1")
COMPARED = {"75 steps": ("step", 75), "300 steps": ("step", 300), "600 rollouts": ("rollouts", 600)}
EQUAL = "equal pass@1"
MEASURES = ("pass_1", "pass_256", "retained", "modes", "effective_modes", "rare_nll")
TABLED = (*MEASURES, "pass_16")


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Rows `level`, and `difference`: paired, of N from 8, of F-GRPO from its own N and from 32."""
    frame = curves()
    frame = frame[frame["split"] == "train"]
    shared = set(common_pass_1(frame, finished(SWEEP)))
    parts = []
    for compared, (column, value) in COMPARED.items():
        cells = finished((*SWEEP, *FOCAL) if compared == "300 steps" else SWEEP)
        found = where(frame[frame["cell"].isin(cells)], column, value)
        parts += _levels_and_differences(found, compared, shared)
    sweep = frame[frame["cell"].isin(finished(SWEEP))]
    found = where_training_reaches(sweep, common_pass_1(sweep, finished(SWEEP)))
    parts += _levels_and_differences(found, EQUAL, shared)
    base = where(frame[(frame["cell"] == BASELINE) & frame["seed"].isin(shared)], "step", 0)
    base = over_seeds(base, ["cell"], TABLED)
    parts.append(base.assign(compared="base", cell="base", kind="level", baseline="-"))
    rows = pd.concat(parts, ignore_index=True)
    settings = {cell: config(cell) for cell in rows["cell"].unique() if cell != "base"}
    for name in ("group_size", "gamma"):
        rows[name] = rows["cell"].map({c: s[name] for c, s in settings.items()}).astype(float)
    paper = published("table2_group_size").query("split == 'math' and k == 1")
    printed = pd.DataFrame(
        {"cell": paper["method"], "measure": "rare_nll", "value": paper["delta_nll_rare"],
         "compared": "paper", "kind": "level", "baseline": "-",
         "group_size": paper["N"], "gamma": paper["gamma"]}
    )  # fmt: skip
    return pd.concat([rows, printed], ignore_index=True)


def _levels_and_differences(
    found: pd.DataFrame, compared: str, shared: set[int]
) -> list[pd.DataFrame]:
    level = over_seeds(found[found["seed"].isin(shared)], ["cell"], TABLED)
    parts = [level.assign(kind="level", baseline="-")]
    cells = found["cell"].unique()
    pairs = [(cell, cell.split()[0] if cell in FOCAL else BASELINE) for cell in cells]
    pairs += [(cell, LARGEST) for cell in FOCAL if cell.split()[0] == BASELINE]
    for cell, baseline in pairs:
        if cell != baseline and {cell, baseline} <= set(cells):
            pair = found[found["cell"].isin((cell, baseline))]
            change = over_seeds(paired(pair, baseline, TABLED), ["cell"], TABLED)
            parts.append(change.assign(kind="difference", baseline=baseline))
    return [part.assign(compared=compared) for part in parts]


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame[frame["kind"] == "level"]
    panels = fig.subplots(2, 3, sharex=True)
    for axes, measure in zip(panels.ravel(), MEASURES, strict=True):
        rows = frame[frame["measure"] == measure]
        for i, compared in enumerate((*COMPARED, EQUAL)):
            plain = rows[(rows["compared"] == compared) & (rows["gamma"] == 0)]
            plain = plain.sort_values("group_size")
            intervals(
                axes, plain["group_size"] * 1.06 ** (i - 1.5), plain, color=COLOURS[i],
                ls=DASHES[i], marker=MARKERS[i], label=compared, lw=1,
            )  # fmt: skip
        focal = rows[(rows["gamma"] > 0) & (rows["compared"] == "300 steps")]
        for j, (gamma, some) in enumerate(focal.groupby("gamma")):
            intervals(
                axes, some["group_size"] * 1.2, some, color=COLOURS[4 + j], ls="none",
                marker="*", ms=8, markerfacecolor=None if j else "white",
                label=f"300 steps, $\\gamma$ = {gamma:g}",
            )  # fmt: skip
        paper = rows[(rows["compared"] == "paper") & (rows["gamma"] == 0)]
        if len(paper):
            axes.plot(paper["group_size"], paper["value"], color="k", label="paper", **PAPER)
        base = rows[rows["compared"] == "base"]
        axes.axhline(base["value"].iloc[0], color="0.5", lw=0.8, label="base model")
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 4, 8, 16, 32], [2, 4, 8, 16, 32])
        axes.set_ylabel(LABELS[measure])
    for axes in panels[-1]:
        axes.set_xlabel("group size N")
    fig.legend(*panels[-1, -1].get_legend_handles_labels(), loc="outside upper center", ncols=4)
