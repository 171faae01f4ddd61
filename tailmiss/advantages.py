r"""Advantage rules: what a correct and a wrong rollout get in a group with K correct out of N.

Every count-based rule is a pair of tables :math:`(a_K, b_K)`: the advantage of a correct and of a
wrong rollout. Rewards are 1 / 0, K counts the correct rollouts, R = C(N-K, k) / C(N, k), and the
standard deviation has ddof = 0 and no eps unless asked for.

=========== ========== ============================== =============================== =============
rule        arXiv      a_K                            b_K                             options
=========== ========== ============================== =============================== =============
reinforce   --         1                              0                               reward_wrong
rloo        2402.14740 (N-K)/(N-1)                    -K/(N-1)
grpo        2402.03300 sqrt((N-K)/K)                  -sqrt(K/(N-K))                  ddof, eps
dr_grpo     2503.20783 1 - K/N                        -K/N
dapo        2503.14476 as grpo; groups with K = 0, N are resampled                    ddof, eps
centered    2602.06717 2(N-K)/N                       -2K/N
maxrl       2602.02710 (N-K)/K                        -1; 0 if K = 0                  keep_all_wrong
pkpo        2505.15201 k                              k (1 - C(N-1-K,k-1)/C(N-1,k-1)) k, leave_out
passk       2508.10751 sqrt(R/(1-R))                  see :func:`advantage_table`     k
best_of_n   2503.19595 1 if K = 1 else 0              0
psr         2506.01347 1                              0
nsr         2506.01347 0                              -1
w_reinforce 2506.01347 lam                            -1                              lam
disco_b     2505.12366 N/K; 0 if K = N                -N/(N-K); 0 if K = 0
grpo_lead   2504.09696 grpo * l(K/N)                  grpo * l(1-K/N)                 ddof, eps
=========== ========== ============================== =============================== =============

F-GRPO (2602.06717) is any of them times the focal weight (1 - K/N)^gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from .passk import log_all_wrong_prob
from .weights import focal_weight

LARGEST_GROUP = 2**24  # tables indexed by K stay within memory

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def advantage_table(rule: str, N: int, *, gamma: float = 0.0, **options: Any) -> Pair:
    r"""Advantages of a correct and of a wrong rollout, for every number K of correct ones.

    .. math:: A_i = (1 - K/N)^\gamma \, a_K \text{ if correct, else } (1 - K/N)^\gamma \, b_K

    Parameters
    ----------
    rule : str
        One of ``RULES``.
    N : int >= 1
        Group size.
    gamma : float >= 0
        Focal exponent; 0 is the plain rule.
    **options
        grpo, dapo, grpo_lead: ``ddof`` (0, or 1 as torch.std in TRL and verl) and ``eps`` >= 0
        (1e-4 in TRL, 1e-6 in verl). reinforce: ``reward_wrong``. w_reinforce: ``lam``. pkpo, passk:
        ``k`` (default 2). pkpo: ``leave_out=True`` for its variance-reduced form
        (sloo_minus_one). maxrl: ``keep_all_wrong=True`` keeps the baseline at K = 0.

    Returns
    -------
    correct, wrong : float64 arrays of length N + 1, indexed by K
        ``correct[0]`` and ``wrong[N]`` belong to no rollout and are 0.

    Raises
    ------
    ValueError
        Unknown rule or option; N below 1, or below 2 for rloo; gamma negative; k outside [1, N].

    Notes
    -----
    Sources in the module's table. passk: with R = C(N-K,k)/C(N,k) the chance that k draws are all
    wrong and sd = sqrt(R(1-R)), a_K = R/sd and b_K = (R - C(N-K-1,k-1)/C(N-1,k-1))/sd, both 0 where
    sd = 0. grpo_lead: l(x) = 0.4 + 1.1/(1 + exp(10 (x - 0.75))). Plain arithmetic; relative error
    of a few 1e-16 (tests/test_advantages.py).

    Examples
    --------
    >>> advantage_table("grpo", 2)
    (array([0., 1., 0.]), array([ 0., -1.,  0.]))
    >>> advantage_table("grpo", 2, gamma=1)[0]
    array([0. , 0.5, 0. ])
    """
    check.one_of("rule", rule, RULES)
    N = check.whole_number("N", N, high=LARGEST_GROUP)
    gamma = check.number("gamma", gamma, 0)
    K = np.arange(N + 1.0)
    formula = _FORMULAS[rule]
    known = formula.__kwdefaults__ or {}
    for name in options:
        if name not in known:
            raise ValueError(
                f"rule {rule!r} has no option {name!r}; it has {', '.join(known) or 'none'}"
            )
    with np.errstate(divide="ignore", invalid="ignore"):
        correct, wrong = formula(K, N, **options)
    g = focal_weight(K / N, gamma)
    return np.where(K > 0, g * correct, 0.0), np.where(K < N, g * wrong, 0.0)


def weight_function(rule: str, N: int, p: ArrayLike, *, gamma: float = 0.0, **options: Any) -> Any:
    r"""Weight of a prompt in the expected update, as a function of its success rate.

    With g = (1/N) sum_i A_i grad log pi(o_i), E[g] = w_N(p) grad p, where

    .. math:: w_N(p) = E_{J \sim \mathrm{Bin}(N-1, p)}[a_{J+1} - b_J]

    Parameters
    ----------
    rule, N, gamma, options
        As for :func:`advantage_table`.
    p : array_like in [0, 1]
        Success rate of the prompt.

    Returns
    -------
    float64 scalar or array, of the shape of p.

    Raises
    ------
    ValueError
        As :func:`advantage_table`; p outside [0, 1] or NaN.

    Notes
    -----
    The identity is proved in ``symbolic.py`` and enumerated in tests/test_advantages.py. Exact
    binomial sum: O(N) per value of p, relative error below 1e-12 where all terms have one sign.

    Examples
    --------
    >>> weight_function("rloo", 8, [0.1, 0.9]).round(12)
    array([1., 1.])
    >>> weight_function("grpo", 8, 0.0)
    np.float64(2.6457513110645907)
    """
    from scipy.stats import binom

    p = check.mass("p", p)
    correct, wrong = advantage_table(rule, N, gamma=gamma, **options)
    gain = correct[1:] - wrong[:-1]
    J = np.arange(len(gain))
    p = np.where(p < 1e-290, 0.0, p)  # SciPy's pmf overflows there; w_N is a polynomial in p
    flat = [float(binom.pmf(J, len(gain) - 1, value) @ gain) for value in p.ravel()]
    return np.array(flat).reshape(p.shape)[()]


def learning_rate_multiplier(gamma: ArrayLike) -> Any:
    r"""Learning rate that shrinks the mean advantage as the focal weight does.

    .. math:: m_\gamma = \frac{B(3/2, \gamma + 3/2)}{B(3/2, 3/2)}

    Parameters
    ----------
    gamma : array_like >= 0
        Focal exponent.

    Returns
    -------
    float64 scalar or array in (0, 1].

    Raises
    ------
    ValueError
        gamma negative, infinite or NaN.

    Notes
    -----
    [FGRPO] v2, App. N: the mean of sqrt(mu (1-mu)) (1-mu)^gamma over a uniform mu, relative to
    gamma = 0. ``scipy.special.beta``, a few 1e-15.

    Examples
    --------
    >>> learning_rate_multiplier([0, 0.5, 1, 2]).round(5)
    array([1.     , 0.67906, 0.5    , 0.3125 ])
    """
    from scipy.special import beta

    gamma = check.finite("gamma", gamma, 0)
    return (beta(1.5, gamma + 1.5) / beta(1.5, 1.5))[()]


def _reinforce(K: Any, N: int, *, reward_wrong: float = 0.0) -> Any:
    return 1.0, check.number("reward_wrong", reward_wrong)


def _rloo(K: Any, N: int) -> Any:
    if N < 2:
        raise ValueError(f"N must be >= 2 for rule 'rloo', whose baseline is the others; got {N}")
    return (N - K) / (N - 1), -K / (N - 1)


def _grpo(K: Any, N: int, *, ddof: int = 0, eps: float = 0.0) -> Any:
    check.one_of("ddof", ddof, (0, 1))
    eps = check.number("eps", eps, 0)
    mixed = (K > 0) & (K < N)
    if not ddof and not eps:
        return np.where(mixed, np.sqrt((N - K) / K), 0), np.where(mixed, -np.sqrt(K / (N - K)), 0)
    std = np.sqrt(K * (N - K) / (N * (N - ddof)))
    return np.where(mixed, (1 - K / N) / (std + eps), 0), np.where(mixed, -K / N / (std + eps), 0)


def _dr_grpo(K: Any, N: int) -> Any:
    return 1 - K / N, -K / N


def _centered(K: Any, N: int) -> Any:
    return 2 * (N - K) / N, -2 * K / N


def _maxrl(K: Any, N: int, *, keep_all_wrong: bool = False) -> Any:
    check.one_of("keep_all_wrong", keep_all_wrong, (False, True))
    return (N - K) / K, np.where((K > 0) | keep_all_wrong, -1.0, 0.0)


def _subset_size(k: int, N: int) -> int:
    k = check.whole_number("k", k)
    if k > N:
        raise ValueError(f"k must be <= N ({N}); got {k}")
    return k


def _pkpo(K: Any, N: int, *, k: int = 2, leave_out: bool = False) -> Any:
    check.one_of("leave_out", leave_out, (False, True))
    k = _subset_size(k, N)
    if leave_out:
        others_wrong = np.exp(log_all_wrong_prob(N - 1, np.maximum(K - 1, 0), k - 1))
        return k * others_wrong, 0.0
    others_wrong = np.exp(log_all_wrong_prob(N - 1, np.minimum(K, N - 1), k - 1))
    return float(k), k * (1 - others_wrong)


def _passk(K: Any, N: int, *, k: int = 2) -> Any:
    k = _subset_size(k, N)
    all_wrong = np.exp(log_all_wrong_prob(N, K, k))
    others_wrong = np.exp(log_all_wrong_prob(N - 1, np.minimum(K, N - 1), k - 1))
    sd = np.sqrt(all_wrong * (1 - all_wrong))
    return np.where(sd > 0, all_wrong / sd, 0), np.where(sd > 0, (all_wrong - others_wrong) / sd, 0)


def _best_of_n(K: Any, N: int) -> Any:
    return np.where(K == 1, 1.0, 0.0), 0.0


def _psr(K: Any, N: int) -> Any:
    return 1.0, 0.0


def _nsr(K: Any, N: int) -> Any:
    return 0.0, -1.0


def _w_reinforce(K: Any, N: int, *, lam: float = 0.1) -> Any:
    return check.number("lam", lam), -1.0


def _disco_b(K: Any, N: int) -> Any:
    mixed = (K > 0) & (K < N)
    return np.where(mixed, N / K, 0), np.where(mixed, -N / (N - K), 0)


def _grpo_lead(K: Any, N: int, *, ddof: int = 0, eps: float = 0.0) -> Any:
    correct, wrong = _grpo(K, N, ddof=ddof, eps=eps)
    return correct * _difficulty(K / N), wrong * _difficulty(1 - K / N)


def _difficulty(x: Any) -> Any:
    return 0.4 + 1.1 / (1 + np.exp(10 * (x - 0.75)))


_FORMULAS: dict[str, Callable[..., Any]] = {
    "reinforce": _reinforce,
    "rloo": _rloo,
    "grpo": _grpo,
    "dr_grpo": _dr_grpo,
    "dapo": _grpo,
    "centered": _centered,
    "maxrl": _maxrl,
    "pkpo": _pkpo,
    "passk": _passk,
    "best_of_n": _best_of_n,
    "psr": _psr,
    "nsr": _nsr,
    "w_reinforce": _w_reinforce,
    "disco_b": _disco_b,
    "grpo_lead": _grpo_lead,
}
RULES = tuple(_FORMULAS)
