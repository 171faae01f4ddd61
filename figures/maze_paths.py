"""Mazes: the one correct path, and where the policy walks before and after training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tailmiss._rng import spawn
from tailmiss.sims import maze_window as window
from tailmiss.sims._maze_kernel import COLUMN_STEP, ROW_STEP
from tailmiss.sims.maze import MazeConfig, held_out

from . import _maze
from ._figure import PAGE
from ._palette import BLACK, RED

CAPTION = """Two held-out 17x17 mazes. Dashed: the one correct path, from the circle to the star.
Lines: distinct rollouts of the window policy among those drawn, darker where the whole rollout is
more probable; those that hit a wall end there. Left to right: the warm-started base, GRPO and
F-GRPO (gamma = 1) at N = 8, each with the exact probability of the path. Above, the maze with a
path as short as the Manhattan distance on which the two differ most; below, the likeliest one with
a detour."""
SIZE = (PAGE, 4.9)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 100, "test_mazes": 128, "rollouts": 200},
    "full": {"steps": 2000, "test_mazes": 512, "rollouts": 2000},
}
ARMS = ("base", "GRPO", "F-GRPO")
STEPS = np.stack((ROW_STEP, COLUMN_STEP), 1)


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """One row per square of a path or wall; paths are numbered, most probable first."""
    config = MazeConfig(test_mazes=params["test_mazes"])
    test = held_out(config, "test")
    learners, log_p = {}, {}
    for arm, gamma, stream in zip(ARMS, (0.0, 0.0, 1.0), spawn(rng, 3), strict=True):
        learner, _ = window.warm_start(config)
        if arm != "base":
            window.advance(replace(config, gamma=gamma), learner, params["steps"], stream)
        learners[arm], log_p[arm] = learner, window.target_log_probs(config, learner, *test)
    detour = test[2] > 2 * (config.size - 3)
    apart = np.where(detour, -np.inf, np.abs(log_p["GRPO"] - log_p["F-GRPO"]))
    likely = np.where(detour, log_p["base"], -np.inf)
    parts = []
    for kind, one in (("shortest", int(np.argmax(apart))), ("detour", int(np.argmax(likely)))):
        maze, target = test[0][one], test[1][one, : test[2][one]]
        walls = np.argwhere(maze == 1)
        parts.append(_rows(walls, mazes=kind, arm="all", kind="wall", path=0, log_p=np.nan))
        for arm in ARMS:
            value = float(log_p[arm][one])
            parts.append(_walk(target, mazes=kind, arm=arm, kind="target", path=0, log_p=value))
            drawn = window.sample_paths(config, learners[arm], maze, params["rollouts"], rng)
            distinct = {moves.tobytes(): (moves, value) for moves, value in drawn}
            shown = sorted(distinct.values(), key=lambda pair: -pair[1])[:30]
            for i, (moves, value) in enumerate(shown):
                parts.append(_walk(moves, mazes=kind, arm=arm, kind="path", path=i, log_p=value))
    return pd.concat(parts, ignore_index=True)


def _walk(moves: Any, **labels: Any) -> pd.DataFrame:
    return _rows(np.insert(1 + STEPS[moves].cumsum(0), 0, 1, axis=0), **labels)


def _rows(squares: Any, **labels: Any) -> pd.DataFrame:
    return pd.DataFrame({**labels, "row": squares[:, 0], "column": squares[:, 1]})


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    shade = ScalarMappable(Normalize(-7, 0), "YlGnBu")
    panels = fig.subplots(2, len(ARMS))
    for row, kind in zip(panels, ("shortest", "detour"), strict=True):
        maze = frame[frame.mazes == kind]
        for axes, arm in zip(row, ARMS, strict=True):
            _panel(axes, maze, maze[maze.arm == arm], shade)
    for axes, arm in zip(panels[0], ("base", _maze.LABELS[0.0], _maze.LABELS[1.0]), strict=True):
        axes.set_title(f"{arm}\n{axes.get_title()}")
    fig.colorbar(shade, ax=panels, label=r"$\log_{10}$ probability of the rollout", shrink=0.7)


def _panel(axes: Axes, maze: pd.DataFrame, arm: pd.DataFrame, shade: ScalarMappable) -> None:
    walls = maze[maze.kind == "wall"]
    size = int(walls.row.max()) + 1
    squares = np.ones((size, size))
    squares[walls.row, walls.column] = 0.55
    axes.imshow(squares, cmap="gray", vmin=0, vmax=1)
    paths = arm[arm.kind == "path"]
    for path in range(int(paths.path.max()), -1, -1):
        line = paths[paths.path == path]
        offset = 0.25 * np.sin(1.7 * path)
        colour = shade.to_rgba(line.log_p.iloc[0] / np.log(10))
        axes.plot(line.column + offset, line.row + offset, color=colour, lw=1.2)
    target = arm[arm.kind == "target"]
    axes.plot(target.column, target.row, color=RED, ls=(0, (2, 1.5)), lw=1.1)
    axes.plot(1, 1, "o", color=BLACK, ms=3.5)
    axes.plot(size - 2, size - 2, "*", color=BLACK, ms=6)
    axes.set_title(f"p = {np.exp(target.log_p.iloc[0]):.1e}")
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)
