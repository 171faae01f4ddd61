"""Fig. 1c: the same four published runs on IFEval, out of domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from . import fig1b

CAPTION = """Published numbers (Qwen2.5-7B on IFEval, Table 10): GRPO with group size 2, 8 and 32
and F-GRPO with 8. The arrow is the gain over GRPO at the same group size."""
SIZE, PARAMS, draw = fig1b.SIZE, fig1b.PARAMS, fig1b.draw


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    return fig1b.data(params, rng, panel="1c")
