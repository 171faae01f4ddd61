"""Fig. 7 with a transformer: mazes of 4x4 cells during training, one column a group size."""

from __future__ import annotations

from . import _maze
from .fig7 import SIZE, data, draw

__all__ = ["CAPTION", "PARAMS", "SIZE", "data", "draw"]
CAPTION = """Fig. 7 with a transformer of 0.1M parameters on mazes of 4x4 cells: reward on training
mazes, and exact pass@1 and pass@2048 on held-out mazes, one column a group size N; two controls of
gamma = 1 at N = 8. Dashed: the warm-started base. Means over 4 seeds; bands: 95 % t intervals."""
PARAMS = _maze.only("transformer")
