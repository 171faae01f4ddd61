"""The runs behind every maze figure: one grid per policy, shared through the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tailmiss.sims.maze import SMALL_TRANSFORMER, MazeConfig, simulate_maze
from tailmiss.sims.sweep import run_sweep

BASES = {"window": MazeConfig(), "transformer": SMALL_TRANSFORMER}
FULL: dict[str, dict[str, Any]] = {
    "window": {"N": [4, 8, 16, 32, 64, 128], "steps": 2000, "seeds": 4},
    "transformer": {"N": [4, 8, 16, 32], "steps": 400, "seeds": 4, "record_every": 50},
}
CONTROLS = ("batch_mean", "learning_rate")
GAMMAS = (0.0, 0.5, 1.0)


def grid(policy: str, setting: dict[str, Any]) -> list[MazeConfig]:
    """Every group size, gamma and seed of a policy; at N = 8 also the two controls of gamma = 1."""
    changes = {k: v for k, v in setting.items() if k not in ("N", "seeds", "gammas")}
    configs = []
    for seed in range(setting["seeds"]):
        base = replace(BASES[policy], base_seed=seed, **changes)
        for N in setting["N"]:
            configs += [
                replace(base, group_size=N, gamma=gamma) for gamma in setting.get("gammas", GAMMAS)
            ]
            if N == 8 and setting.get("controls", True):
                configs += [
                    replace(base, group_size=N, gamma=1.0, weighting=control)
                    for control in CONTROLS
                ]
    return configs


def runs(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """The records of every run of every policy in `params["policies"]`.

    Streams hang on the seed alone, not on the figure, so that the figures share finished runs.
    """
    root = np.random.SeedSequence(rng.bit_generator.seed_seq.entropy[0])  # type: ignore[attr-defined]
    parts = []
    for policy, setting in params["policies"].items():
        configs = grid(policy, setting)
        frames = run_sweep(
            simulate_maze, configs, rng=np.random.default_rng(root), store=params["store"]
        )
        for config, frame in zip(configs, frames, strict=True):
            parts.append(
                frame.drop(columns="repeat").assign(
                    policy=policy, N=config.group_size, gamma=config.gamma,
                    weighting=config.weighting, seed=config.base_seed,
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)
