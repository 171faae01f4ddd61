r"""What ReCo's two levels do to an update, in each way its text can be read.

[RECO] v1 multiplies the gradient of log pi of token t in response i by
:math:`w_i \, v_{it} \, A_i`: a weight per response, w = 1/(G pibar), and the ratio of Bernoulli
variances :math:`v = p(1-p) / (p_{old}(1-p_{old}))` in the place of the importance ratio
r = p/p_old. The paper's text leaves open how v is clipped and whether it is differentiated:

======= =================== ============================================= =====================
reading name                factor of w A grad log pi                     masked where
======= =================== ============================================= =====================
GRPO    importance          r                                             r outside (PPO's min)
CISPO   cispo               r held in [1-low, 1+high]                     never
A       variance            v                                             never
B       variance_ppo        v                                             v outside (PPO's min)
C       variance_autograd   v (1-2p)/(1-p)                                v outside (PPO's min)
D       variance_ratio_mask v                                             r outside (PPO's min)
E       variance_cispo      v held in [1-low, 1+high]                     never
F       variance_absolute   4 p (1-p)                                     never
======= =================== ============================================= =====================

"PPO's min" has no gradient where A > 0 and the ratio is above 1 + high, or A < 0 and it is below
1 - low. A, B, D and E are the torch adapter's modes none, ppo, ratio_mask and cispo. C is what
differentiating v gives, and what swapping the ratio tensor inside a trainer would do; F is how the
paper's prose, though not its formula, can be understood.

Three facts decide what to expect. On policy v = 1: the first update on fresh rollouts is GRPO's in
every reading but C and F. v(p) = v(1-p): clipping v is no trust region. And v measures *change* of
saturation since the rollout, so a token that stays at p = 0.99 keeps its full update.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from .weights import response_weight, variance_ratio

READINGS = (
    "importance",
    "cispo",
    "variance",
    "variance_ppo",
    "variance_autograd",
    "variance_ratio_mask",
    "variance_cispo",
    "variance_absolute",
)
_CLIPPED_RATIO = {
    "importance": "importance",
    "variance_ppo": "variance",
    "variance_autograd": "variance",
    "variance_ratio_mask": "importance",
}


def gradient_factor(
    reading: str,
    p: ArrayLike,
    p_old: ArrayLike,
    advantage: ArrayLike = 1.0,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float = np.inf,
) -> Any:
    r"""What multiplies :math:`w A \nabla \log \pi` of a token in one reading of the ratio.

    Parameters
    ----------
    reading : str
        One of ``READINGS``; the module's table has the formulas.
    p, p_old : array_like in (0, 1)
        Probability of the sampled token under the current and under the rollout policy.
    advantage : array_like
        Only its sign matters, for the side on which a clip acts.
    clip_low, clip_high : float >= 0
        Clip range [1 - clip_low, 1 + clip_high]; infinite for none.
    cap : float >= 1
        Largest variance ratio used as a coefficient.

    Returns
    -------
    float64 scalar or array, broadcast over the inputs; exactly 1 at p = p_old except in
    variance_autograd, (1-2p)/(1-p), and variance_absolute, 4p(1-p).

    Raises
    ------
    ValueError
        Unknown reading; a probability outside (0, 1); a clip below 0; cap below 1.

    Notes
    -----
    [RECO] v1; which reading the authors' code has is not known. Relative error 1e-15 / (1 - p).
    tests/test_tokens.py compares the simulator's updates with it.

    Examples
    --------
    >>> gradient_factor("variance_autograd", [0.3, 0.5, 0.9], [0.3, 0.5, 0.9]).round(2)
    array([ 0.57,  0.  , -8.  ])
    >>> gradient_factor("variance_ppo", 0.98, 0.99), gradient_factor("importance", 0.98, 0.99) > 0
    (np.float64(0.0), np.True_)
    """
    check.within("cap", cap, 1.0, np.inf)
    p, p_old = _open("p", p), _open("p_old", p_old)
    off = is_masked(reading, p, p_old, advantage, clip_low=clip_low, clip_high=clip_high)
    low, high = 1 - clip_low, 1 + clip_high
    r, v = p / p_old, variance_ratio(p, p_old)
    capped = np.minimum(v, cap)
    if reading == "importance":
        factor = r
    elif reading == "cispo":
        factor = np.clip(r, low, high)
    elif reading == "variance_cispo":
        factor = np.clip(v, low, high)
    elif reading == "variance_autograd":
        factor = capped * (1 - 2 * p) / (1 - p)
    elif reading == "variance_absolute":
        factor = 4 * p * (1 - p)
    else:
        factor = capped
    return np.where(off, 0.0, factor)[()]


def is_masked(
    reading: str,
    p: ArrayLike,
    p_old: ArrayLike,
    advantage: ArrayLike = 1.0,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Any:
    """Whether PPO's minimum takes a token's gradient away.

    Parameters
    ----------
    reading, p, p_old, advantage, clip_low, clip_high
        As for :func:`gradient_factor`.

    Returns
    -------
    bool scalar or array, broadcast over the inputs.

    Raises
    ------
    ValueError
        As :func:`gradient_factor`.

    Notes
    -----
    Where the clip is on the variance ratio the region in p is between, or outside, the two
    :func:`clip_points`: it holds small moves of saturated tokens in either direction, and lets a
    token fall from 0.9 to its mirror image 0.1 unmasked.

    Examples
    --------
    >>> is_masked("variance_ppo", [0.72, 0.1, 0.07], 0.9, -1)
    array([False, False,  True])
    >>> is_masked("importance", [0.73, 0.71, 0.1], 0.9, -1)
    array([False,  True,  True])
    """
    check.one_of("reading", reading, READINGS)
    for name, clip in (("clip_low", clip_low), ("clip_high", clip_high)):
        check.within(name, clip, 0.0, np.inf)
    p, p_old = _open("p", p), _open("p_old", p_old)
    A = check.real("advantage", advantage)
    ratio = variance_ratio(p, p_old)
    if _CLIPPED_RATIO.get(reading) == "importance":
        ratio = p / p_old
    outside = np.where(A > 0, ratio > 1 + clip_high, ratio < 1 - clip_low)
    return (outside & (reading in _CLIPPED_RATIO))[()]


def clip_points(p_old: ArrayLike, bound: ArrayLike) -> tuple[Any, Any]:
    r"""The two probabilities at which the variance ratio equals a clip bound.

    .. math:: p = \tfrac12 \Bigl(1 \mp \sqrt{1 - 4 b\, p_{old}(1-p_{old})}\Bigr)

    Parameters
    ----------
    p_old : array_like in (0, 1)
        Probability of the token in the rollout.
    bound : array_like >= 0
        1 + clip_high: with A > 0 a token is masked *between* the points. 1 - clip_low: with A < 0
        it is masked *outside* them.

    Returns
    -------
    low, high : float64 scalars or arrays, low + high = 1; NaN where the ratio never reaches bound.

    Raises
    ------
    ValueError
        p_old outside (0, 1); bound negative or NaN.

    Notes
    -----
    Derived from [RECO] v1's ratio; proved in ``reco_symbolic.py``. low is evaluated as c / high.

    Examples
    --------
    >>> low, high = clip_points(0.99, [1.2, 0.8])
    >>> high.round(5)
    array([0.98798, 0.99202])
    >>> np.isnan(clip_points(0.5, 1.2)[0])
    np.True_
    """
    p_old = _open("p_old", p_old)
    c = check.finite("bound", bound, 0) * p_old * (1 - p_old)
    with np.errstate(invalid="ignore"):
        high = 0.5 * (1 + np.sqrt(1 - 4 * c))
    return (c / high)[()], high[()]


def net_push(
    mean_logp: ArrayLike,
    advantage: ArrayLike,
    *,
    cap: float = 5.0,
    self_normalize: bool = False,
) -> Any:
    r"""Net push :math:`\sum_i w_i A_i` of one group under ReCo's response weight.

    A centred rule alone has sum 0. Correct responses are usually the likelier ones, so the weight
    covaries negatively with the advantage and the sum is negative: on balance the sampled responses
    are pushed down, and everything else rises in proportion to its probability, right or wrong.

    Parameters
    ----------
    mean_logp : array_like (..., G) <= 0
        Mean log-likelihood per token of each response, in nats; G >= 1.
    advantage : array_like (..., G)
    cap : float >= 1
        Largest G w; infinite for none.
    self_normalize : bool
        Divide the weights by their sum.

    Returns
    -------
    float64 scalar or array (...)

    Raises
    ------
    ValueError
        mean_logp above 0 or NaN; cap below 1; shapes that differ.

    Notes
    -----
    [RECO] v1; the geometric mean, w in the place of 1/G, and the cap are our choice.

    Examples
    --------
    >>> A = [1.29, 1.29, 1.29, -0.774, -0.774, -0.774, -0.774, -0.774]
    >>> net_push(np.log([0.93, 0.94, 0.95, 0.87, 0.88, 0.89, 0.90, 0.91]), A).round(3)
    np.float64(-0.029)
    """
    logp = check.within("mean_logp", mean_logp, -np.inf, 0.0)
    check.within("cap", cap, 1.0, np.inf)
    A = check.real("advantage", advantage)
    if logp.shape != A.shape or logp.shape[-1:] in ((), (0,)):
        raise ValueError(
            f"mean_logp and advantage must both be (..., G), G >= 1; got {logp.shape} and {A.shape}"
        )
    G = logp.shape[-1]
    with np.errstate(over="ignore"):
        w = np.minimum(response_weight(logp, G), cap / G)
    if self_normalize:
        w = w / w.sum(axis=-1, keepdims=True)
    return (w * A).sum(axis=-1)[()]


def _open(name: str, p: ArrayLike) -> NDArray[np.float64]:
    return check.mass(name, p, inclusive=False)
