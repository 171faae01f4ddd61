"""Timings of the benchmarks: calls in turns, a bar asserted, a row of the performance table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike


def in_turns(
    *calls: Callable[[], object],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> np.ndarray:
    """Seconds of each call, a row per call, after `warm_up` rounds that are thrown away.

    The calls alternate, so that what slows the machine for a while slows all of them.
    """
    seconds = np.empty((warm_up + repeats, len(calls)))
    for row in seconds:
        for i, call in enumerate(calls):
            start = clock()
            call()
            row[i] = clock() - start
    return seconds[warm_up:].T


@dataclass(frozen=True)
class Measurement:
    """Seconds of ours and, where there is one, of the public alternative, one of each per repeat.

    faster: bar on how many times faster ours is (below 1: it may be slower). within: bar in
    seconds.
    """

    what: str
    ours: np.ndarray
    against: str = ""
    theirs: np.ndarray | None = None
    faster: float | None = None
    within: float | None = None

    @property
    def ratios(self) -> np.ndarray:
        """How many times faster ours is, per repeat."""
        return np.array([]) if self.theirs is None else self.theirs / self.ours

    def check(self) -> None:
        """Raise AssertionError where the median misses its bar."""
        if self.within is not None:
            assert np.median(self.ours) <= self.within, self
        if self.faster is not None:
            assert np.median(self.ratios) >= self.faster, self


def measurement(
    what: str,
    ours: ArrayLike,
    against: str = "",
    theirs: ArrayLike | None = None,
    *,
    faster: float | None = None,
    within: float | None = None,
) -> Measurement:
    other = None if theirs is None else np.atleast_1d(np.asarray(theirs, float))
    return Measurement(what, np.atleast_1d(np.asarray(ours, float)), against, other, faster, within)


def table(measurements: Sequence[Measurement]) -> pd.DataFrame:
    """One row per measurement, in seconds: medians, and the range of the ratio over repeats."""
    rows = []
    for m in measurements:
        ratios = m.ratios
        low, middle, high = np.quantile(ratios, [0, 0.5, 1]) if ratios.size else [np.nan] * 3
        rows.append(
            {
                "what": m.what,
                "seconds": np.median(m.ours),
                "against": m.against,
                "against_seconds": np.nan if m.theirs is None else np.median(m.theirs),
                "times_faster": middle,
                "low": low,
                "high": high,
                "repeats": len(m.ours),
                "bar_times_faster": np.nan if m.faster is None else m.faster,
                "bar_seconds": np.nan if m.within is None else m.within,
            }
        )
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> str:
    """What stands in the README: the rows with an alternative, then those with a bar alone."""
    lines = [
        "| what | ours | alternative | its time | times faster (range over repeats) | bar |",
        "|---|--:|---|--:|--:|--:|",
    ]
    beside = frame["against"] != ""
    for row in frame[beside].itertuples():
        ratio = f"{brief(row.times_faster)} ({brief(row.low)} to {brief(row.high)})"
        cells = [row.what, duration(row.seconds), row.against, duration(row.against_seconds), ratio]
        lines.append("| " + " | ".join([*cells, bars(row)]) + " |")
    if not beside.all():
        lines += ["", "| what | ours | bar |", "|---|--:|--:|"]
        for row in frame[~beside].itertuples():
            lines.append("| " + " | ".join([row.what, duration(row.seconds), bars(row)]) + " |")
    return "\n".join(lines)


def bars(row: Any) -> str:
    """The bars of a row, in the units of its columns."""
    within = "" if np.isnan(row.bar_seconds) else f"≤ {duration(row.bar_seconds)}"
    faster = "" if np.isnan(row.bar_times_faster) else f"≥ {row.bar_times_faster:.3g}"
    return ", ".join(filter(None, [within, faster]))


def brief(value: float) -> str:
    """Three digits, and no power of ten in the middle of a table."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
