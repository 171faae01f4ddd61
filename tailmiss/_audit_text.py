"""How varied the responses within groups are, on as many groups as a few seconds allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._rng import RNG, generator
from .bootstrap import MeanOverProblems, mean_over_problems
from .rollouts import Rollouts
from .text_groups import MEASURES, text_measures

MOST_BYTES = 5_000_000
MOST_GROUPS = 1000
MOST_TEXTS = 64
_RESAMPLES = 1000
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TextDiversity:
    """Measures of :func:`tailmiss.diversity.text_measures` within groups, averaged over groups.

    Attributes
    ----------
    column : str
        The field of the responses.
    groups, of_groups : int
        Groups measured, and groups with at least two responses; fewer are measured where more than
        1,000 groups or 5 MB of text would be, and then they are drawn at random.
    cut : int
        Groups of more than 64 responses among them, of which 64 were drawn: all measures but the
        length depend on how many there are.
    responses, missing, empty : int
        Rollouts of the file with a response, without one, and with one that is empty.
    measures : dict of str to MeanOverProblems
        By name, those of the answers too where the file has answers: ``distinct_answers`` is
        different answers over answers.
    """

    column: str
    groups: int
    of_groups: int
    cut: int
    responses: int
    missing: int
    empty: int
    measures: dict[str, MeanOverProblems]
    values: dict[int, dict[str, float]] = field(repr=False)


def measure_texts(
    rollouts: Rollouts, *, confidence: float, rng: RNG, within: TextDiversity | None = None
) -> TextDiversity | None:
    """Text diversity of the rollouts; None where they have no texts.

    `within` is what was found for these groups and others: its values are taken, under the numbers
    that the groups have here.
    """
    text, group = rollouts.text, rollouts.group
    if text is None or group is None:
        return None
    held = text.size >= 0
    number = np.bincount(group[held], minlength=rollouts.n.size)
    several = np.flatnonzero(number > 1)
    if within is None:
        values, cut = _measured(rollouts, several, number, rng)
    else:
        values = within.values
        cut = int((number[list(values)] > MOST_TEXTS).sum()) if values else 0
    clusters = None
    if rollouts.step is not None and within is None and values:
        names = rollouts.prompt[list(values)].astype(str)
        clusters = np.unique(names, return_inverse=True)[1]
    found = list(values.values())
    measures = {
        name: mean_over_problems(
            [own.get(name, np.nan) for own in found],
            clusters=clusters, confidence=confidence, resamples=_RESAMPLES, rng=rng,
        )
        for name in dict.fromkeys([*MEASURES, *(name for own in found for name in own)])
    }  # fmt: skip
    return TextDiversity(
        column=text.column,
        groups=len(values),
        of_groups=int(several.size),
        cut=cut,
        responses=int(held.sum()),
        missing=int((~held).sum()),
        empty=int((text.size == 0).sum()),
        measures=measures,
        values=values,
    )


def _measured(
    rollouts: Rollouts, several: Array, number: Array, rng: RNG
) -> tuple[dict[int, dict[str, float]], int]:
    """The measures of groups drawn at random, and how many of those were too large for all."""
    assert rollouts.text is not None
    assert rollouts.group is not None
    text, source = rollouts.text, generator(rng)
    held = text.size >= 0
    size = np.bincount(rollouts.group[held], text.size[held], rollouts.n.size)
    cost = (size * np.minimum(1, MOST_TEXTS / np.maximum(number, 1)))[several]
    most = several.size
    if cost.sum() > MOST_BYTES:
        most = max(1, int(MOST_BYTES / cost.mean()))
    most = min(most, MOST_GROUPS)
    chosen = several
    if most < several.size:
        chosen = np.sort(source.choice(several, most, replace=False))
    order = np.flatnonzero(held)
    order = order[np.argsort(rollouts.group[order], kind="stable")]
    ends = np.cumsum(number)
    values = {}
    for g in chosen.tolist():
        rows = order[ends[g] - number[g] : ends[g]]
        if rows.size > MOST_TEXTS:
            rows = np.sort(source.choice(rows, MOST_TEXTS, replace=False))
        texts = [own for own in text.take(rows).read() if own is not None]
        values[g] = text_measures(texts)
        if rollouts.answer is not None:
            values[g]["distinct_answers"] = _different(rollouts.answer[rows])
    return values, int((number[chosen] > MOST_TEXTS).sum())


def _different(answers: Sequence[Any] | Array) -> float:
    given = [answer for answer in answers if answer is not None]
    return len(set(given)) / len(given) if len(given) > 1 else float("nan")


def at_step(whole: TextDiversity | None, groups: Array) -> TextDiversity | None:
    """What was found in some of the groups, numbered anew."""
    if whole is None:
        return None
    place = {int(g): i for i, g in enumerate(groups)}
    values = {place[g]: own for g, own in whole.values.items() if g in place}
    return TextDiversity(whole.column, 0, 0, 0, 0, 0, 0, {}, values)


NAMES = {
    "distinct_1": "Distinct-1",
    "distinct_2": "Distinct-2",
    "self_bleu": "Self-BLEU",
    "vendi": "Vendi score of bigrams",
    "distinct_texts": "different responses",
    "distinct_answers": "different answers",
    "length": "words of a response",
}


def how_measured(found: TextDiversity) -> str:
    """What the numbers rest on, in words."""
    text = f"{found.column}: {found.groups} of {found.of_groups} groups with several responses"
    if found.groups < found.of_groups:
        text += f", drawn at random (at most {MOST_GROUPS:,} groups or {MOST_BYTES // 10**6} MB)"
    if found.cut:
        text += f"; {MOST_TEXTS} responses drawn from each of {found.cut} larger ones"
    if found.missing:
        text += f"; {found.missing} rollouts without a response"
    if found.empty:
        text += f"; {found.empty} empty responses"
    return text


def text_dict(found: TextDiversity | None) -> dict[str, Any] | None:
    """As plain values, with NaN where nothing was measured."""
    if found is None:
        return None
    names = ("column", "groups", "of_groups", "cut", "responses", "missing", "empty")
    rows = {
        name: {"value": row.value, "low": row.low, "high": row.high, "groups": row.used}
        for name, row in found.measures.items()
    }
    return {name: getattr(found, name) for name in names} | rows
