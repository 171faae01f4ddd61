"""ReCo beside GRPO, F-GRPO, DAPO and 80/20 in the token simulator, over training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import BLACK, BLUE, GREEN, ORANGE, PAPER, PINK
from ._published import published
from ._reco_runs import against, run_methods
from ._seeds import mean_interval

CAPTION = """Token policies trained by eight methods, 4 inner steps on each batch of rollouts,
N = 8; means and 95 % intervals over seeds that share their tasks. Dashed: with ReCo (response
weight and clipped variance ratio). Fourth panel: the same runs, pass@64 against pass@1. Variance:
p(1-p) of the sampled token at the end, relative to GRPO. Last panel: pass@64 at the end, beside the
paper's averages over five benchmarks (open diamonds). The table also has 1 inner step."""
SIZE = (PAGE, 4.3)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {
        "seeds": 3, "inner": [4], "rate": 1.0, "updates": 60, "records": 4, "factor": 1.3,
        "store": None,
        "settings": {"shared": {}}, "config": {
            "prompts": 16, "length": 8, "vocabulary": 8, "strategies": 12, "samples": 4,
        },
    },
    "full": {
        "seeds": 12, "inner": [1, 4], "rate": 0.5, "updates": 400, "records": 20, "factor": 2.25,
        "store": None,
        "settings": {"shared": {}}, "config": {"samples": 12},
    },
}  # fmt: skip
FAMILIES = {
    "GRPO": (BLUE, "o"),
    "F-GRPO": (GREEN, "^"),
    "DAPO": (ORANGE, "s"),
    "80/20": (PINK, "v"),
}
WITH_RECO = {
    "GRPO": "ReCo", "F-GRPO": "ReCo + F-GRPO", "DAPO": "ReCo + DAPO", "80/20": "ReCo + 80/20",
}  # fmt: skip
MEASURES = (
    "pass_at_1", "pass_at_8", "pass_at_64", "pass_at_256", "retained_mass", "alive", "distinct_2",
    "self_bleu", "variance_early", "variance_middle", "variance_late", "entropy", "clipped_share",
    "net_push",
)  # fmt: skip
Last = dict[tuple[str, str], float]
PAPER_VARIANCE = {"variance_early": 2.5, "variance_middle": 2.2}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    methods = [method for pair in WITH_RECO.items() for method in pair]
    cells = [
        ("shared", method, inner, params["rate"]) for inner in params["inner"] for method in methods
    ]
    runs = run_methods(cells, params, rng)
    rows = []
    for (inner, method, updates), records in runs.groupby(
        ["inner", "method", "updates"], sort=False
    ):
        for measure in MEASURES:
            mean, low, high = mean_interval(records[measure])
            rows.append((inner, method, updates, measure, mean, low, high, len(records)))
    for family, method in (*WITH_RECO.items(), ("GRPO", "F-GRPO")):
        gaps = against(runs[runs.method.isin([family, method])], params["factor"], family)
        for _, row in gaps[gaps.method == method].iterrows():
            name = f"{row.measure} at equal pass@1 minus {family}"
            interval = row.difference, row.low, row.high
            rows.append((row.inner, method, row.updates, name, *interval, row.reached))
    columns = ["inner", "method", "updates", "measure", "mean", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns).round(7)


def _curves(frame: pd.DataFrame, measure: str, axes: Axes, title: str) -> None:
    for place, (family, method, colour, marker) in enumerate(_series()):
        curve = frame[(frame.measure == measure) & (frame.method == method)]
        ahead = method != family
        axes.plot(
            curve.updates, curve["mean"], color=colour, ls="--" if ahead else "-", lw=1.1,
            marker=marker, markevery=(place, 8), ms=3, label=method,
            mfc="white" if ahead else colour,
        )  # fmt: skip
        shown = curve.iloc[place::8]
        bars = np.abs(shown[["low", "high"]].to_numpy().T - shown["mean"].to_numpy())
        axes.errorbar(shown.updates, shown["mean"], bars, fmt="none", ecolor=colour, elinewidth=0.7)
    axes.set(xlabel="gradient steps", title=title)


def _series() -> list[tuple[str, str, str, str]]:
    return [
        (family, method, *look)
        for family, look in FAMILIES.items()
        for method in (family, WITH_RECO[family])
    ]


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    frame = frame[(frame.inner == frame.inner.max()) & frame.measure.isin(MEASURES)]
    grid = fig.subplots(2, 4)
    ends = frame[frame.updates == frame.updates.max()]
    last = dict(zip(zip(ends.method, ends.measure, strict=True), ends["mean"], strict=True))
    for axes, measure, title in zip(
        (*grid[0, :3], *grid[1, :2]),
        ("pass_at_1", "pass_at_64", "retained_mass", "distinct_2", "self_bleu"),
        ("pass@1", "pass@64", "retained correct mass", "Distinct-2", "Self-BLEU"),
        strict=True,
    ):
        _curves(frame, measure, axes, title)
    _frontier(frame, grid[0, 3])
    _variance(last, grid[1, 2])
    _against_paper(frame, last, grid[1, 3])
    handles, labels = grid[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=4)


def _frontier(frame: pd.DataFrame, axes: Axes) -> None:
    for family, method, colour, marker in _series():
        wide = frame[frame.method == method].pivot(
            index="updates", columns="measure", values="mean"
        )
        dash = "-" if method == family else "--"
        axes.plot(
            wide.pass_at_1, wide.pass_at_64, color=colour, ls=dash, lw=1.1, marker=marker, ms=3,
            markevery=[-1], mfc=colour if method == family else "white",
        )  # fmt: skip
    axes.set(xlabel="pass@1", title="pass@64 vs pass@1")


def _variance(last: Last, axes: Axes) -> None:
    parts = ("variance_early", "variance_middle", "variance_late")
    for family, method, colour, marker in _series():
        if family in ("GRPO", "F-GRPO") and method != "GRPO":
            ratio = [last[method, part] / last["GRPO", part] for part in parts]
            dash = "-" if method == family else "--"
            fill = colour if method == family else "white"
            axes.plot(range(3), ratio, color=colour, ls=dash, marker=marker, mfc=fill)
    axes.plot(range(2), list(PAPER_VARIANCE.values()), color=BLACK, **PAPER)
    axes.axhline(1, color=BLACK, lw=0.7)
    axes.set_xticks(range(3), ["early", "middle", "late"])
    axes.set(title="token variance / GRPO's", xlim=(-0.3, 2.3), ylim=(0, None))


def _against_paper(frame: pd.DataFrame, last: Last, axes: Axes) -> None:
    order = ["base", "GRPO", "ReCo", "F-GRPO"]
    start = frame[(frame.updates == 0) & (frame.measure == "pass_at_64")]["mean"].iloc[0]
    here = [start, *(last[method, "pass_at_64"] for method in order[1:])]
    axes.plot(order, 100 * np.array(here), "o-", color=BLUE, lw=0.7)
    axes.annotate("here", (0, 100 * here[0]), (2, -9), textcoords="offset points", fontsize=6)
    printed = published("reco_average_pass64")
    for name, rows in printed.groupby("backbone", sort=False):
        x = [order.index(method) for method in rows.method]
        axes.plot(x, rows.pass_at_64, color=BLACK, **(PAPER | {"linestyle": "-", "lw": 0.7}))
        short = str(name).removeprefix("Qwen2.5-").removesuffix("-Instruct")
        end = (x[-1], rows.pass_at_64.iloc[-1])
        axes.annotate(short, end, (6, -2), textcoords="offset points", fontsize=6)
    axes.set_xlim(-0.5, 3.9)
    axes.tick_params(axis="x", labelsize=6)
    axes.set_title("final pass@64, percent")
