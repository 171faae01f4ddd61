"""What the training study measured, compared over seeds: the tables its figures are drawn from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ._figure import HERE, read_csv
from ._seeds import mean_interval

RESULTS = HERE / "training" / "results"
MEASURED: dict[str, dict[str, Any]] = {"quick": {}, "full": {}}
BASELINE = "N=8"
STEPS = 300
OWN_NUMBERS = (*(f"N={N}" for N in (2, 4, 8, 16, 32)), "other rollouts")
"""Cells whose rollouts share no random numbers. Runs of one seed and N draw the same ones, and as
their policies stay close their rollouts do too, also of models of two sizes: good for pairs, but
no further evidence."""
LABELS = {
    "pass_1": "pass@1",
    "pass_256": "pass@256",
    "retained": r"retained mass $M_{\mathrm{ret}}$",
    "modes": r"modes above $10^{-4}$",
    "effective_modes": "effective modes",
    "rare_nll": r"rare $\Delta$NLL",
}
FEWEST = 3
"""Seeds below which a cell is not compared: an interval of two is 25 standard errors wide."""


def curves() -> pd.DataFrame:
    """Exact measures by cell, seed, step and split, with the rollouts a prompt had by then."""
    frame = read_csv(RESULTS / "curves.csv")
    sizes = {name: config(name)["group_size"] for name in frame["cell"].unique()}
    return frame.assign(N=frame["cell"].map(sizes), rollouts=lambda f: f["N"] * f["step"])


def made() -> dict[str, Any]:
    """Which runs the results hold, and the commit, software and machine they were made with."""
    return dict(json.loads((RESULTS / "runs.json").read_text()))


def config(cell: str) -> dict[str, Any]:
    """The settings of a cell."""
    runs = made()["parameters"]
    return {**runs["default"], **runs["finished"][cell]["changes"]}


def finished(wanted: Sequence[str]) -> list[str]:
    """The cells among `wanted` that have enough seeds to be compared, in the given order."""
    done = made()["parameters"]["finished"]
    return [cell for cell in wanted if cell in done and len(done[cell]["seeds"]) >= FEWEST]


def where(frame: pd.DataFrame, column: str, value: float) -> pd.DataFrame:
    """Every run's measures where `column` (step, rollouts or pass_1) first reaches `value`.

    Between two evaluations measures are taken as linear; a run that never gets there is left out.
    """
    return pd.DataFrame(
        [
            {"cell": cell, "seed": seed, "split": split, **found}
            for (cell, seed, split), run in frame.groupby(["cell", "seed", "split"], sort=False)
            if (found := _reach(run, column, value)) is not None
        ]
    )


def where_training_reaches(frame: pd.DataFrame, pass_1: dict[int, float]) -> pd.DataFrame:
    """Every run's measures at the step where its pass@1 on training prompts is its seed's value."""
    parts = []
    for _, run in frame.groupby(["cell", "seed"], sort=False):
        seed = int(run["seed"].iloc[0])
        trained = run[run["split"] == "train"]
        found = _reach(trained, "pass_1", pass_1[seed]) if seed in pass_1 else None
        if found is not None:
            parts.append(where(run, "step", found["step"]))
    return pd.concat(parts, ignore_index=True)


def common_pass_1(frame: pd.DataFrame, cells: Sequence[str]) -> dict[int, float]:
    """For each seed that all cells have, the training pass@1 that all of them reach."""
    trained = frame[(frame["split"] == "train") & frame["cell"].isin(cells)]
    best = trained.groupby(["seed", "cell"])["pass_1"].max().unstack()
    lowest = best.dropna().min(axis=1)
    return dict(zip(map(int, lowest.index), map(float, lowest), strict=True))


def over_seeds(frame: pd.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pd.DataFrame:
    """Mean over seeds and its t interval: columns `by`, measure, value, low, high, seeds."""
    rows = []
    for names, part in frame.groupby(list(by), sort=False):
        for measure in measures:
            values = part[measure].dropna().to_numpy(float)
            if len(values):
                value, low, high = mean_interval(values, FEWEST)
                found = {"value": value, "low": low, "high": high, "seeds": len(values)}
                rows.append({**dict(zip(by, names, strict=True)), "measure": measure, **found})
    return pd.DataFrame(rows)


def paired(frame: pd.DataFrame, baseline: str, measures: Sequence[str]) -> pd.DataFrame:
    """Each run's measures minus those of the baseline cell with the same seed and split."""
    keys = ["seed", "split"]
    own = frame[frame["cell"] == baseline].set_index(keys)[list(measures)]
    others = frame[frame["cell"] != baseline].set_index([*keys, "cell"])[list(measures)]
    return others.sub(own, axis=0).dropna(how="all").reset_index()


def changes(
    frame: pd.DataFrame,
    cells: Sequence[str],
    baseline: str,
    measures: Sequence[str],
    *,
    step: int = STEPS,
) -> pd.DataFrame:
    """Levels of the cells and of the baseline, and paired changes of the cells against it.

    Once after `step` steps and once at the training pass@1 that all these runs of a seed reach.
    Splits that are measured only before and after training have no value at the latter.
    """
    own = frame[frame["cell"].isin((baseline, *cells))]
    often = own[~own["split"].isin(("large", "four"))]
    common = common_pass_1(own, (baseline, *cells))
    parts = []
    for compared, found in (
        (f"{step} steps", where(own, "step", step)),
        ("equal pass@1", where_training_reaches(often, common)),
    ):
        for kind, rows in (("level", found), ("difference", paired(found, baseline, measures))):
            means = over_seeds(rows, ["cell", "split"], measures)
            parts.append(means.assign(baseline=baseline, compared=compared, kind=kind))
    return pd.concat(parts, ignore_index=True)


def intervals(
    axes: Axes, x: Any, rows: pd.DataFrame, *, horizontal: bool = False, **style: Any
) -> None:
    """Means with their interval bars, which too few seeds leave out."""
    reach = np.nan_to_num(
        np.abs(np.array([rows["value"] - rows["low"], rows["high"] - rows["value"]], float))
    )
    if horizontal:
        axes.errorbar(rows["value"], x, xerr=reach, **style)
    else:
        axes.errorbar(x, rows["value"], yerr=reach, **style)


def _reach(run: pd.DataFrame, column: str, value: float) -> dict[str, float] | None:
    x = run[column].to_numpy(float)
    reached = np.flatnonzero(x >= value - 1e-12)
    if not len(reached):
        return None
    right = int(reached[0])
    left = max(right - 1, 0)
    share = 1.0 if right == left else (value - x[left]) / (x[right] - x[left])
    numbers = run.select_dtypes("number").drop(columns="seed")
    ends = numbers.iloc[left].to_numpy(float), numbers.iloc[right].to_numpy(float)
    return dict(zip(numbers.columns, ends[0] + share * (ends[1] - ends[0]), strict=True))
