"""Populations of prompts: fitted to rollout counts, and group events averaged over them.

Prompts differ, so the share of mixed groups is the mean of 1 - p^N - (1-p)^N over the prompts'
success rates p, not its value at the mean rate. Up to the N rollouts at hand it is known without a
model (:func:`mixed_share`, :func:`tail_miss_share`); past them it needs one (`PromptPopulation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._credit import expected_credit
from ._logit_rule import mean_tail_miss
from ._population_fit import (
    DRAWS,
    distinct_counts,
    fit_cells,
    fit_curve,
    fit_p_value,
    profile_interval,
)
from ._rng import RNG
from .passk import pass_at_k, pass_hat_k

Array = NDArray[np.float64]
_LARGEST_NODES = 800


def mixed_share(n: ArrayLike, c: ArrayLike, N: ArrayLike) -> Any:
    r"""Unbiased estimate of the chance that a group of N rollouts of a prompt is mixed.

    .. math:: 1 - \frac{C(c, N)}{C(n, N)} - \frac{C(n-c, N)}{C(n, N)}

    Parameters
    ----------
    n, c : array_like of int, 0 <= c <= n
        Rollouts of the prompt and correct ones among them.
    N : array_like of int, >= 1
        Group size.

    Returns
    -------
    float64 scalar or array in [0, 1]; NaN where N > n.

    Raises
    ------
    ValueError
        A value that is NaN, not whole or out of range; c > n.

    Notes
    -----
    The difference of pass@N and pass^N. Equal to the exact fractions of real files to 1e-12
    (tests/test_audit.py).

    Examples
    --------
    >>> mixed_share(8, [0, 4], 4).mean().round(12)
    np.float64(0.485714285714)
    """
    N = check.whole("N", N)
    return np.maximum(pass_at_k(n, c, N) - pass_hat_k(n, c, N), 0.0)


def tail_miss_share(n: ArrayLike, c: ArrayLike, N: ArrayLike, rho: ArrayLike) -> Any:
    r"""Unbiased estimate of the chance that a group is mixed and misses the rare correct subset.

    .. math:: \sum_{0 < j < N} \frac{C(c, j)\, C(n-c, N-j)}{C(n, N)} (1 - \rho)^j

    Parameters
    ----------
    n, c, N
        As for :func:`mixed_share`.
    rho : array_like in [0, 1]
        Share of the correct mass that is rare.

    Returns
    -------
    float64 scalar or array in [0, 1]; NaN where N > n.

    Raises
    ------
    ValueError
        As :func:`mixed_share`; rho outside [0, 1].

    Notes
    -----
    A correct rollout is rare with probability rho by itself, so j correct ones all miss with
    (1 - rho)^j. Its mean over c is ``tail_miss_prob(N, p, rho * p)`` (tests/test_prompts.py).

    Examples
    --------
    >>> tail_miss_share(4, 2, 2, 0.5).round(12)
    np.float64(0.333333333333)
    """
    n, c, N = check.whole("n", n, 0), check.whole("c", c, 0), check.whole("N", N)
    check.at_most("c", c, "n", n)
    return expected_credit(n, c, N, check.mass("rho", rho), _mixed_without_rare)


def _mixed_without_rare(N: int, rho: float) -> Array:
    credit = np.power(1 - rho, np.arange(N + 1.0))
    credit[[0, N]] = 0.0
    return credit


@dataclass(frozen=True)
class PromptPopulation:
    r"""Success rates of prompts: a Beta law with masses at 0 and 1.

    .. math:: p \sim z\,\delta_0 + o\,\delta_1 + (1 - z - o)\,\mathrm{Beta}(\alpha, \beta)

    Attributes
    ----------
    alpha, beta : float > 0
        The Beta law.
    zero, one : float >= 0
        Share of prompts that never and that always succeed.
    cells : array of shape (m, 3), or None
        Distinct (n, c) that it was fitted to and how many prompts have each.
    log_likelihood : float
        Of the fit; NaN without one.
    """

    alpha: float
    beta: float
    zero: float = 0.0
    one: float = 0.0
    cells: Array | None = field(default=None, repr=False, compare=False)
    log_likelihood: float = field(default=float("nan"), compare=False)

    def __post_init__(self) -> None:
        if not (0 < self.alpha < np.inf and 0 < self.beta < np.inf):
            raise ValueError(f"alpha and beta must be > 0; got {self.alpha!r} and {self.beta!r}")
        if not (0 <= self.zero and 0 <= self.one and self.zero + self.one <= 1 + 1e-12):
            masses = f"{self.zero!r} and {self.one!r}"
            raise ValueError(f"zero and one must be >= 0 and sum to at most 1; got {masses}")

    @classmethod
    def fit(cls, n: ArrayLike, c: ArrayLike, *, masses: bool = True) -> PromptPopulation:
        r"""Maximum likelihood from c successes among n rollouts of each prompt.

        Parameters
        ----------
        n, c : array_like of int, 0 <= c <= n
            One value a prompt.
        masses : bool
            Whether to fit the masses at 0 and 1. They need prompts with n >= 4, and are 0
            otherwise: fewer rollouts cannot tell them from a wide Beta law.

        Returns
        -------
        PromptPopulation

        Raises
        ------
        ValueError
            Counts out of range; no prompt with n >= 2; no prompt with both outcomes.

        Notes
        -----
        Beta-binomial likelihood on the distinct (n, c), maximised by L-BFGS from several starts.
        Recovery and coverage of the intervals are held in tests/test_prompts.py.

        Examples
        --------
        >>> population = PromptPopulation.fit([4] * 8, [0, 0, 0, 1, 2, 3, 4, 1], masses=False)
        >>> round(population.mean_rate, 2)
        0.35
        """
        return fit_cells(cls, distinct_counts(n, c), masses)

    @classmethod
    def fit_curve(cls, k: ArrayLike, value: ArrayLike, *, mass: bool = True) -> PromptPopulation:
        """Least squares from pass@k values alone, with an optional mass at 0.

        A curve says nothing of its own noise, so the population has no interval; what the curve
        certifies is found by :func:`tailmiss.audit_curve`.

        Raises
        ------
        ValueError
            k not whole or below 1, a value outside [0, 1], fewer than 2 values (3 with a mass).

        Examples
        --------
        >>> truth = PromptPopulation(0.5, 2.0, 0.1)
        >>> k = [1, 2, 4, 8, 16]
        >>> fitted = PromptPopulation.fit_curve(k, truth.pass_at_k(k))
        >>> round(fitted.alpha, 3), round(fitted.zero, 3)
        (0.5, 0.1)
        """
        return fit_curve(cls, check.whole("k", k), check.mass("value", value), mass)

    @property
    def mean_rate(self) -> float:
        """Mean success rate of the population."""
        return self.one + self._rest * self.alpha / (self.alpha + self.beta)

    @property
    def _rest(self) -> float:
        return max(1.0 - self.zero - self.one, 0.0)

    def average(self, value: Callable[[Array], Array], *, nodes: int = 400) -> Any:
        """Mean of value(p) over the population; value takes rates and puts them on its last axis.

        Gauss-Jacobi quadrature: exact where value is a polynomial of degree below 2 * nodes, of
        which 800 are the most.
        """
        p, weight = _nodes(self.alpha, self.beta, min(nodes, _LARGEST_NODES))
        rates = np.concatenate([[0.0, 1.0], p])
        weights = np.concatenate([[self.zero, self.one], self._rest * weight])
        return value(rates) @ weights

    def pass_at_k(self, k: ArrayLike) -> Any:
        r"""Expected pass@k of a fresh prompt, :math:`1 - E[(1-p)^k]`, for any k."""
        return (self.one - self._rest * np.expm1(self._log_power(k, right=False)))[()]

    def pass_hat_k(self, k: ArrayLike) -> Any:
        r"""Expected pass^k of a fresh prompt, :math:`E[p^k]`, for any k."""
        return (self.one + self._rest * np.exp(self._log_power(k, right=True)))[()]

    def mixed_group_prob(self, N: ArrayLike) -> Any:
        r"""Share of mixed groups, :math:`1 - E[p^N] - E[(1-p)^N]`."""
        unmixed = np.exp(self._log_power(N, right=True)) + np.expm1(self._log_power(N, right=False))
        return np.maximum(-self._rest * unmixed, 0.0)[()]

    def tail_miss_prob(self, N: ArrayLike, rho: ArrayLike) -> Any:
        r"""Tail-miss probability averaged over prompts, each with a rare mass of rho * p."""
        N, rho = np.broadcast_arrays(check.whole("N", N), check.mass("rho", rho))
        mean = mean_tail_miss(self.alpha, self.beta, N.ravel(), rho.ravel())
        return (self._rest * mean).reshape(N.shape)[()]

    def density(self, p: ArrayLike) -> Any:
        """Density of the Beta part at p, scaled by its share of the prompts."""
        from scipy.stats import beta

        return self._rest * beta.pdf(np.asarray(p, float), self.alpha, self.beta)

    def expected_counts(self, n: int) -> Array:
        """Probability of c = 0..n successes among n rollouts of a fresh prompt."""
        from ._credit import count_pmf

        pmf = self._rest * count_pmf(n, self.alpha, self.beta)
        pmf[0] += self.zero
        pmf[n] += self.one
        return pmf

    def interval(
        self, statistic: Callable[[PromptPopulation], float], *, confidence: float = 0.95
    ) -> tuple[float, float]:
        r"""Profile-likelihood interval of a number computed from the population.

        The range of the statistic over all populations whose log-likelihood is within
        :math:`\tfrac12 \chi^2_{1,\mathrm{confidence}}` of the best.

        Raises
        ------
        ValueError
            The population was not fitted to counts.

        Notes
        -----
        Unlike resampling it keeps its rate where a mass is 0, as it often is; coverage is held in
        tests/test_prompts.py. It knows the noise of rollouts and of prompts, and assumes the shape
        of the population.

        Examples
        --------
        >>> population = PromptPopulation.fit([8] * 40, [0, 1, 3, 8] * 10)
        >>> low, high = population.interval(lambda p: p.pass_at_k(16))
        >>> bool(low < population.pass_at_k(16) < high)
        True
        """
        check.mass("confidence", confidence, inclusive=False)
        if self.cells is None:
            raise ValueError("the population was not fitted to counts: it has no interval")
        return profile_interval(self, statistic, confidence)

    def fit_p_value(self, *, draws: int = DRAWS, rng: RNG = 0) -> float:
        r"""Parametric bootstrap test of the fit: small where the counts do not follow the law.

        .. math:: \hat p = \frac{1 + \#\{b : G_b \ge G\}}{1 + \text{draws}}

        with G the deviance of the counts from the fit, and G_b that of counts drawn from the fit
        from a fit of their own; drawing ends at the fifth, with p = 5 / (draws so far).

        Parameters
        ----------
        draws : int >= 1
            Most samples drawn and fitted.
        rng : int, SeedSequence or Generator

        Returns
        -------
        float in (0, 1]; NaN where the counts are too few to test the law: no more distinct
        outcomes than parameters (n < 5 for all prompts), or more than 2,000 of (n, c).

        Raises
        ------
        ValueError
            The population was not fitted to counts; draws below 1.

        Notes
        -----
        Uniform under the law and small under a law of two points (tests/test_prompts.py). It tests
        the law where the counts show it: two populations that differ only at rates far below 1/n
        give the same counts, and differ in pass@k past n all the same.

        Examples
        --------
        >>> PromptPopulation.fit([16] * 200, [1, 9] * 100).fit_p_value() < 0.05
        True
        """
        draws = check.whole_number("draws", draws)
        if self.cells is None:
            raise ValueError("the population was not fitted to counts: there is no fit to test")
        return fit_p_value(self, draws, rng)

    def _log_power(self, k: ArrayLike, *, right: bool) -> Array:
        """ln E[p^k], or ln E[(1-p)^k], of the Beta part."""
        from scipy.special import betaln

        k = check.whole("k", k)
        a, b = (self.alpha, self.beta) if right else (self.beta, self.alpha)
        return np.asarray(betaln(a + k, b) - betaln(a, b), np.float64)


@lru_cache(maxsize=64)
def _nodes(alpha: float, beta: float, size: int) -> tuple[Array, Array]:
    """Gauss nodes and weights for a Beta(alpha, beta) law on [0, 1] (Golub and Welsch)."""
    from scipy.linalg import eigh_tridiagonal

    left, right = alpha - 1, beta - 1
    i = np.arange(1.0, size)
    total = 2 * i + left + right
    diagonal = np.empty(size)
    diagonal[0] = (left - right) / (left + right + 2)
    diagonal[1:] = (left**2 - right**2) / (total * (total + 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        square = 4 * i * (i + left) * (i + right) * (i + left + right)
        square /= total**2 * (total + 1) * (total - 1)
    first = 2 + left + right
    square[:1] = 4 * (1 + left) * (1 + right) / (first**2 * (first + 1))
    x, vectors = eigh_tridiagonal(diagonal, np.sqrt(square))
    return np.clip((x + 1) / 2, 0.0, 1.0), vectors[0] ** 2
