"""Where a clip takes a token's gradient away: on the importance and on the variance ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss.reco import clip_points

from ._figure import PAGE
from ._palette import BLACK, BLUE, RED

CAPTION = """Masked region of PPO's minimum, clip range 0.2, in the probability of the sampled token
at rollout (p_old) and now (p). Hatched: on the importance ratio, as GRPO has it. Filled: on ReCo's
variance ratio. Left, A > 0: the clip on the variance masks a confident token (p_old > 1/2) that
fell, taking its restoring force away, and never acts for p_old in (0.296, 0.704). Right, A < 0: it
masks a confident token that rose, and lets one fall to its mirror image before it acts."""
SIZE = (PAGE, 3.1)
PARAMS: dict[str, dict[str, Any]] = {"quick": {"clip": 0.2, "points": 199}}
PARAMS["full"] = PARAMS["quick"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    p_old = np.linspace(0, 1, params["points"] + 2)[1:-1]
    tips = np.array(clip_points(0.5, 1 / (1 + params["clip"]))) + np.array([-1e-9, 1e-9])
    p_old = np.sort(np.concatenate([p_old, tips]))
    frames = []
    for sign in (1, -1):
        bound = 1 + sign * params["clip"]
        low, high = clip_points(p_old, bound)
        edges = {"importance": np.minimum(p_old * bound, 1), "variance_low": low}
        frame = {"advantage": sign, "p_old": p_old, **edges, "variance_high": high}
        frames.append(pd.DataFrame(frame))
    return pd.concat(frames, ignore_index=True).round(9)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    grid = fig.subplots(1, 2, sharey=True)
    for axes, sign in zip(grid, (1, -1), strict=True):
        own = frame[frame.advantage == sign]
        x, edge = own.p_old, own.importance
        low, high = own.variance_low, own.variance_high
        floor, ceiling = np.zeros(len(x)), np.ones(len(x))
        filled = [(low, high)] if sign > 0 else [(floor, low), (high, ceiling)]
        for bottom, top in filled:
            axes.fill_between(x, bottom, top, color=BLUE, alpha=0.35, lw=0)
            axes.plot(x, bottom, color=BLUE, lw=0.8)
            axes.plot(x, top, color=BLUE, lw=0.8)
        span = (edge, ceiling) if sign > 0 else (floor, edge)
        axes.fill_between(x, *span, facecolor="none", edgecolor=RED, hatch="////", lw=0)
        axes.plot(x, edge, color=RED, lw=1.2)
        axes.plot([0, 1], [0, 1], color=BLACK, lw=0.7, ls=":")
        axes.set(
            xlim=(0, 1), ylim=(0, 1), xlabel=r"$p_{old}$", title=f"A {'>' if sign > 0 else '<'} 0"
        )
    grid[0].set_ylabel("p")
    handles = [
        grid[0].fill_between([], [], color=BLUE, alpha=0.35, label="variance ratio clipped"),
        grid[0].fill_between(
            [], [], facecolor="none", edgecolor=RED, hatch="////", label="importance ratio clipped"
        ),
        grid[0].plot([], [], color=BLACK, lw=0.7, ls=":", label=r"$p = p_{old}$")[0],
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=3)
