"""Every measure of text diversity at once, within groups of responses and averaged over groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from .estimate import MeanEstimate
from .text_diversity import (
    Tokenizer,
    distinct_n,
    ngram_similarity,
    self_bleu,
    split_texts,
    vendi_score,
)

MEASURES = ("distinct_1", "distinct_2", "self_bleu", "vendi", "distinct_texts", "length")


def text_measures(
    texts: Sequence[str | Sequence[Hashable]], *, tokenize: Tokenizer = str.split
) -> dict[str, float]:
    """Every measure of one group of texts.

    Parameters
    ----------
    texts : strings or token sequences
    tokenize : callable
        Splits a string.

    Returns
    -------
    dict of str to float
        distinct_1, distinct_2, self_bleu and vendi (of bigrams), as their functions give them;
        distinct_texts, different texts over texts; length, mean tokens of a text. NaN where a
        measure has nothing to rest on.

    Raises
    ------
    ValueError
        As :func:`distinct_n`.

    Examples
    --------
    >>> found = text_measures(["a b c", "a b c", "a d"])
    >>> round(found["distinct_texts"], 3), round(found["length"], 3), found["distinct_2"]
    (0.667, 2.667, 0.6)
    """
    sentences = split_texts(texts, tokenize)
    if not sentences:
        return dict.fromkeys(MEASURES, float("nan"))
    return {
        "distinct_1": distinct_n(sentences, 1),
        "distinct_2": distinct_n(sentences, 2),
        "self_bleu": self_bleu(sentences),
        "vendi": vendi_score(ngram_similarity(sentences)),
        "distinct_texts": len({t if isinstance(t, str) else tuple(t) for t in texts}) / len(texts),
        "length": sum(map(len, sentences)) / len(sentences),
    }


def group_diversity(
    texts: Iterable[str | Sequence[Hashable] | None],
    groups: Iterable[Hashable],
    *,
    tokenize: Tokenizer = str.split,
) -> dict[str, MeanEstimate]:
    """The measures of :func:`text_measures` within each group, then averaged over groups.

    Parameters
    ----------
    texts : M strings or token sequences
        None is no text and is left out.
    groups : M hashable labels
        Prompt, or prompt and step, of each text.
    tokenize : callable
        Splits a string.

    Returns
    -------
    dict of str to MeanEstimate
        One draw a group with at least two texts, where the measure has a value. Compare files of
        equal group size: all but length depend on it.

    Raises
    ------
    ValueError
        Unequal lengths.

    Examples
    --------
    >>> found = group_diversity(["a b c", "a b c", "a b", "c d"], [1, 1, 2, 2])
    >>> found["distinct_2"].value, found["self_bleu"].trials
    (0.75, 2)
    """
    texts, groups = list(texts), list(groups)
    if len(texts) != len(groups):
        raise ValueError(f"groups must hold {len(texts)} labels, one a text; got {len(groups)}")
    members: dict[Hashable, list[Any]] = {}
    for text, group in zip(texts, groups, strict=True):
        if text is not None:
            members.setdefault(group, []).append(text)
    several = [own for own in members.values() if len(own) > 1]
    measured = [text_measures(own, tokenize=tokenize) for own in several]
    found = {}
    for name in MEASURES:
        values = np.array([group[name] for group in measured])
        found[name] = MeanEstimate.of(values[~np.isnan(values)])
    return found
