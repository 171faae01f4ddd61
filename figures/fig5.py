"""Fig. 5: in the simulation a correct action is missed by mixed groups up to N of about 2^15."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure

from tailmiss import MeanEstimate, tail_miss_prob
from tailmiss.sims import CategoricalConfig, simulate_categorical

from ._figure import COLUMN
from ._palette import BLUE, GREEN, PAPER, RED

CAPTION = """Probability that a group of N actions drawn from the initial policy of the categorical
simulation is mixed and misses a given non-anchor correct action (Lemma 3.1): with the paper's
rounded masses (0.64, 6.3e-5) and the exact ones (0.63008, 6.2971e-5). Squares: counted in first
steps of the simulator, over all 9,999 such actions, with 95 % intervals over groups. Open diamond:
the paper's bound, below 1e-3 at N = 2^17."""
SIZE = (COLUMN, 2.4)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"mu_pos": 0.64, "tau": 6.3e-5, "last_power": 17, "counted": [1, 5, 9, 13, 15, 17],
              "groups": 15},
    "full": {"mu_pos": 0.64, "tau": 6.3e-5, "last_power": 17, "counted": list(range(18)),
             "groups": 200},
}  # fmt: skip
COLUMNS = ["N", "kind", "tail_miss", "low", "high"]


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    N = 2 ** np.linspace(0, params["last_power"], 8 * params["last_power"] + 1)
    N = np.unique(np.round(N))
    policy = np.exp(CategoricalConfig().initial_logits())
    p = policy / policy.sum()
    masses = {"paper": (params["mu_pos"], params["tau"]), "exact": (p[:10_000].sum(), p[1])}
    rows = [
        (n, kind, value, np.nan, np.nan)
        for kind, (mu_pos, tau) in masses.items()
        for n, value in zip(N, tail_miss_prob(N, mu_pos, tau), strict=True)
    ]
    sizes = [2**power for power in params["counted"]]
    work = [(n, stream) for n in sizes for stream in rng.spawn(params["groups"])]
    shares = Parallel()(delayed(_missed_share)(n, stream) for n, stream in work)
    for n, counted in zip(sizes, np.reshape(shares, (len(sizes), -1)), strict=True):
        estimate = MeanEstimate.of(counted)
        rows.append((n, "counted", estimate.value, *estimate.interval()))
    return pd.DataFrame(rows, columns=COLUMNS)


def _missed_share(N: int, stream: np.random.Generator) -> float:
    """Share of the non-anchor correct actions that a mixed group misses; 0 unless it is mixed.

    Under the ratio surrogate an action of a mixed group moves exactly if it was drawn.
    """
    config = CategoricalConfig(group_size=N, steps=1, record_every=1, optimizer="sgd")
    run = simulate_categorical(config, rng=stream)
    still = run.logits[1 : config.n_correct] == config.correct_logit
    return float(run.mixed_share[-1] * still.mean())


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    axes = fig.subplots()
    for kind, colour, dash, label in (
        ("paper", BLUE, "-", "Lemma 3.1, paper's masses"),
        ("exact", GREEN, (0, (4, 2)), "Lemma 3.1, exact masses"),
    ):
        curve = frame[frame.kind == kind]
        axes.plot(curve.N, curve.tail_miss, color=colour, ls=dash, label=label)
    dots = frame[frame.kind == "counted"]
    reach = [dots.tail_miss - dots.low, dots.high - dots.tail_miss]
    axes.errorbar(
        dots.N, dots.tail_miss, reach, color=RED, marker="s", ls="none", markersize=3,
        label="simulator, counted",
    )  # fmt: skip
    axes.plot(2**17, 1e-3, color="black", ms=7, label="paper: at most", **PAPER)
    axes.set_xscale("log", base=2)
    axes.set_xticks(2.0 ** np.arange(0, 18, 4))
    axes.set(xlabel="group size N", ylabel="tail-miss probability", ylim=(-0.03, 1.05))
    axes.legend(loc=(0.14, 0.04), fontsize=7, handlelength=1.8)
