"""Shared by the figures of the categorical simulator: labelled sweeps and scaled policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tailmiss.sims import CategoricalConfig, simulate_categorical
from tailmiss.sims.sweep import run_sweep

Grid = Sequence[tuple[dict[str, Any], CategoricalConfig]]


def sweep(grid: Grid, params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Records of every run, each with the labels of its config and its `repeat` in front."""
    configs = [config for _, config in grid]
    frames = run_sweep(
        simulate_categorical, configs, rng=rng, repeats=params["seeds"], store=params["store"]
    )
    labelled = []
    for i, frame in enumerate(frames):
        for name, value in reversed(grid[i // params["seeds"]][0].items()):
            frame.insert(0, name, value)
        labelled.append(frame)
    return pd.concat(labelled, ignore_index=True)


def scaled(divisor: int, **changes: Any) -> CategoricalConfig:
    """The paper's policy with fewer actions: probabilities and regimes at N / divisor."""
    return CategoricalConfig(n_actions=128_000 // divisor, n_correct=10_000 // divisor, **changes)
