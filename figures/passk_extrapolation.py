"""How wrong pass@256 is when it is read off pass@1 to pass@32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure

from tailmiss.curves import audit_curve
from tailmiss.prompts import PromptPopulation

from ._figure import PAGE
from ._palette import BLACK, BLUE, DASHES, GREEN, MARKERS, RED
from ._published import MODELS, published

CAPTION = """pass@256 of the published curves (1,024 samples a problem) predicted from their values
at k = 1 to 32. Left: prediction of a Beta population with a mass at 0 against the printed value;
bars are the range that the six values certify for problems in any proportions. Right: share of
curves whose absolute error is at most that on the axis, for two fitted populations, for the middle
of the certified range, and for holding pass@32. The populations were fitted to k at most 32 alone;
nothing was tuned on pass@256. Over all 162 curves the prediction with a mass at 0 is 2.4 points low
on average, the one without 0.5."""
SIZE = (PAGE, 3.0)
SEEN, TARGET, SAMPLES = 32, 256, 1024
PARAMS: dict[str, dict[str, Any]] = {"quick": {"every": 19}, "full": {"every": 1}}
TOLERANCE = {"beta": 0.02, "beta_zero": 0.05, "low": 1e-3, "high": 1e-3, "middle": 1e-3}
SERIES = {
    "beta_zero": ("Beta with a mass at 0", BLUE),
    "beta": ("Beta", RED),
    "middle": ("middle of the certified range", GREEN),
    "held": ("pass@32 held", BLACK),
}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    groups = published("tables12_14_passk").groupby(
        ["model", "method", "focal", "benchmark"], sort=False
    )
    chosen = list(groups)[:: params["every"]]
    rows = Parallel()(delayed(_predict)(key, curve) for key, curve in chosen)
    return pd.DataFrame(rows)


def _predict(key: tuple[Any, ...], curve: pd.DataFrame) -> dict[str, Any]:
    seen = curve[curve["k"] <= SEEN]
    k, value = seen["k"].to_numpy(), seen["value"].to_numpy() / 100
    bound = audit_curve(k, value, SAMPLES, half_width=5e-4, at=[TARGET], rho=()).bounds[0]
    fits = {
        "beta": PromptPopulation.fit_curve(k, value, mass=False),
        "beta_zero": PromptPopulation.fit_curve(k, value),
    }
    return {
        **dict(zip(("model", "method", "focal", "benchmark"), key, strict=True)),
        "printed": float(curve.loc[curve["k"] == TARGET, "value"].iloc[0]),
        "held": 100 * float(value[np.argmax(k)]),
        **{name: 100 * float(fit.pass_at_k(TARGET)) for name, fit in fits.items()},
        "low": 100 * bound.low,
        "high": 100 * bound.high,
        "middle": 50 * (bound.low + bound.high),
    }


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    left, right = fig.subplots(1, 2)
    left.plot([0, 100], [0, 100], color="black", linewidth=0.7)
    left.vlines(frame["printed"], frame["low"], frame["high"], color="#bbbbbb", linewidth=1.2)
    for model, marker, colour in zip(MODELS, MARKERS, (BLUE, RED, GREEN), strict=False):
        rows = frame[frame["model"] == model]
        left.plot(
            rows["printed"], rows["beta_zero"], marker=marker, color=colour, linestyle="none",
            markersize=3, label=model,
        )  # fmt: skip
    left.set_xlabel("printed pass@256, percent")
    left.set_ylabel("predicted from k ≤ 32, percent")
    left.legend(loc="upper left")
    share = (np.arange(len(frame)) + 1) / len(frame)
    for (name, (label, colour)), dash in zip(SERIES.items(), DASHES, strict=False):
        error = np.sort((frame[name] - frame["printed"]).abs())
        right.step(
            error, share, where="post", color=colour, linestyle=dash,
            label=f"{label}: median {np.median(error):.1f}",
        )  # fmt: skip
    right.set_xlabel("absolute error of pass@256, points")
    right.set_ylabel("share of curves")
    right.set_ylim(0, 1.02)
    right.set_xlim(0, 2.1 * right.get_xlim()[1])
    right.legend(loc="lower right", fontsize=7)
