"""Shared by the figures of the categorical simulator: labelled sweeps and means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

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


def over_seeds(runs: pd.DataFrame, by: list[str], columns: list[str]) -> pd.DataFrame:
    """Mean of each column over the seeds, with a 95 % t interval (NaN from one seed)."""
    groups = runs.groupby(by, sort=False)[columns]
    mean, spread, n = groups.mean(), groups.std(ddof=1), groups.count()
    reach = stdtrit(np.maximum(n - 1, 1), 0.975) * spread / np.sqrt(n)
    table = mean.copy()
    for name in columns:
        table[f"{name}_low"] = mean[name] - reach[name]
        table[f"{name}_high"] = mean[name] + reach[name]
    return table.reset_index()


def bars(frame: pd.DataFrame, name: str, *, top: float = np.inf) -> np.ndarray:
    """Lengths of the error bars below and above, for Axes.errorbar; cut at a largest value."""
    below = frame[name] - frame[f"{name}_low"]
    above = frame[f"{name}_high"].clip(upper=top) - frame[name]
    return np.nan_to_num(np.array([below, above]))


def scaled(divisor: int, **changes: Any) -> CategoricalConfig:
    """The paper's policy with fewer actions: probabilities and regimes at N / divisor."""
    return CategoricalConfig(n_actions=128_000 // divisor, n_correct=10_000 // divisor, **changes)
