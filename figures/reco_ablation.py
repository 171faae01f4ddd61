"""ReCo's two levels apart, each reading of them, and more inner steps, at equal pass@1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import BLACK, COLOURS, MARKERS
from ._reco_runs import at_equal_success, mean_interval, run_methods

CAPTION = """Paired difference to GRPO with as many inner steps, where pass@1 first reaches a given
multiple of its start; mean and 95 % interval over seeds, each averaged over learning rates (the
same for all methods). A missing mark: no run got there. F-GRPO is shown for scale. L: tokens over
which the response weight averages the log-likelihood, 16 for ReCo itself; L = 4 and L = 1 have no
cap and are self-normalised."""
SIZE = (PAGE, 4.6)
_CONFIG = {"prompts": 16, "length": 8, "vocabulary": 8, "strategies": 12, "samples": 8}
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {
        "seeds": 2, "inner": [1, 4], "rates": [1.0], "updates": 60, "records": 6, "factor": 1.3,
        "config": _CONFIG, "store": None,
    },
    "full": {
        "seeds": 8, "inner": [1, 4, 16], "rates": [0.5, 1.0], "updates": 400, "records": 20,
        "factor": 2.5, "config": {"samples": 12}, "store": None,
    },
}  # fmt: skip
METHODS = (
    "GRPO", "response only", "token only", "ReCo", "F-GRPO", "token, A unclipped",
    "token, C autograd", "token, D ratio mask", "token, E CISPO", "token, F absolute",
    "response, self-normalised", "response, L = 4", "response, L = 1",
)  # fmt: skip
# On fresh rollouts these are GRPO; "token only" is kept there, to show it.
NEEDS_INNER_STEPS = ("token, A unclipped", "token, D ratio mask", "token, E CISPO")
MEASURES = {
    "pass_at_64": "pass@64",
    "retained_mass": "retained mass",
    "self_bleu": "Self-BLEU",
    "variance_early": "early token variance",
}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    cells = [
        (method, inner, rate)
        for inner in params["inner"]
        for method in METHODS
        for rate in params["rates"]
        if inner > 1 or method not in NEEDS_INNER_STEPS
    ]
    runs = run_methods(cells, params, rng)
    matched = at_equal_success(runs, params["factor"])
    columns = [
        "inner", "method", "measure", "value", "difference", "low", "high", "reached", "runs",
        "updates", "clipped_share", "net_push",
    ]  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    keys = ["inner", "rate", "seed"]
    for inner, method in dict.fromkeys((inner, method) for method, inner, _ in cells):
        own = matched[(matched.method == method) & (matched.inner == inner)].set_index(keys)
        base = matched[(matched.method == "GRPO") & (matched.inner == inner)].set_index(keys)
        both = own.index.intersection(base.index)
        total = params["seeds"] * len(params["rates"])
        side = [own.loc[both][name].mean() for name in ("updates", "clipped_share", "net_push")]
        for measure in (*MEASURES, "pass_at_8", "alive", "distinct_2", "variance_middle"):
            gap = own.loc[both][measure] - base.loc[both][measure]
            by_seed = gap.groupby("seed").mean()
            value = own.loc[both][measure].mean()
            rows.append(
                (inner, method, measure, value, *mean_interval(by_seed), len(both), total, *side)
            )
    return pd.DataFrame(rows, columns=columns)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    shown = [method for method in METHODS if method != "GRPO"]
    place = {method: len(shown) - i for i, method in enumerate(shown)}
    sizes = sorted(frame.inner.unique())
    grid = fig.subplots(1, len(MEASURES), sharey=True)
    for axes, (measure, title) in zip(grid, MEASURES.items(), strict=True):
        for i, inner in enumerate(sizes):
            rows = frame[(frame.measure == measure) & (frame.inner == inner)]
            rows = rows[(rows.method != "GRPO") & rows.difference.notna()]
            y = rows.method.map(place).to_numpy(float) + 0.24 * (len(sizes) // 2 - i)
            bars = np.abs(rows[["low", "high"]].to_numpy().T - rows.difference.to_numpy())
            axes.errorbar(
                rows.difference, y, xerr=np.nan_to_num(bars), fmt=MARKERS[i], color=COLOURS[i],
                ms=3.5, elinewidth=0.8, label=f"{inner} inner step" + ("s" if inner > 1 else ""),
            )  # fmt: skip
        axes.axvline(0, color=BLACK, lw=0.7)
        axes.set(xlabel=f"{title}\nminus GRPO's")
    grid[0].set_yticks(list(place.values()), list(place))
    fig.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(sizes))
