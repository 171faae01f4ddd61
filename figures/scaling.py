"""Cost of a step of the categorical simulator, beside the same simulation in dense NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tailmiss.sims import CategoricalConfig, simulate_categorical

from ._figure import PAGE
from ._palette import BLUE, RED
from ._yardstick import dense_numpy

CAPTION = """Processor time per update of the categorical simulation on one core, start-up taken
off: against the number of actions K at N = 8 (left; one in 12.8 is correct) and against the group
size N at K = 128,000 (right). Medians, with the range, of repeated pairs of runs; the table gives
the median ratio of the pairs. Times depend on the machine, which the accompanying file names."""
SIZE = (PAGE, 2.6)
PARAMS: dict[str, dict[str, Any]] = {
    "quick": {"K": [16_000, 128_000, 512_000], "N": [8, 64, 512], "steps": 600, "numpy_steps": 4,
              "repeats": 2},
    "full": {"K": [16_000 * 2**k for k in range(7)], "N": [2**k for k in range(1, 18)],
             "steps": 1000, "numpy_steps": 60, "repeats": 5},
}  # fmt: skip
TOLERANCE = dict.fromkeys(("milliseconds", "low", "high", "ratio"), np.inf)
VERSIONS = ("simulator", "dense NumPy")


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    points = dict.fromkeys([(K, 8) for K in params["K"]] + [(128_000, N) for N in params["N"]])
    times = np.array(  # repeats in turn, so that a slow moment of the machine falls on all points
        [
            [compare(K, N, params["steps"], params["numpy_steps"], rng) for K, N in points]
            for _ in range(params["repeats"])
        ]
    )
    rows = []
    for i, (K, N) in enumerate(points):
        ours, plain = times[:, i].T
        ratio = float(np.median(plain / ours))
        for version, column in zip(VERSIONS, (ours, plain), strict=True):
            rows.append((K, N, version, np.median(column), column.min(), column.max(), ratio))
    return pd.DataFrame(rows, columns=["K", "N", "version", "milliseconds", "low", "high", "ratio"])


def compare(
    K: int, N: int, steps: int, numpy_steps: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Milliseconds per step of the simulator and of dense NumPy, one run after the other.

    The simulator's steps get cheaper as the policy settles, so it is timed over its whole run; the
    cost of NumPy's does not change. Setting up is timed with one step and taken off.
    """

    def simulate(steps: int) -> None:
        config = CategoricalConfig(
            n_actions=K, n_correct=K * 10_000 // 128_000, group_size=N, steps=steps,
            record_every=steps,
        )  # fmt: skip
        simulate_categorical(config, rng=rng)

    simulate(1)
    start_up = min(_seconds(lambda: simulate(1)) for _ in range(3))
    ours = (_seconds(lambda: simulate(steps)) - start_up) / (steps - 1)
    plain = _seconds(lambda: dense_numpy(N, numpy_steps, rng, n=K)) / numpy_steps
    return 1e3 * ours, 1e3 * plain


def _seconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    for axes, x, fixed, value, label in zip(
        fig.subplots(1, 2), ("K", "N"), ("N", "K"), (8, 128_000), ("actions K", "group size N"),
        strict=True,
    ):  # fmt: skip
        for version, colour, marker, dash in zip(
            VERSIONS, (BLUE, RED), "os", ("-", "--"), strict=True
        ):
            part = frame[(frame[fixed] == value) & (frame.version == version)].sort_values(x)
            reach = [part.milliseconds - part.low, part.high - part.milliseconds]
            axes.errorbar(
                part[x], part.milliseconds, reach, color=colour, marker=marker, ls=dash, lw=1,
                markersize=3.5, label=version,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(xlabel=f"{label}  ({fixed} = {value:,})", ylabel="ms per update")
        axes.legend(loc="best")
