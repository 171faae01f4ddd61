"""The token simulations behind the ReCo figures: methods, runs, and states at equal pass@1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss.diversity import distinct_n, self_bleu
from tailmiss.sims.sweep import run_sweep
from tailmiss.sims.tokens import TokenConfig, make_task, simulate_tokens

from ._palette import BLACK, COLOURS, MARKERS
from ._seeds import mean_interval

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
    "GRPO, no clip": {"clip_low": np.inf, "clip_high": np.inf},
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

KEYS = ["setting", "method", "inner", "rate", "seed"]
SHOWN = {
    "pass_at_64": "pass@64",
    "retained_mass": "retained mass",
    "self_bleu": "Self-BLEU",
    "variance_early": "early token variance",
}
COMPARED = (*SHOWN, "pass_at_8", "pass_at_256", "alive", "distinct_2", "variance_middle")


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
    cells: Iterable[tuple[str, str, int, float]],
    params: dict[str, Any],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Every (setting, method, inner steps, learning rate) with as many gradient steps.

    Methods of a setting see the same tasks. A setting is a key of ``params["settings"]``.
    """
    root = int(rng.integers(2**32))
    names: list[dict[str, Any]] = []
    configs = []
    for setting, method, inner, rate in cells:
        steps = params["updates"] // inner
        config = {
            "inner_steps": inner, "learning_rate": rate, "steps": steps,
            "record_every": max(1, steps // params["records"]), **params["config"],
            **params["settings"][setting], **METHODS[method],
        }  # fmt: skip
        for seed in range(params["seeds"]):
            configs.append({"config": config, "task": [root, seed]})
            names.append(dict(zip(KEYS, (setting, method, inner, rate, seed), strict=True)))
    runs = run_sweep(simulate, configs, rng=rng, store=params["store"])
    frames = [
        frame.drop(columns="repeat").assign(updates=frame.step * int(name["inner"]), **name)
        for frame, name in zip(runs, names, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def at_equal_success(runs: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Each run where its pass@1 first reaches `factor` times its start, between two records.

    A run that never does is left out.
    """
    rows = []
    for keys, run in runs.groupby(KEYS, sort=False):
        run = run.sort_values("updates").drop(columns=KEYS)
        success = run.pass_at_1.to_numpy() / run.pass_at_1.iloc[0]
        if success.max() >= factor:
            after = int(np.argmax(success >= factor))
            before = max(after - 1, 0)
            share = (factor - success[before]) / (success[after] - success[before])
            row = run.iloc[before] + share * (run.iloc[after] - run.iloc[before])
            rows.append(dict(zip(KEYS, keys, strict=True)) | row.to_dict())
    return pd.DataFrame(rows)


def against(runs: pd.DataFrame, factor: float, base: str = "GRPO") -> pd.DataFrame:
    """Paired differences to a base method at equal pass@1, with intervals over seeds.

    A seed's difference is averaged over the learning rates at which both methods got there;
    `reached` of `runs` pairs did.
    """
    matched = at_equal_success(runs, factor)
    pairs = matched.merge(
        matched[matched.method == base].drop(columns="method"),
        on=[key for key in KEYS if key != "method"],
        suffixes=("", "_base"),
    )
    rows = []
    for cell, tried in runs.groupby(["setting", "inner", "method"], sort=False):
        own = pairs[(pairs[["setting", "inner", "method"]] == list(cell)).all(axis=1)]
        side = [own[name].mean() for name in ("updates", "clipped_share", "net_push")]
        total = len(tried.drop_duplicates(KEYS))
        for measure in COMPARED:
            gap = own[measure] - own[f"{measure}_base"]
            interval = mean_interval(gap.groupby(own.seed).mean())
            rows.append((*cell, measure, own[measure].mean(), *interval, len(own), total, *side))
    columns = [
        "setting", "inner", "method", "measure", "value", "difference", "low", "high", "reached",
        "runs", "updates", "clipped_share", "net_push",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def difference_panels(
    fig: Figure, frame: pd.DataFrame, row: str, rows: list[str], series: str
) -> None:
    """One panel a measure: differences to GRPO in rows, one mark a series."""
    place = {name: len(rows) - i for i, name in enumerate(rows)}
    grid = fig.subplots(1, len(SHOWN), sharey=True)
    kinds = list(frame[series].unique())
    for axes, (measure, title) in zip(grid, SHOWN.items(), strict=True):
        for i, kind in enumerate(kinds):
            own = frame[(frame.measure == measure) & (frame[series] == kind)]
            own = own[own[row].isin(rows) & own.difference.notna()]
            y = own[row].map(place).to_numpy(float) + 0.22 * ((len(kinds) - 1) / 2 - i)
            bars = np.abs(own[["low", "high"]].to_numpy().T - own.difference.to_numpy())
            label = kind if series == "method" else f"{kind} inner step" + "s" * int(kind > 1)
            axes.errorbar(
                own.difference, y, xerr=np.nan_to_num(bars), fmt=MARKERS[i], color=COLOURS[i],
                ms=3.5, elinewidth=0.8, label=label,
            )  # fmt: skip
        axes.axvline(0, color=BLACK, lw=0.7)
        axes.tick_params(axis="x", labelsize=6.5)
        axes.locator_params(axis="x", nbins=4, steps=[1, 2, 5, 10])
        axes.set_xlabel(f"{title}\nminus GRPO's")
    grid[0].set_yticks(list(place.values()), list(place))
    fig.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(kinds))
