"""How varied a set of responses is: repeated phrases, copies, effective number.

Texts are strings, split by ``tokenize`` (white space by default: ``str.split``), or sequences of
tokens of any kind, or a 2-D array of token ids whose negative entries are padding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check

Texts = Iterable[str] | Iterable[Sequence[Hashable]] | NDArray[Any]
Array = NDArray[Any]
Tokenizer = Callable[[str], Sequence[Hashable]]


def distinct_n(texts: Texts, n: int = 2, *, tokenize: Tokenizer = str.split) -> float:
    r"""Distinct-n: different n-grams over all n-grams of the texts together.

    .. math:: \frac{|\{\text{n-grams}\}|}{\#\,\text{n-grams}}

    Parameters
    ----------
    texts : strings, sequences of tokens, or int array (M, T) padded with negative numbers
    n : int >= 1
        Length of an n-gram; 2 is the Distinct-2 that [RECO] reports.
    tokenize : callable
        Splits a string; not applied to texts that are tokens already.

    Returns
    -------
    float in (0, 1]; NaN where no text has n tokens.

    Raises
    ------
    ValueError
        n below 1; texts that are one string, or hold something that is no text.

    Notes
    -----
    Li et al. (2016) divide by tokens; like most later work this divides by n-grams, so that 1 means
    no repetition. It falls with the amount of text: compare equal numbers of equal length. Equals
    a count over ``nltk.ngrams`` (tests/test_text_diversity.py).

    Examples
    --------
    >>> distinct_n(["a b c", "a b d"])
    0.75
    """
    n = check.whole_number("n", n)
    *_, (_, grams) = _ngrams(split_texts(texts, tokenize), n)
    return np.unique(grams).size / grams.size if grams.size else float("nan")


def self_bleu(
    texts: Texts, max_n: int = 4, *, tokenize: Tokenizer = str.split, epsilon: float = 0.1
) -> float:
    r"""Self-BLEU: mean BLEU of each text with all the others as its references.

    .. math:: \mathrm{BLEU}_i = \min(1, e^{1 - r_i/c_i})
              \exp \frac1n \sum_{m=1}^{n} \ln p_{m,i}

    where p_m is the clipped precision of m-grams, c the length of the text and r the reference
    length closest to it (the shorter of two).

    Parameters
    ----------
    texts : strings, sequences of tokens, or int array (M, T) padded with negative numbers
    max_n : int >= 1
        Longest n-gram, all with equal weight.
    tokenize : callable
        Splits a string; not applied to texts that are tokens already.
    epsilon : float >= 0
        Count that stands for no match at all; 0 makes such a text score 0.

    Returns
    -------
    float in [0, 1]; 1 means that every text is a copy. NaN for fewer than two texts.

    Raises
    ------
    ValueError
        max_n below 1; epsilon negative; texts as for :func:`distinct_n`.

    Notes
    -----
    Zhu et al. (2018). [RECO] does not name order, smoothing or tokeniser; order 4, epsilon 0.1
    (Chen and Cherry's method 1) and white space are our choice, and equal
    ``nltk.translate.bleu_score.sentence_bleu`` averaged over the texts. A text that shares no
    token scores 0; an order longer than the text counts as epsilon. Linear in the number of
    tokens, where the definition is quadratic in the number of texts.

    Examples
    --------
    >>> self_bleu(["a b c d e", "a b c d e"])
    1.0
    >>> self_bleu(["a b c d e", "v w x y z"])
    0.0
    """
    max_n = check.whole_number("max_n", max_n)
    epsilon = check.number("epsilon", epsilon, 0)
    sentences = split_texts(texts, tokenize)
    if len(sentences) < 2:
        return float("nan")
    matches = [_clipped(*grams, len(sentences)) for grams in _ngrams(sentences, max_n)]
    closest = _closest_other([len(tokens) for tokens in sentences])
    scores = [
        _bleu([int(hits[i]) for hits in matches], len(tokens), closest[i], epsilon)
        for i, tokens in enumerate(sentences)
    ]
    return math.fsum(scores) / len(scores)


def _clipped(owner: Array, grams: Array, texts: int) -> Array:
    """N-grams of each text that another text has too, each at most as often as one of them has."""
    pairs, times = np.unique(grams * texts + owner, return_counts=True)
    gram, owner = np.divmod(pairs, texts)
    order = np.lexsort((times, gram))
    gram, owner, times = gram[order], owner[order], times[order]
    last = np.append(gram[1:] != gram[:-1], True)[: gram.size]
    most = times[last][np.cumsum(last) - last]
    before = np.append(0, np.where(last[:-1], 0, times[:-1]))[: gram.size]
    return np.bincount(owner, np.minimum(times, np.where(last, before, most)), texts)


def _bleu(matches: list[int], length: int, reference: int, epsilon: float) -> float:
    if matches[0] == 0 or (epsilon == 0 and min(matches) == 0):
        return 0.0
    logs = [
        math.log((hits or epsilon) / max(1, length - n)) / len(matches)
        for n, hits in enumerate(matches)
    ]
    return math.exp(min(0.0, 1 - reference / length)) * math.exp(math.fsum(logs))


def _closest_other(lengths: list[int]) -> list[int]:
    """For each text the closest length among the others, the shorter of two."""
    times = Counter(lengths)
    closest = {
        own: own
        if times[own] > 1
        else min((other for other in times if other != own), key=lambda x: (abs(x - own), x))
        for own in times
    }
    return [closest[own] for own in lengths]


def ngram_similarity(texts: Texts, n: int = 2, *, tokenize: Tokenizer = str.split) -> Any:
    r"""Cosine similarity of the n-gram counts of every two texts, for :func:`vendi_score`.

    .. math:: S_{ij} = \frac{\langle g_i, g_j \rangle}{\lVert g_i \rVert \, \lVert g_j \rVert}

    with g_i the counts of n-grams in text i. Texts shorter than n tokens equal only texts of the
    same tokens.

    Parameters
    ----------
    texts : strings, sequences of tokens, or int array (M, T) padded with negative numbers
    n : int >= 1
        Length of an n-gram.
    tokenize : callable
        Splits a string; not applied to texts that are tokens already.

    Returns
    -------
    float64 array (M, M) in [0, 1], 1 on the diagonal.

    Raises
    ------
    ValueError
        As :func:`distinct_n`.

    Examples
    --------
    >>> ngram_similarity(["a b c", "a b d", "x"]).round(3)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    n = check.whole_number("n", n)
    sentences = split_texts(texts, tokenize)
    *_, (owner, grams) = _ngrams(sentences, n)
    whole: dict[Any, int] = {}
    short = [(i, tuple(own)) for i, own in enumerate(sentences) if len(own) < n]
    codes = [whole.setdefault(own, grams.max(initial=-1) + 1 + len(whole)) for _, own in short]
    owner = np.append(owner, np.array([i for i, _ in short], int))
    grams = np.unique(np.append(grams, np.array(codes, int)), return_inverse=True)[1]
    width = int(grams.max(initial=-1)) + 1
    table = np.bincount(owner * width + grams, minlength=len(sentences) * width).astype(float)
    table = table.reshape(len(sentences), width)
    table /= np.sqrt((table**2).sum(axis=1, keepdims=True))
    return table @ table.T


def vendi_score(similarity: ArrayLike) -> float:
    r"""Vendi score: effective number of different items, from their similarities.

    .. math:: \exp\Big(-\sum_i \lambda_i \ln \lambda_i\Big), \quad
              \lambda = \text{eigenvalues of } S / M

    Parameters
    ----------
    similarity : array_like (M, M)
        Symmetric, positive semidefinite, 1 on the diagonal, as from :func:`ngram_similarity`;
        ``answers[:, None] == answers`` gives the exponential of the answers' entropy.

    Returns
    -------
    float in [1, M]

    Raises
    ------
    ValueError
        Not square, empty, not symmetric, a diagonal entry that is not 1, a negative eigenvalue.

    Notes
    -----
    Friedman and Dieng (2023), order 1.

    Examples
    --------
    >>> round(vendi_score(np.eye(4)), 12)
    4.0
    """
    S = check.real("similarity", similarity)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or not len(S):
        raise ValueError(f"similarity must be a square matrix; got shape {S.shape}")
    if not np.allclose(S, S.T) or not np.allclose(np.diag(S), 1):
        raise ValueError("similarity must be symmetric with 1 on its diagonal")
    share = np.linalg.eigvalsh(S / len(S))
    if share[0] < -1e-8:
        raise ValueError(
            f"similarity must be positive semidefinite; got eigenvalue {share[0] * len(S):g}"
        )
    share = share[share > 0]
    return float(np.exp(-(share @ np.log(share))))


def split_texts(texts: Texts, tokenize: Tokenizer) -> list[Sequence[Hashable]]:
    if isinstance(texts, str):
        raise ValueError("texts must be several texts; got one string")
    if isinstance(texts, np.ndarray) and texts.dtype.kind in "biufc":
        if texts.ndim != 2 or texts.dtype.kind not in "iu":
            raise ValueError(
                "texts must be a 2-D array of integer token ids;"
                f" got shape {texts.shape} of {texts.dtype}"
            )
        return [[token for token in row if token >= 0] for row in texts.tolist()]
    found: list[Sequence[Hashable]] = []
    for i, text in enumerate(texts):
        if isinstance(text, str):
            text = tokenize(text)
        elif not isinstance(text, (Sequence, np.ndarray)):
            raise ValueError(
                f"texts must be strings or sequences of tokens; got {text!r} at index {i}"
            )
        found.append(text)
    return found


def _ngrams(texts: list[Sequence[Hashable]], most: int) -> Iterator[tuple[Array, Array]]:
    """For n = 1..most the text and the number of every n-gram; equal n-grams have equal numbers."""
    place: dict[Hashable, int] = {}
    words = np.array([place.setdefault(w, len(place)) for text in texts for w in text], int)
    text_of = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    grams = words
    for n in range(1, most + 1):
        if n > 1:
            pairs = grams[:-1] * max(len(place), 1) + words[n - 1 :]
            grams = np.unique(pairs, return_inverse=True)[1]
        inside = text_of[: grams.size] == text_of[n - 1 :]
        yield text_of[: grams.size][inside], grams[inside]
