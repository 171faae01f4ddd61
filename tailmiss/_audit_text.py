"""How varied the responses of a rollout file are, for the audit that asks for their text."""

from __future__ import annotations

import math
from typing import Any

from .estimate import MeanEstimate
from .rollouts import read_rollouts
from .text_diversity import group_diversity


def audit_text(files: list[str], column: str, **columns: Any) -> dict[str, MeanEstimate]:
    """Text diversity within the groups of the files; `columns` as for ``read_rollouts``.

    The text is read as if it were the answer, in a pass of its own: the first keeps no text.
    """
    if "-" in files:
        raise ValueError("--text reads a file twice; give a file, not standard input")
    rollouts = read_rollouts(files, answer=column, **columns)
    if rollouts.group is None or rollouts.answer is None:
        raise ValueError(f"--text {column}: {rollouts.source} holds counts, no responses")
    texts = [None if text is None else str(text) for text in rollouts.answer]
    return group_diversity(texts, rollouts.group.tolist())


def text_lines(found: dict[str, MeanEstimate], confidence: float) -> list[str]:
    """The measures as a table, one line each."""
    lines = [f"{'text diversity':<22}{'value':>8}  {'interval over groups':>22}  {'groups':>7}"]
    for name, mean in found.items():
        interval = ""
        if mean.trials > 1:
            interval = "[{:.4f}, {:.4f}]".format(*mean.interval(confidence))
        value = f"{mean.value:.4f}" if mean.trials else "-"
        lines.append(f"  {name:<20}{value:>8}  {interval:>22}  {mean.trials:>7}")
    return [*lines, ""]


def text_dict(found: dict[str, MeanEstimate], confidence: float) -> dict[str, Any]:
    """The measures as plain values; null where nothing was measured."""
    rows = {}
    for name, mean in found.items():
        low, high = mean.interval(confidence) if mean.trials > 1 else (math.nan, math.nan)
        numbers = {"value": mean.value, "low": low, "high": high}
        clean = {key: None if math.isnan(value) else value for key, value in numbers.items()}
        rows[name] = clean | {"groups": mean.trials}
    return rows
