"""Table 2: the published group-size sweep, with the rise of rare-answer NLL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import BLUE, RED
from ._published import PRINTED, SPLITS, published

CAPTION = """Published numbers (Qwen2.5-7B): GRPO against the group size (circles) and F-GRPO at
N = 8 (star). Math and out-of-domain averages, and the rise of the negative log-likelihood of the
base model's rare correct answers, in nats per token."""
SIZE = (PAGE, 3.4)
PARAMS = PRINTED
PANELS = (("math", 1), ("math", 256), ("nll", 0), ("ood", 1), ("ood", 256))


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    return published("table2_group_size")


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(2, 3).ravel()
    panels[-1].set_axis_off()
    for axes, (split, k) in zip(panels, PANELS, strict=False):
        column = "delta_nll_rare" if split == "nll" else "value"
        rows = frame[(frame.split == "math") & (frame.k == 1)] if split == "nll" else frame[
            (frame.split == split) & (frame.k == k)
        ]  # fmt: skip
        for method, mark, colour, size in (("GRPO", "o-", BLUE, 4), ("F-GRPO", "*", RED, 10)):
            chosen = rows[rows.method == method]
            axes.plot(chosen.N, chosen[column], mark, color=colour, ms=size, label=method)
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 4, 8, 16, 32], [2, 4, 8, 16, 32])
        axes.set(xlabel="group size N")
        axes.set_ylabel(r"rare $\Delta$NLL" if split == "nll" else f"{SPLITS[split]} pass@{k}, %")
        axes.margins(y=0.15)
    panels[-1].legend(*panels[0].get_legend_handles_labels(), loc="center left")
