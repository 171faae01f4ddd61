"""Fig. 4: the focal weight turns the advantage of easy prompts down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss import focal_weight

from ._figure import COLUMN
from ._palette import COLOURS, MARKERS

CAPTION = """Magnitude of the normalised advantage times the focal weight, (1 - mu)^gamma |A|,
against the group's success rate mu. Solid: correct rollouts, sqrt((1 - mu)/mu); dashed: wrong
rollouts, sqrt(mu/(1 - mu)). The divergent ends are cut at 1.4 as in the paper."""
SIZE = (COLUMN, 2.6)
PARAMS: dict[str, dict[str, Any]] = {"quick": {"gamma": [0.0, 0.5, 1.0], "points": 399}}
PARAMS["full"] = PARAMS["quick"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    mu = np.arange(1, params["points"] + 1) / (params["points"] + 1)
    return pd.concat(
        pd.DataFrame({"gamma": gamma, "kind": kind, "success_rate": mu, "magnitude": focal * size})
        for gamma in params["gamma"]
        for focal in [focal_weight(mu, gamma)]
        for kind, size in (("correct", np.sqrt((1 - mu) / mu)), ("wrong", np.sqrt(mu / (1 - mu))))
    )


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    axes = fig.subplots()
    for (gamma, group), colour, marker in zip(
        frame.groupby("gamma"), COLOURS, MARKERS, strict=False
    ):
        for kind, dash in (("correct", "-"), ("wrong", (0, (4, 1.5)))):
            curve = group[group.kind == kind]
            label = rf"$\gamma$ = {gamma:g}" if kind == "correct" else None
            axes.plot(
                curve.success_rate, curve.magnitude, color=colour, ls=dash, label=label,
                marker=marker, markevery=(len(curve) // 10, len(curve) // 5),
            )  # fmt: skip
    axes.plot([], [], color="0.3", label="correct")
    axes.plot([], [], color="0.3", ls=(0, (4, 1.5)), label="wrong")
    axes.set(xlabel=r"success rate of the group $\hat\mu$", ylabel=r"$g\,|A|$")
    axes.set(xlim=(0, 1), ylim=(0, 1.4))
    fig.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
