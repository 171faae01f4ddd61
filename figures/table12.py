"""Table 12: published pass@k curves of Qwen2.5-7B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ._figure import PAGE
from ._published import PRINTED, passk_data, passk_panels

CAPTION = """Published numbers (Qwen2.5-7B, N = 8, 1,024 samples a problem): pass@k of
three methods without (dashed, open) and with (solid, filled) the focal weight, on nine
benchmarks."""
SIZE = (PAGE, 6.0)
PARAMS = PRINTED
draw = passk_panels


def data(params: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    return passk_data("Qwen2.5-7B")
