"""Exact expected change of correct and unsampled-correct mass in one update, against N."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tailmiss import expected_mass_change
from tailmiss.montecarlo import estimate_mass_change

from ._figure import PAGE
from ._palette import BLACK, BLUE, DASHES, MARKERS, RED

CAPTION = """Exact expected first-order change, per unit learning rate, from the initial policy of
the categorical simulation (128,000 actions, 10,000 correct at logit 3, one of them at 5, wrong ones
at 0), rule "centered" (rewards +1 / -1 less their mean), without (gamma = 0) and with (gamma = 1)
the focal weight. Top: ratio surrogate, the policy gradient that trainers apply. Bottom: probability
surrogate, the paper's literal formula. Lines: exact. Markers: Monte Carlo with 95 % intervals.
Left: the correct mass rises at every N. Middle: the unsampled-correct mass falls at every N, as the
paper claims, under both surrogates; but direct drift is more than half of the fall only under the
literal formula, and exactly 0 under the ratio surrogate, where the softmax normaliser does all of
it. Right: change of unsampled-correct mass per correct mass gained. The focal weight scales both
alike and leaves it unchanged (solid and dashed coincide). With the answers swapped, so that the
wrong actions are individually the likelier ones, unsampled-correct mass grows: the claim depends on
the policy."""
SIZE = (PAGE, 3.9)
SIMULATION = {"actions": 128_000, "correct": 10_000, "anchor_logit": 5.0, "correct_logit": 3.0}
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {**SIMULATION, "per_octave": 1, "sampled_N": [2, 8, 32, 128, 512], "rollouts": 10**5},
    "full": {**SIMULATION, "per_octave": 8, "sampled_N": [2, 8, 32, 128, 512], "rollouts": 10**7},
}
LAST_OCTAVE = 17
FEWEST_GROUPS = 500
CHANGES = ("delta_pos", "delta_unsampled_pos", "direct_drift", "normalization_coupling")
TOLERANCE = dict.fromkeys(CHANGES, 1e-17)  # the smallest exact values are near 1e-14


def initial_policy(params: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the simulation's actions before training, and which are correct."""
    logits = np.zeros(params["actions"])
    logits[: params["correct"]] = params["correct_logit"]
    logits[0] = params["anchor_logit"]
    weights = np.exp(logits)
    return weights / weights.sum(), np.arange(logits.size) < params["correct"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    p, correct = initial_policy(params)
    octaves = np.arange(params["per_octave"], LAST_OCTAVE * params["per_octave"] + 1)
    sizes = np.unique(np.round(2 ** (octaves / params["per_octave"])).astype(int))
    rows = []
    for policy, is_correct in (("simulation", correct), ("swapped", ~correct)):
        for surrogate in ("ratio", "probability"):
            for gamma in (0.0, 1.0):
                options: dict[str, Any] = {
                    "rule": "centered",
                    "gamma": gamma,
                    "surrogate": surrogate,
                }
                for N in sizes.tolist():
                    change = expected_mass_change(p, is_correct, N, **options)
                    row = {"policy": policy, "surrogate": surrogate, "gamma": gamma, "N": N}
                    row |= {name: getattr(change, name) for name in CHANGES}
                    if policy == "simulation" and N in params["sampled_N"]:
                        groups = max(params["rollouts"] // N, FEWEST_GROUPS)
                        sample = estimate_mass_change(
                            p, is_correct, N, groups=groups, rng=rng, **options
                        )
                        for name in CHANGES[:2]:
                            estimate = getattr(sample, name)
                            low, high = estimate.interval()
                            row |= {
                                f"sampled_{name}": estimate.value,
                                f"{name}_low": low,
                                f"{name}_high": high,
                            }
                    rows.append(row)
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(2, 3, sharex=True)
    for row, surrogate in zip(panels, ("ratio", "probability"), strict=True):
        for gamma, colour, dash, marker in zip(
            (0.0, 1.0), (BLUE, RED), DASHES, MARKERS, strict=False
        ):
            every = frame[(frame.surrogate == surrogate) & (frame.gamma == gamma)]
            curve = every[every.policy == "simulation"]
            swapped = every[every.policy == "swapped"]
            look = {"color": colour, "ls": dash}
            for axes, name in zip(row, CHANGES[:2], strict=False):
                axes.plot(curve.N, curve[name], label=rf"$\gamma$ = {gamma:g}", **look)
                _bars(axes, curve, name, colour, marker)
            row[1].plot(curve.N, curve.direct_drift, color=colour, ls=DASHES[2], lw=1.1)
            row[1].plot(curve.N, curve.normalization_coupling, color=colour, ls=DASHES[3], lw=1.1)
            row[2].plot(curve.N, curve.delta_unsampled_pos / curve.delta_pos, **look)
            row[2].plot(swapped.N, swapped.delta_unsampled_pos / swapped.delta_pos, **look)
        for axes in row:
            axes.axhline(0, color="black", lw=0.6)
            axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
        row[0].set_ylabel(f"{surrogate} surrogate\nchange per unit rate")
        row[2].text(2**6, 0.08 * row[2].get_ylim()[0], "simulation", va="top", ha="center")
        row[2].text(2**6, 0.03 * row[2].get_ylim()[1], "answers swapped", va="bottom", ha="center")
    for axes, title in zip(
        panels[0],
        (r"$\Delta Q_{pos}$", r"$\Delta Q_{u,pos}$", r"$\Delta Q_{u,pos}\,/\,\Delta Q_{pos}$"),
        strict=True,
    ):
        axes.set_title(title)
    for axes in panels[1]:
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 2**5, 2**9, 2**13, 2**17], ["2", "32", "512", "8k", "128k"])
        axes.set_xlabel("group size N")
    parts = [
        Line2D([], [], color=BLACK, ls=dash, lw=1.1, label=label)
        for dash, label in ((DASHES[2], "direct drift"), (DASHES[3], "normalisation coupling"))
    ]
    lines, _ = panels[0][0].get_legend_handles_labels()
    fig.legend(handles=lines + parts, loc="outside upper center", ncols=4)


def _bars(axes: Axes, curve: pd.DataFrame, name: str, colour: str, marker: str) -> None:
    """Monte Carlo means with their intervals."""
    found = curve.dropna(subset=[f"sampled_{name}"])
    value = found[f"sampled_{name}"]
    reach = [value - found[f"{name}_low"], found[f"{name}_high"] - value]
    axes.errorbar(found.N, value, reach, color=colour, marker=marker, ls="none", ms=3.2, lw=0.9)
