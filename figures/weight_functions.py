"""Which prompts a rule works on: w_N(p) of every rule, at finite N against its limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss import RULES, weight_function

from ._figure import PAGE
from ._palette import COLOURS, DASHES

CAPTION = """Weight w_N(p) of a prompt with success rate p in the expected on-policy update,
E[g] = w_N(p) grad p, for N = 2, 8, 32 and 128 (coloured) and N to infinity (thin black). gamma:
the focal weight; pkpo and passk with k = 4 (so no curve at N = 2)."""
SIZE = (PAGE, 4.4)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"N": [2, 8, 32, 128], "points": 99, "k": 4, "gamma": [0.5, 1.0]}
}
PARAMS["full"] = PARAMS["quick"]
SMALLEST = 0.005


def _limit(rule: str, p: np.ndarray, k: int, gamma: float) -> np.ndarray:
    """w_N(p) as N grows: g a(p) - g b(p) with K/N replaced by p."""
    q = 1 - p
    grpo = 1 / np.sqrt(p * q)
    lead = 0.4 + 1.1 / (1 + np.exp(10 * (np.stack([p, q]) - 0.75)))
    limit = {
        "reinforce": 1.0,
        "rloo": 1.0,
        "grpo": grpo * q**gamma,
        "dr_grpo": 1.0,
        "dapo": grpo,
        "centered": 2.0,
        "maxrl": 1 / p,
        "pkpo": k * q ** (k - 1),
        "passk": q ** (k / 2 - 1) / np.sqrt(1 - q**k),
        "best_of_n": 0.0,
        "psr": 1.0,
        "nsr": 1.0,
        "w_reinforce": 1.1,
        "disco_b": 1 / (p * q),
        "grpo_lead": np.sqrt(q / p) * lead[0] + np.sqrt(p / q) * lead[1],
    }[rule]
    return np.broadcast_to(limit, p.shape)


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    p = np.linspace(SMALLEST, 1 - SMALLEST, params["points"])
    panels = [(rule, 0.0) for rule in RULES]
    after_grpo = RULES.index("grpo") + 1
    panels[after_grpo:after_grpo] = [("grpo", gamma) for gamma in params["gamma"]]
    rows = []
    for rule, gamma in panels:
        options = {"k": params["k"]} if rule in ("pkpo", "passk") else {}
        name = rule + (f", gamma {gamma:g}" if gamma else "")
        for N in params["N"]:
            if N >= options.get("k", 1):
                w = weight_function(rule, N, p, gamma=gamma, **options)
                rows.append(pd.DataFrame({"rule": name, "N": float(N), "p": p, "weight": w}))
        w = _limit(rule, p, params["k"], gamma)
        rows.append(pd.DataFrame({"rule": name, "N": np.inf, "p": p, "weight": w}))
    return pd.concat(rows)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    sizes = [N for N in sorted(frame.N.unique()) if np.isfinite(N)]
    grid = fig.subplots(3, 6, sharex=True)
    names = list(frame.rule.unique())
    for axes, rule in zip(grid.flat, names, strict=False):
        panel = frame[frame.rule == rule]
        for N, colour, dash in zip(sizes, COLOURS, DASHES, strict=False):
            curve = panel[panel.N == N]
            axes.plot(curve.p, curve.weight, color=colour, ls=dash, label=f"N = {N:g}")
        limit = panel[np.isinf(panel.N)]
        axes.plot(limit.p, limit.weight, color="black", lw=0.8, label=r"N $\to\infty$")
        finite = panel[np.isfinite(panel.N)].weight
        axes.set_ylim(0, 1.12 * max(finite.max(), limit.weight.median()))
        axes.set_title(rule.replace("gamma", r"$\gamma$ ="), pad=3)
        axes.set_xticks([0, 0.5, 1], ["0", "", "1"])
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
        axes.legend(*grid.flat[0].get_legend_handles_labels(), loc="center", handlelength=1.6)
    for axes in grid[:, 0]:
        axes.set_ylabel(r"$w_N(p)$")
    fig.supxlabel("success rate p", fontsize="medium")
