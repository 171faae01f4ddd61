"""What ReCo's response weight does to one step, against the length it averages over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss import expected_mass_change
from tailmiss.reco_redistribution import estimate_reco_mass_change, expected_reco_mass_change

from ._figure import PAGE
from ._palette import BLACK, BLUE, DASHES, MARKERS, RED

CAPTION = """One GRPO step on 20 answers (one common correct 0.3, four rare correct 0.01 each, wrong
ones 0.06 and 0.012), with the response weight G w = min(cap, p^(-1/L)). Left: expected push on a
common correct answer's logit over that on a rare one's; GRPO's is 30. Middle: change of the
unsampled-correct mass per correct mass gained; dotted, GRPO's. Right: expected net push sum of w A.
Lines: exact. Markers: self-normalised weights, Monte Carlo with 95 % intervals. The shaded range, L
>= 16, is where any real response lies: there the weight changes speed, not direction."""
SIZE = (PAGE, 2.7)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"N": [8, 32], "lengths": [1, 1.5, 2, 3, 4, 8, 16, 32, 64], "groups": 20_000},
    "full": {"N": [8, 32], "lengths": [1, 1.5, 2, 3, 4, 8, 16, 32, 64], "groups": 2_000_000},
}
P = np.repeat([0.3, 0.01, 0.06, 0.012], [1, 4, 10, 5])
CORRECT = np.arange(20) < 5
CAPS = {"cap 5": 5.0, "no cap": np.inf}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    rows: list[tuple[Any, ...]] = []
    nan = np.nan
    for N in params["N"]:
        plain = expected_mass_change(P, CORRECT, N, rule="grpo", surrogate="ratio")
        share = plain.delta_unsampled_pos / plain.delta_pos
        rows.append((N, "GRPO", nan, P[0] / P[1], share, nan, nan, plain.baseline / N))
        for length in params["lengths"]:
            for name, cap in CAPS.items():
                change = expected_reco_mass_change(P, CORRECT, N, length=length, cap=cap)
                pushed = P[:2] * np.minimum(P[:2] ** (-1 / length), cap)
                share = change.delta_unsampled_pos / change.delta_pos
                push = change.baseline / N
                rows.append((N, name, length, pushed[0] / pushed[1], share, nan, nan, push))
            found = estimate_reco_mass_change(
                P, CORRECT, N, length=length, cap=np.inf, self_normalize=True,
                groups=params["groups"], rng=rng,
            )  # fmt: skip
            lost, gain = found.delta_unsampled_pos, found.delta_pos
            share = lost.value / gain.value
            error = np.hypot(lost.standard_error, share * gain.standard_error) / gain.value
            low, high = share - 1.96 * error, share + 1.96 * error
            push = found.baseline.value / N
            rows.append((N, "self-normalised", length, nan, share, low, high, push))
    columns = ["N", "weight", "length", "push_ratio", "lost_per_gain", "low", "high", "net_push"]
    return pd.DataFrame(rows, columns=columns)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    left, middle, right = fig.subplots(1, 3)
    for colour, marker, N in zip((BLUE, RED), MARKERS, frame.N.unique(), strict=False):
        own = frame[frame.N == N].set_index("weight")
        middle.axhline(own.loc["GRPO"].lost_per_gain, color=colour, lw=0.7, ls=":")
        for dash, name in zip(DASHES, CAPS, strict=False):
            line = own.loc[name]
            label = f"N = {N}, {name}"
            middle.plot(line.length, line.lost_per_gain, color=colour, ls=dash, label=label)
            right.plot(line.length, line.net_push, color=colour, ls=dash)
            if N == frame.N.iloc[0]:
                left.plot(line.length, line.push_ratio, color=BLACK, ls=dash)
        drawn = own.loc["self-normalised"]
        bars = [drawn.lost_per_gain - drawn.low, drawn.high - drawn.lost_per_gain]
        label = f"N = {N}, self-normalised"
        middle.errorbar(drawn.length, drawn.lost_per_gain, bars, fmt=marker, ms=3, color=colour,
                        label=label, mfc="white")  # fmt: skip
        right.plot(drawn.length, drawn.net_push, marker, ms=3, color=colour, mfc="white")
    left.axhline(frame.push_ratio.iloc[0], color=BLACK, lw=0.7, ls=":")
    for axes in (left, middle, right):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("L, tokens averaged over")
        axes.axvspan(16, 64, color="#eeeeee", lw=0)
    left.set_title("push, common / rare")
    middle.set_title(r"$\Delta Q_{u,pos} \, / \, \Delta Q_{pos}$")
    right.set_title(r"net push $E \sum w_i A_i$")
    fig.legend(*middle.get_legend_handles_labels(), loc="outside upper center", ncols=3)
