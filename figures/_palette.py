"""How series look: one colour, dash and marker for each, the same in every figure."""

from typing import Any

BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK)
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HOLLOW = tuple(m for m in MARKERS if m != "D")  # an open diamond is the paper's value
PAPER: dict[str, Any] = {
    "marker": "D",
    "markerfacecolor": "none",
    "linestyle": "none",
    "markeredgewidth": 1.1,
}
