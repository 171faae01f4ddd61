"""The runs behind the maze figures: one grid per policy, shared through the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tailmiss import provenance
from tailmiss.sims.maze import BUDGETS, SMALL_TRANSFORMER, MazeConfig, simulate_maze
from tailmiss.sims.sweep import run_sweep

from ._figure import REFERENCE, read_csv
from ._palette import BLACK, BLUE, GREEN, ORANGE, PAPER, PINK, RED
from ._seeds import over_seeds

BASES = {"window": MazeConfig(), "transformer": SMALL_TRANSFORMER}
GAMMAS = (0.0, 0.5, 1.0)
CONTROLS = ("batch_mean", "learning_rate")
WINDOW: list[dict[str, Any]] = [
    {"N": [4, 8, 16, 32, 64, 128], "gammas": [0, 0.5, 1], "steps": 2000, "seeds": 4},
    {"N": [8], "gammas": [1], "steps": 2000, "seeds": 4, "weightings": CONTROLS},
]
TRANSFORMER: list[dict[str, Any]] = [
    {"N": [4, 8, 16, 32], "gammas": [0, 0.5, 1], "steps": 2000, "seeds": 4},
    {"N": [8], "gammas": [1], "steps": 2000, "seeds": 4, "weightings": CONTROLS},
]
SMALL: list[dict[str, Any]] = [
    {"N": [4, 16], "gammas": [0, 0.5, 1], "steps": 400, "prompts": 8, "seeds": 3,
     "test_mazes": 256, "network": {"window": 5, "hidden": 32}},
]  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "quick": {"policies": {"window": SMALL}, "store": None},
    "full": {"policies": {"window": WINDOW, "transformer": TRANSFORMER}, "store": None},
}
# Finished transformer runs, an hour of one core: read where they fit, computed where they do not.
KEPT = REFERENCE / "full" / "maze_runs.csv"
ARM = ["policy", "N", "gamma", "weighting"]
PASS = [f"pass@{k}" for k in BUDGETS]
LABELS = {0.0: "GRPO", 0.5: r"F-GRPO, $\gamma$ = 0.5", 1.0: r"F-GRPO, $\gamma$ = 1"}
LOOKS: dict[float, dict[str, Any]] = {
    0.0: {"color": BLUE, "marker": "o", "ls": "-"},
    0.5: {"color": RED, "marker": "s", "ls": (0, (5, 1.5))},
    1.0: {"color": GREEN, "marker": "^", "ls": (0, (1, 1.2))},
}
APART = {0.0: 0.94, 0.5: 1.0, 1.0: 1.06}  # factors of N that keep intervals apart
PAPER_LOOK: dict[str, Any] = dict(PAPER, ms=4.5)
BASE: dict[str, Any] = {"color": "0.35", "ls": (0, (4, 2)), "lw": 1.0}
CONTROL_LOOKS: dict[str, dict[str, Any]] = {
    "batch_mean": {"color": ORANGE, "marker": "D", "ls": (0, (5, 1.5, 1, 1.5))},
    "learning_rate": {"color": PINK, "marker": "v", "ls": (0, (3, 1, 1, 1, 1, 1))},
}
CONTROL_LABELS = {
    "batch_mean": "the batch's mean weight for all",
    "learning_rate": r"learning rate $\times\,m_1$ = 1/2",
}


def only(policy: str) -> dict[str, dict[str, Any]]:
    """The presets of one policy; the transformer's quick one reads the committed runs."""
    full = {"policies": {policy: PRESETS["full"]["policies"][policy]}, "store": None}
    return {"quick": PRESETS["quick"] if policy == "window" else {"kept": policy}, "full": full}


def grid(policy: str, blocks: list[dict[str, Any]]) -> list[MazeConfig]:
    """Every seed, group size, gamma and weighting of every block, a seed at a time."""
    configs = []
    for block in blocks:
        own = ("N", "seeds", "gammas", "weightings", "network")
        changes = {name: value for name, value in block.items() if name not in own}
        base = replace(BASES[policy], **changes)
        base = replace(base, policy=replace(base.policy, **block.get("network", {})))
        configs += [
            replace(base, base_seed=seed, group_size=N, gamma=float(gamma), weighting=weighting)
            for seed in range(block["seeds"])
            for N in block["N"]
            for gamma in block["gammas"]
            for weighting in block.get("weightings", ["focal"])
        ]
    return configs


def runs(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """The records of every run of every policy in `params["policies"]`.

    Streams hang on the seed alone, not on the figure, so that the figures share finished runs.
    """
    seed = int(np.atleast_1d(rng.bit_generator.seed_seq.entropy)[0])  # type: ignore[attr-defined]
    kept = read_csv(KEPT) if KEPT.exists() else pd.DataFrame({"run": []})
    if "kept" in params:
        return kept
    parts = []
    for policy, blocks in params["policies"].items():
        configs = grid(policy, blocks)
        names = [name(config, seed) for config in configs]
        missing = [i for i, one in enumerate(names) if one not in set(kept["run"])]
        made = run_sweep(
            simulate_maze, [configs[i] for i in missing], rng=stream(seed), store=params["store"]
        )
        frames = dict(zip(missing, made, strict=True))
        for i, config in enumerate(configs):
            frame = frames[i].drop(columns="repeat") if i in frames else kept[kept.run == names[i]]
            parts.append(labelled(frame, config, names[i]))
    return pd.concat(parts, ignore_index=True)


def stream(seed: int) -> np.random.Generator:
    """The root of the runs' streams."""
    return np.random.default_rng(np.random.SeedSequence(seed))


def name(config: MazeConfig, seed: int) -> str:
    """What determines a run, as one word."""
    return provenance.key({"config": asdict(config), "seed": seed})


def labelled(frame: pd.DataFrame, config: MazeConfig, run: str) -> pd.DataFrame:
    """A run's records with its arm and seed."""
    return frame.assign(
        policy=policy_of(config), N=config.group_size, gamma=config.gamma,
        weighting=config.weighting, seed=config.base_seed, run=run,
    )  # fmt: skip


def policy_of(config: MazeConfig) -> str:
    """Which base a config came from."""
    return next(name for name, base in BASES.items() if type(base.policy) is type(config.policy))


def summary(frame: pd.DataFrame, mazes: str = "all") -> pd.DataFrame:
    """Means over seeds with 95 % t intervals, by arm and step: pass@k, -ln pass@k, reward."""
    chosen = frame[frame.mazes == mazes].copy()
    columns = [*PASS, "reward"]
    for column in PASS:
        chosen[f"nl_{column}"] = -np.log(chosen[column])
        columns.append(f"nl_{column}")
    table = over_seeds(chosen, [*ARM, "step"], columns)
    seeds = chosen.groupby([*ARM, "step"], sort=False)["seed"].nunique().to_numpy()
    return table.assign(seeds=seeds)


def common_end(frame: pd.DataFrame) -> pd.Series:
    """The last step that every arm of the row's policy has reached."""
    return frame.groupby(ARM).step.transform("max").groupby(frame.policy).transform("min")


def curves(axes: Axes, frame: pd.DataFrame, name: str) -> None:
    """Every arm's mean against the update, with its band, and the base as a level."""
    axes.axhline(frame[frame.step == 0][name].mean(), **BASE)
    looks = [(frame[(frame.weighting == "focal") & (frame.gamma == g)], LOOKS[g]) for g in GAMMAS]
    looks += [(frame[frame.weighting == c], CONTROL_LOOKS[c]) for c in CONTROLS]
    for curve, look in looks:
        axes.plot(curve.step, curve[name], markevery=0.25, ms=3, lw=1, **look)
        axes.fill_between(
            curve.step, curve[f"{name}_low"], curve[f"{name}_high"], color=look["color"],
            alpha=0.15, lw=0,
        )  # fmt: skip


def handles(
    gammas: Iterable[float] = GAMMAS, *, controls: Iterable[str] = (), base: bool = False,
    paper: bool = False,
) -> list[Line2D]:  # fmt: skip
    """Legend entries of the arms among `gammas` and `controls`, of the base and of the paper."""
    shown, controls = set(gammas), set(controls)
    looks = [(LABELS[gamma], LOOKS[gamma]) for gamma in GAMMAS if gamma in shown]
    looks += [(CONTROL_LABELS[c], CONTROL_LOOKS[c]) for c in CONTROLS if c in controls]
    made = [Line2D([], [], label=label, ms=3.5, **look) for label, look in looks]
    if base:
        made.append(Line2D([], [], label="base", **BASE))
    if paper:
        made.append(Line2D([], [], label="paper", color=BLACK, **PAPER_LOOK))
    return made


def keep(store: Path, seed: int = 0) -> None:
    """Write the committed table of the full preset's transformer runs."""
    params = {"policies": {"transformer": TRANSFORMER}, "store": store}
    table = runs(params, stream(seed))
    provenance.write(KEPT, table.to_csv(index=False, float_format="%.17g", lineterminator="\n"))
    command = "tailmiss figures fig6 fig7 table4 --full"
    provenance.write_json(
        KEPT.with_suffix(".json"), provenance.record(command=command, seed=seed, blocks=TRANSFORMER)
    )
