"""Means over seeds with their 95 % t intervals, and the error bars that show them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import stdtrit

CONFIDENCE = 0.95


def mean_interval(values: pd.Series | np.ndarray, fewest: int = 2) -> tuple[float, float, float]:
    """Mean and its t interval, which is NaN below `fewest` values."""
    n, mean = len(values), float(values.mean())
    if n < fewest:
        return mean, float("nan"), float("nan")
    reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(n))
    return mean, mean - reach, mean + reach


def over_seeds(runs: pd.DataFrame, by: list[str], columns: list[str]) -> pd.DataFrame:
    """Mean of each column over the seeds, with its t interval (NaN from one seed)."""
    groups = runs.groupby(by, sort=False)[columns]
    mean, spread, n = groups.mean(), groups.std(ddof=1), groups.count()
    reach = stdtrit(np.maximum(n - 1, 1), (1 + CONFIDENCE) / 2) * spread / np.sqrt(n)
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
