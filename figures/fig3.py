"""Fig. 3: the tail-miss probability for three success rates and four rare shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss import tail_miss_prob, worst_group_size

from ._figure import PAGE
from ._palette import COLOURS, DASHES

CAPTION = """Tail-miss probability against the group size for success probability 0.8, 0.5 and 0.2
and rare share rho (Lemma 3.1). Stars: the worst group size of each curve."""
SIZE = (PAGE, 2.4)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"mu_pos": [0.8, 0.5, 0.2], "rho": [0.01, 0.05, 0.1, 0.2], "N_last": 512}
}
PARAMS["full"] = PARAMS["quick"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    N = np.arange(1, params["N_last"] + 1)
    return pd.concat(
        pd.DataFrame(
            {
                "mu_pos": mu_pos,
                "rho": rho,
                "N": N,
                "tail_miss": tail_miss_prob(N, mu_pos, rho * mu_pos),
                "worst": (worst_group_size(mu_pos, rho * mu_pos) == N).astype(int),
            }
        )
        for mu_pos in params["mu_pos"]
        for rho in params["rho"]
    )


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, frame.mu_pos.nunique(), sharey=True)
    for axes, (mu_pos, panel) in zip(panels, frame.groupby("mu_pos", sort=False), strict=True):
        for (rho, curve), colour, dash in zip(panel.groupby("rho"), COLOURS, DASHES, strict=False):
            axes.plot(curve.N, curve.tail_miss, color=colour, ls=dash, label=rf"$\rho$ = {rho:g}")
            peak = curve[curve.worst == 1]
            axes.plot(peak.N, peak.tail_miss, "*", color=colour, ms=9, mec="white", mew=0.6)
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 4, 16, 64, 256])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set(xlabel="group size N", ylim=(0, 1))
        axes.text(
            0.97, 0.95, rf"$\mu$ = {mu_pos:g}", transform=axes.transAxes, ha="right", va="top"
        )
    panels[0].set_ylabel("tail-miss probability")
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
