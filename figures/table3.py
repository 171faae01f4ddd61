"""Table 3: published controls against the focal weight at N = 8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._figure import PAGE
from ._palette import COLOURS, MARKERS
from ._published import PRINTED, SPLITS, published

CAPTION = """Published numbers (Qwen2.5-7B, N = 8): pass@1 against pass@256 of plain GRPO (Table 2),
a lower learning rate, an entropy bonus (GRPO-H), a KL penalty (GRPO-KL), differential smoothing
(DS-GRPO) and the focal weight."""
SIZE = (PAGE, 2.7)
PARAMS = PRINTED


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    plain = published("table2_group_size").query("method == 'GRPO' and N == 8")
    return pd.concat([plain.drop(columns="delta_nll_rare"), published("table3_controls")])


def draw(frame: pd.DataFrame, fig: Figure) -> None:
    panels = fig.subplots(1, 2)
    for axes, (split, name) in zip(panels, SPLITS.items(), strict=True):
        table = frame[frame.split == split].pivot(index="method", columns="k", values="value")
        for method, colour, mark in zip(frame.method.unique(), COLOURS, MARKERS, strict=False):
            axes.plot(table[1][method], table[256][method], mark, color=colour, ms=6, label=method)
        axes.set(xlabel=f"{name} pass@1, percent", ylabel="pass@256, percent")
        axes.margins(0.15)
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
