"""Fig. 1a: the tail-miss probability is worst at middle group sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss import tail_miss_prob

from ._figure import COLUMN
from ._palette import COLOURS, DASHES

CAPTION = """Probability that a group of N rollouts is mixed and yet holds none of the rare correct
answers, against N, for success probability 0.3 and rare share rho of the correct mass (Lemma 3.1).
Markers: N = 2, 8, 32."""
SIZE = (COLUMN, 2.4)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"mu_pos": 0.3, "rho": [0.05, 0.1, 0.2], "N_last": 128, "marked": [2, 8, 32]}
}
PARAMS["full"] = PARAMS["quick"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    N = np.arange(1, params["N_last"] + 1)
    return pd.concat(
        pd.DataFrame(
            {
                "rho": rho,
                "N": N,
                "tail_miss": tail_miss_prob(N, params["mu_pos"], rho * params["mu_pos"]),
                "marked": np.isin(N, params["marked"]).astype(int),
            }
        )
        for rho in params["rho"]
    )


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    axes = fig.subplots()
    for (rho, curve), colour, dash in zip(frame.groupby("rho"), COLOURS, DASHES, strict=False):
        axes.plot(curve.N, curve.tail_miss, color=colour, ls=dash, label=rf"$\rho$ = {rho:g}")
        dots = curve[curve.marked == 1]
        axes.plot(dots.N, dots.tail_miss, "o", color=colour)
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 128])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="group size N", ylabel="tail-miss probability", ylim=(0, 0.9))
    axes.legend(loc="upper right")
