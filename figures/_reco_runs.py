"""The token simulations behind the ReCo figures: methods, runs, and states at equal pass@1."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tailmiss.diversity import distinct_n, self_bleu
from tailmiss.sims.sweep import run_sweep
from tailmiss.sims.tokens import TokenConfig, make_task, simulate_tokens

_RESPONSE = {"response_weight": True}
_TOKEN = {"token_rule": "variance_ppo"}
_RECO = _RESPONSE | _TOKEN
_DAPO = {"rule": "dapo", "clip_high": 0.28}
_ENTROPY = {"entropy_quantile": 0.8}
METHODS: dict[str, dict[str, Any]] = {
    "GRPO": {},
    "ReCo": _RECO,
    "F-GRPO": {"gamma": 1.0},
    "ReCo + F-GRPO": _RECO | {"gamma": 1.0},
    "DAPO": _DAPO,
    "ReCo + DAPO": _RECO | _DAPO,
    "80/20": _ENTROPY,
    "ReCo + 80/20": _RECO | _ENTROPY,
    "response only": _RESPONSE,
    "token only": _TOKEN,
    "token, A unclipped": {"token_rule": "variance"},
    "token, C autograd": {"token_rule": "variance_autograd"},
    "token, D ratio mask": {"token_rule": "variance_ratio_mask"},
    "token, E CISPO": {"token_rule": "variance_cispo"},
    "token, F absolute": {"token_rule": "variance_absolute"},
    "response, self-normalised": _RESPONSE | {"self_normalize": True},
    "response, L = 4": _RESPONSE
    | {"weight_length": 4.0, "weight_cap": np.inf, "self_normalize": True},
    "response, L = 1": _RESPONSE
    | {"weight_length": 1.0, "weight_cap": np.inf, "self_normalize": True},
}


def simulate(settings: dict[str, Any], *, rng: np.random.Generator) -> pd.DataFrame:
    """One run of one method, with the text measures of its sampled answers beside the rest."""
    config = TokenConfig(**settings["config"])
    task = make_task(config, rng=np.random.default_rng(settings["task"]))
    run = simulate_tokens(config, rng=rng, task=task)
    frame = run.frame()
    for name, measure in (("distinct_2", distinct_n), ("self_bleu", self_bleu)):
        frame[name] = [np.mean([measure(answers) for answers in step]) for step in run.samples]
    return frame


def run_methods(
    cells: Iterable[tuple[str, int, float]],
    params: dict[str, Any],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Every (method, inner steps, learning rate) on the same tasks, with equal gradient steps."""
    root = int(rng.integers(2**32))
    names, settings = [], []
    for method, inner, rate in cells:
        for seed in range(params["seeds"]):
            steps = params["updates"] // inner
            config = {
                "inner_steps": inner, "learning_rate": rate, "steps": steps,
                "record_every": max(1, steps // params["records"]), **params["config"],
                **METHODS[method],
            }  # fmt: skip
            settings.append({"config": config, "task": [root, seed]})
            names.append({"method": method, "inner": inner, "rate": rate, "seed": seed})
    store: Path | None = params["store"]
    runs = run_sweep(simulate, settings, rng=rng, store=store)
    frames = [
        frame.drop(columns="repeat").assign(updates=frame.step * name["inner"], **name)
        for frame, name in zip(runs, names, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def at_equal_success(runs: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Each run where its pass@1 first reaches `factor` times its start, between two records.

    A run that never does is left out.
    """
    rows = []
    for keys, run in runs.groupby(["method", "inner", "rate", "seed"], sort=False):
        run = run.sort_values("updates").drop(columns=["method", "inner", "rate", "seed"])
        success = run.pass_at_1.to_numpy() / run.pass_at_1.iloc[0]
        if success.max() >= factor:
            after = int(np.argmax(success >= factor))
            before = max(after - 1, 0)
            share = (factor - success[before]) / (success[after] - success[before])
            row = run.iloc[before] + share * (run.iloc[after] - run.iloc[before])
            named = dict(zip(("method", "inner", "rate", "seed"), keys, strict=True))
            rows.append(named | row.to_dict())
    return pd.DataFrame(rows)


def mean_interval(values: pd.Series, confidence: float = 0.95) -> tuple[float, float, float]:
    """Mean over seeds and its t interval."""
    from scipy.stats import t

    n, mean = len(values), float(values.mean())
    if n < 2:
        return mean, np.nan, np.nan
    reach = t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return mean, mean - reach, mean + reach
