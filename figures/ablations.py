"""Focal weight beside a lower learning rate, an entropy bonus and KL: what keeps correct mass?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss import learning_rate_multiplier

from ._categorical import scaled, sweep
from ._figure import PAGE
from ._palette import COLOURS, DASHES, MARKERS
from ._seeds import bars, over_seeds

CAPTION = """Categorical policy (ratio surrogate, Adam). Left: retained correct mass M_ret against
the success rate Q_pos along training at one group size, the best setting of each family, in the
legend; the learning rate is lowered by m_gamma. Right: M_ret when Q_pos first reaches the target,
against N, for the setting of the family that keeps most there (tuned on these very runs; an absent
point: no setting reached the target). A large entropy bonus first spreads the policy; its curve is
of the way back, on few actions. Means over seeds with 95 % t intervals cut at 1."""
SIZE = (PAGE, 2.9)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"divisor": 32, "N": [8, 64, 1024], "shown": 64, "target": 0.9, "steps": 1500,
              "every": 10, "seeds": 2, "gamma": [1.0], "entropy_bonus": [0.1], "kl": [0.1],
              "store": None},
    "full": {"divisor": 1, "N": [256, 2048, 16384], "shown": 256, "target": 0.95,
             "steps": 1500, "every": 5, "seeds": 3, "gamma": [1.0, 2.0],
             "entropy_bonus": [1e-3, 1e-2, 1e-1, 1.0], "kl": [1e-3, 1e-2, 1e-1, 1.0],
             "store": None},
}  # fmt: skip
FAMILIES = {
    "plain": "plain",
    "gamma": r"focal, $\gamma$",
    "learning_rate": r"learning rate $m_\gamma$, $\gamma$",
    "entropy_bonus": "entropy bonus",
    "kl": "KL to the start",
}


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    changes: list[tuple[str, float, dict[str, float]]] = [("plain", 0.0, {})]
    for gamma in params["gamma"]:
        lower = 1e-2 * float(learning_rate_multiplier(gamma))
        changes.append(("gamma", gamma, {"gamma": gamma}))
        changes.append(("learning_rate", gamma, {"learning_rate": lower}))
    for family in ("entropy_bonus", "kl"):
        changes.extend((family, value, {family: value}) for value in params[family])
    grid = [
        (
            {"family": family, "setting": setting, "N": N},
            scaled(
                params["divisor"], group_size=N, steps=params["steps"],
                record_every=params["every"], **change,
            ),
        )
        for N in sorted(params["N"], reverse=True)
        for family, setting, change in changes
    ]  # fmt: skip
    levels = np.append(np.arange(0.64, 0.995, 0.01), params["target"])
    rows = []
    for (family, setting, N, _), run in sweep(grid, params, rng).groupby(
        ["family", "setting", "N", "repeat"], sort=False
    ):
        asked = levels if params["shown"] == N else levels[-1:]
        for level in asked:
            kept, step = _first_at(run, level)
            is_target = int(level == params["target"])
            rows.append((family, setting, N, round(level, 6), is_target, kept, step))
    names = ["family", "setting", "N", "q_pos", "target", "retained_mass", "step"]
    table = pd.DataFrame(rows, columns=names).drop_duplicates()
    return over_seeds(table, names[:5], names[5:])


def _first_at(run: pd.DataFrame, level: float) -> tuple[float, float]:
    """M_ret and update where Q_pos first reaches the level; NaN if it never does."""
    above = np.flatnonzero(run.q_pos.to_numpy() >= level)
    if not len(above) or above[0] == 0:
        return np.nan, np.nan
    pair = run.iloc[above[0] - 1 : above[0] + 1]
    share = (level - pair.q_pos.iloc[0]) / (pair.q_pos.iloc[1] - pair.q_pos.iloc[0])
    kept, step = (
        pair[c].iloc[0] + share * pair[c].diff().iloc[1] for c in ("retained_mass", "step")
    )
    return float(kept), float(step)


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    left, right = fig.subplots(1, 2)
    at_target = frame[frame.target == 1]
    shown = frame.groupby("N").q_pos.nunique().idxmax()
    for i, (family, label) in enumerate(FAMILIES.items()):
        look = {"color": COLOURS[i], "marker": MARKERS[i], "ls": DASHES[i % len(DASHES)]}
        mine = at_target[(at_target.family == family) & at_target.retained_mass.notna()]
        best = mine.loc[mine.groupby("N").retained_mass.idxmax()]
        right.errorbar(
            best.N * 1.06 ** (i - 2), best.retained_mass, bars(best, "retained_mass", top=1),
            markersize=3.5, lw=1, elinewidth=0.8, label=label, **look,
        )  # fmt: skip
        for row in best[best.N == shown].itertuples():
            curve = frame[
                (frame.family == family) & (frame.setting == row.setting) & (frame.N == shown)
            ].sort_values("q_pos")
            name = "" if family == "plain" else f" = {row.setting:g}"
            left.plot(
                curve.q_pos, curve.retained_mass, lw=1, markersize=3, markevery=4,
                label=f"{label}{name}", **look,
            )  # fmt: skip
    target = at_target.q_pos.iloc[0]
    left.axvline(target, color="0.7", lw=0.8, zorder=0)
    left.set(xlabel="$Q_{pos}$", ylabel="$M_{ret}$", ylim=(-0.03, 1.05))
    left.set_title(f"N = {shown:,}", loc="left")
    fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7)
    right.set_xscale("log", base=2)
    right.set(xlabel="group size N", ylabel=f"$M_{{ret}}$ at $Q_{{pos}}$ = {target:g}")
    right.set_ylim(-0.03, 1.05)
