"""The performance table: bars that bind, and rows as they stand in the README."""

from __future__ import annotations

import numpy as np
import pytest
from timings import in_turns, markdown, measurement, table


def test_a_missed_bar_fails():
    row = measurement("step", [2.0, 1.0, 4.0], "NumPy", [8.0, 8.0, 8.0], faster=4, within=2)
    row.check()
    for bars in ({"faster": 4.1}, {"within": 1.9}):
        with pytest.raises(AssertionError, match="step"):
            measurement("step", [2.0, 1.0, 4.0], "NumPy", [8.0] * 3, **bars).check()


def test_the_table_shows_medians_ranges_and_bars():
    rows = [
        measurement("step", [2e-3, 1e-3, 4e-3], "NumPy", [8e-3] * 3, faster=3),
        measurement("import", 0.25, within=0.4),
    ]
    frame = table(rows)
    assert frame.times_faster[0] == pytest.approx(4)
    assert np.isnan(frame.times_faster[1])
    assert markdown(frame).splitlines()[2:] == [
        "| step | 2 ms | NumPy | 8 ms | 4 (2 to 8) | ≥ 3 |",
        "",
        "| what | ours | bar |",
        "|---|--:|--:|",
        "| import | 250 ms | ≤ 400 ms |",
    ]


def test_calls_alternate_and_warm_up_rounds_are_thrown_away():
    order, ticks = [], iter(range(100))
    seconds = in_turns(
        lambda: order.append("a"), lambda: order.append("b"),
        repeats=2, warm_up=1, clock=lambda: next(ticks),
    )  # fmt: skip
    assert order == ["a", "b"] * 3
    assert seconds.tolist() == [[1, 1], [1, 1]]
