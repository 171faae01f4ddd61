"""A possible and an impossible published pass@k curve, and what each certifies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss.curves import audit_curve

from ._figure import PAGE
from ._palette import BLUE, PAPER, RED
from ._published import published

CAPTION = """Two printed curves of 1,024 samples a problem. Top: what the printed values (open
diamonds) certify of pass@k (upper band) and of the share of mixed groups (lower band) for problems
in any proportions, by linear programming. Bottom: the printed values less those of the closest
problems that can exist; rounding explains the shaded 0.05 points and no more. Left: Qwen2.5-7B,
GRPO, AIME24 is possible. Right: Llama-3.2-3B-Instruct, GRPO, GPQA is not: no problems come closer
than 0.229 points, and its bands are those of the closest ones."""
SIZE = (PAGE, 4.2)
KEY = ("model", "method", "focal", "benchmark")
CURVES = (
    ("Qwen2.5-7B", "GRPO", 0, "AIME24"),
    ("Llama-3.2-3B-Instruct", "GRPO", 0, "GPQA"),
)
SAMPLES, ROUNDING = 1024, 0.05
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"at": [1, 2, 8, 32, 128, 256, 1024]},
    "full": {"at": sorted({int(x) for x in np.geomspace(1, SAMPLES, 61)})},
}
TOLERANCE = {"misfit": 1e-4, "low": 1e-3, "high": 1e-3, "off": 0.05}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    groups = dict(iter(published("tables12_14_passk").groupby(list(KEY), sort=False)))
    frames = []
    for key in CURVES:
        rows = groups[key]
        got = audit_curve(
            rows["k"],
            rows["value"] / 100,
            SAMPLES,
            half_width=ROUNDING / 100,
            at=params["at"],
            rho=(),
        )
        bounds = got.to_frame().drop(columns="rho").assign(series="bound")
        printed = pd.DataFrame({"at": rows["k"].to_numpy(), "value": rows["value"].to_numpy()})
        closest = [100 * got.closest.pass_at_k(k) for k in rows["k"]]
        printed = printed.assign(
            off=printed["value"] - closest, series="printed", quantity="pass_at_k"
        )
        bounds[["low", "high"]] *= 100
        both = pd.concat([bounds, printed])
        frames.append(both.assign(curve=" ".join(map(str, key)), misfit=100 * got.misfit))
    names = ["curve", "misfit", "series", "quantity", "at", "low", "high", "value", "off"]
    return pd.concat(frames)[names].reset_index(drop=True)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(2, 2, sharex=True, height_ratios=[2.4, 1])
    for column, (curve, rows) in enumerate(frame.groupby("curve", sort=False)):
        top, bottom = panels[:, column]
        model, method, _, benchmark = str(curve).split()
        top.set_title(f"{model}, {method}, {benchmark}")
        for quantity, colour, hatch in (("pass_at_k", BLUE, None), ("mixed_share", RED, "////")):
            band = rows[(rows["series"] == "bound") & (rows["quantity"] == quantity)]
            label = {"pass_at_k": "pass@k", "mixed_share": "mixed share at N"}[quantity]
            top.fill_between(
                band["at"], band["low"], band["high"], facecolor=(colour, 0.25), edgecolor=colour,
                hatch=hatch, linewidth=0.9, label=f"{label}, certified",
            )  # fmt: skip
        printed = rows[rows["series"] == "printed"]
        top.plot(printed["at"], printed["value"], color="black", label="printed pass@k", **PAPER)
        top.set_xscale("log", base=2)
        top.set_ylim(0)
        bottom.axhspan(-ROUNDING, ROUNDING, color="#dddddd", zorder=0)
        bottom.axhline(0, color="black", linewidth=0.7)
        bottom.plot(printed["at"], printed["off"], color="black", **PAPER)
        bottom.set_ylim(-0.28, 0.42)
        bottom.set_xlabel("k or N")
        verdict = "possible" if rows["misfit"].iloc[0] <= ROUNDING else "impossible"
        bottom.text(
            0.98, 0.97, f"{verdict}: misfit {rows['misfit'].iloc[0]:.3f}", ha="right", va="top",
            transform=bottom.transAxes, fontsize=7.5,
        )  # fmt: skip
    panels[0, 0].set_ylabel("percent")
    panels[1, 0].set_ylabel("printed less\nclosest, points")
    panels[0, 0].legend(loc="upper left")
