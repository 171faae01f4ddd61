"""What token likelihoods say of diversity: how saturated tokens are, and what is forgotten."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _validate as check
from .estimate import MeanEstimate


def variance_profile(logps: Iterable[ArrayLike], segments: int = 3) -> Any:
    r"""Mean Bernoulli variance p(1-p) of the sampled tokens, by relative position.

    Token t = 0..L-1 of a response belongs to segment floor(t * segments / L).

    Parameters
    ----------
    logps : one array_like per response, <= 0
        Log-probabilities of its tokens, in nats; NaN is padding.
    segments : int >= 1
        3 gives early, middle and late.

    Returns
    -------
    float64 (segments,); NaN for a segment without tokens.

    Raises
    ------
    ValueError
        A log-probability above 0, or a response that is not one row, named by its place.

    Notes
    -----
    [RECO] v1 reports early and middle; the number of segments and the pooling over tokens are our
    choice. Evaluated as -p expm1(log p), exact near p = 1.

    Examples
    --------
    >>> variance_profile([np.log([0.5, 0.5, 0.9])]).round(2)
    array([0.25, 0.25, 0.09])
    """
    segments = check.whole_number("segments", segments)
    total, tokens = np.zeros(segments), np.zeros(segments)
    for i, row in enumerate(logps):
        logp = np.asarray(row, float)
        if logp.ndim != 1:
            raise ValueError(f"logps[{i}] must be one row of tokens; got shape {logp.shape}")
        logp = check.within(f"logps[{i}]", logp[~np.isnan(logp)], -np.inf, 0.0)
        place = np.arange(logp.size) * segments // max(logp.size, 1)
        variance = -np.exp(logp) * np.expm1(logp)
        total += np.bincount(place, variance, minlength=segments)
        tokens += np.bincount(place, minlength=segments)
    return np.divide(total, tokens, out=np.full(segments, np.nan), where=tokens > 0)


def rare_nll_shift(base_logp: ArrayLike, logp: ArrayLike, *, share: float = 0.01) -> MeanEstimate:
    r"""Increase of the negative log-likelihood on what the base model rarely got right.

    .. math:: \Delta\mathrm{NLL}_{rare} = \frac{1}{|R|} \sum_{i \in R} (\ell^{base}_i - \ell_i)

    Parameters
    ----------
    base_logp, logp : array_like (M,) <= 0
        Mean log-likelihood per token of correct responses that the base model sampled, under the
        base and under the trained model, in nats.
    share : float in (0, 1]
        Share of the responses, those least likely under the base model, that count as rare.

    Returns
    -------
    MeanEstimate
        Its value is the shift: positive where training forgets. Responses of one prompt are not
        independent; resample prompts for an interval that allows for it.

    Raises
    ------
    ValueError
        Unequal shapes, no responses, a log-likelihood above 0, share outside (0, 1].

    Notes
    -----
    [FGRPO] v2, App. M.2, where R is the top 1 % by base NLL of 126,300 trajectories.

    Examples
    --------
    >>> rare_nll_shift([-1.0, -0.1, -0.2], [-1.5, -0.1, -0.1], share=0.3).value
    0.5
    """
    base = check.within("base_logp", base_logp, -np.inf, 0.0)
    new = check.within("logp", logp, -np.inf, 0.0)
    if base.ndim != 1 or base.shape != new.shape or not base.size:
        raise ValueError(
            f"base_logp and logp must be one row of equal length; got {base.shape} and {new.shape}"
        )
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1]; got {share!r}")
    rare = np.argsort(base, kind="stable")[: math.ceil(share * base.size)]
    return MeanEstimate.of(base[rare] - new[rare])
