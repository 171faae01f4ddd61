"""Mazes: which ones an update forgets, and what theory says about a maze not in the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailmiss import mixed_group_prob
from tailmiss._rng import spawn
from tailmiss.sims import maze_window as window
from tailmiss.sims.maze import MazeConfig, generate_mazes, held_out, solve_mazes

from . import _maze
from ._figure import PAGE
from ._palette import BLUE, ORANGE

CAPTION = """Window policy on 17x17 mazes, N = 8. (a, b) Probability of each held-out maze's one
correct path before and after training, without and with the focal weight; on the line nothing
changed; mazes below the lower edge are counted. With one correct path a mixed group cannot miss it
(the tail miss of Lemma 3.1 is 0), but a batch can: written in (a) are the mean mixed shares at the
base and the probability that a batch of 64 groups has a mixed one while no detour path was drawn.
(c) Change of ln p over the first 20 updates, mean over runs, against the exact expected update on
mazes that are not in the batch, u . grad ln p with u = E[w_N(p) grad p]; r: their correlation. (d)
On the policy that GRPO reached halfway: the mean predicted change of hard mazes (p < 1 %, path as
short as the Manhattan distance) per unit of update, against N: larger groups and the focal weight
both turn the update towards hard mazes."""
SIZE = (PAGE, 5.0)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 100, "test_mazes": 128, "fresh": 200, "first": 20, "runs": 4},
    "full": {"steps": 2000, "test_mazes": 512, "fresh": 4000, "first": 20, "runs": 48},
}
SIZES = (4, 8, 16, 32, 64, 128)
TOLERANCE = {"x": 1e-6, "y": 1e-6}
CLASSES = {"shortest": (BLUE, "o"), "detour": (ORANGE, "^")}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    config = MazeConfig(test_mazes=params["test_mazes"])
    test = held_out(config, "test")
    kinds = np.where(test[2] > 2 * (config.size - 3), "detour", "shortest")
    streams = spawn(rng, 3 + params["runs"])
    mazes = generate_mazes(params["fresh"], config.size, rng=streams[0])
    fresh = (mazes, *solve_mazes(mazes))
    parts = []

    base, _ = window.warm_start(config)
    before = window.target_log_probs(config, base, *test)
    halfway = []
    for gamma, stream in zip((0.0, 1.0), streams[1:3], strict=True):
        arm = replace(config, gamma=gamma)
        learner, _ = window.warm_start(arm)
        window.advance(arm, learner, params["steps"] // 2, stream)
        halfway.append(window.Learner(learner.parameters.copy(), learner.moments))
        window.advance(arm, learner, params["steps"] // 2, stream)
        after = window.target_log_probs(arm, learner, *test)
        parts.append(pd.DataFrame({"panel": "training", "gamma": gamma, "x": before, "y": after}))

    changes = []
    for stream in streams[3:]:
        learner, _ = window.warm_start(config)
        window.advance(config, learner, params["first"], stream)
        changes.append(window.target_log_probs(config, learner, *test) - before)
    predicted, _ = window.expected_change(config, base, fresh, test)
    observed = np.mean(changes, 0)
    parts.append(pd.DataFrame({"panel": "first", "gamma": 0.0, "x": predicted, "y": observed}))
    N = config.group_size
    mixed = mixed_group_prob(N, np.exp(before))
    table = pd.concat(part.assign(N=N, mazes=kinds, mixed_share=mixed) for part in parts)

    hard = (kinds == "shortest") & (
        window.target_log_probs(config, halfway[0], *test) < np.log(0.01)
    )
    p = np.exp(window.target_log_probs(config, base, *fresh))
    rows = []
    for N in SIZES:
        missed = batch_tail_miss(N, p, fresh[2] > 2 * (config.size - 3), config.prompts)
        rows.append({"panel": "batch", "N": N, "mazes": "detour", "x": N, "y": missed})
        for gamma in _maze.GAMMAS:
            arm = replace(config, group_size=N, gamma=gamma)
            change, size = window.expected_change(arm, halfway[0], fresh, test)
            rows.append(
                {"panel": "halfway", "gamma": gamma, "N": N, "mazes": "hard", "x": N,
                 "y": change[hard].mean() / size}
            )  # fmt: skip
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True)


def batch_tail_miss(N: int, p: Any, rare: Any, groups: int) -> float:
    """Chance that a batch has a mixed group while no rare prompt's correct answer was drawn.

    Lemma 3.1 one level up: prompts are drawn evenly from those with success rates `p`.
    """
    none, alike = (1 - p) ** N, (1 - p) ** N + np.where(rare, 0.0, p**N)
    no_rare = np.where(rare, none, 1.0).mean()
    return float(no_rare**groups - alike.mean() ** groups)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    (a, b), (c, d) = fig.subplots(2, 2)
    for axes, gamma, letter in ((a, 0.0, "(a)"), (b, 1.0, "(b)")):
        rows = frame[(frame.panel == "training") & (frame.gamma == gamma)]
        _scatter(axes, rows.assign(x=rows.x / np.log(10), y=rows.y / np.log(10)))
        low = -12.0
        axes.axline((0, 0), slope=1, color="0.35", lw=0.8)
        axes.set(xlim=(-8.5, 0), ylim=(low, 0.3))
        lost = (rows.y / np.log(10) < low).sum()
        axes.text(0.03, 0.04, f"{lost} below", transform=axes.transAxes, fontsize=7, color="0.3")
        axes.set(xlabel=r"$\log_{10} p$ before", ylabel=r"$\log_{10} p$ after")
        axes.set_title(f"{letter} {_maze.LABELS[gamma]}", loc="left")
    base = (
        frame[(frame.panel == "training") & (frame.gamma == 0)].groupby("mazes").mixed_share.mean()
    )
    missed = frame[(frame.panel == "batch") & (frame.N == 8)].y.iloc[0]
    text = "\n".join(
        [f"mixed share, {kind}: {share:.2g}" for kind, share in base.items()]
        + [f"batch misses detours: {missed:.3f}"]
    )
    a.text(0.03, 0.97, text, transform=a.transAxes, fontsize=7, va="top")
    rows = frame[frame.panel == "first"]
    _scatter(c, rows)
    c.axhline(0, color="0.35", lw=0.8)
    c.axvline(0, color="0.35", lw=0.8)
    agree = (np.sign(rows.x) == np.sign(rows.y)).mean()
    label = f"r = {np.corrcoef(rows.x, rows.y)[0, 1]:.3f}, same sign {agree:.0%}"
    c.set(xlabel=r"expected: $u \cdot \nabla \ln p$", ylabel=r"observed change of $\ln p$")
    c.set_title(f"(c) not in the batch: {label}", loc="left")
    c.legend(loc="upper left", bbox_to_anchor=(0, 0.85), handlelength=1, markerscale=1.5)
    for gamma in _maze.GAMMAS:
        curve = frame[(frame.panel == "halfway") & (frame.gamma == gamma)]
        d.plot(curve.x, curve.y, ms=3.5, label=_maze.LABELS[gamma], **_maze.LOOKS[gamma])
    d.set_xscale("log", base=2)
    d.set_xticks(SIZES, SIZES)
    d.minorticks_off()
    d.set(xlabel="group size N", ylabel=r"change of $\ln p$, hard mazes")
    d.set_title("(d) direction of the expected update", loc="left")
    d.legend()


def _scatter(axes: Axes, rows: pd.DataFrame) -> None:
    for kind, (colour, marker) in CLASSES.items():
        some = rows[rows.mazes == kind]
        axes.plot(
            some.x, some.y, marker, color=colour, ms=2.6, alpha=0.6, mew=0, label=f"{kind} path"
        )
