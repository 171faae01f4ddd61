r"""What k draws from a finite set of actions leave unsampled: exact sums over actions.

Let k draws fall on actions of probability :math:`q_1, …, q_n` (sum 1). Single sums need only

.. math:: \Pr(i \text{ unsampled}) = (1-q_i)^k,

and for a run of consecutive k all of them are one matrix product, because
:math:`(1-q)^{k_0+Ba+b}` is a factor in a times a factor in b (:func:`single_sums`).

Pair sums are over i unsampled and j sampled, i != j,

.. math:: \Pr(i \text{ unsampled}, j \text{ sampled})
          = (1-q_i)^k \Bigl[1 - \Bigl(1 - \frac{q_j}{1-q_i}\Bigr)^k\Bigr].

Few distinct probabilities: the double sum is taken as it stands. Many: O(n^2) is too much, so the
number of draws is made Poisson(z). The numbers of draws of each action are then independent, the
pair sum factorises,

.. math:: h(z) = e^z \Bigl[\sum_i f_i e^{-q_i z} \sum_j g_j (1 - e^{-q_j z})
                 - \sum_i f_i g_i e^{-q_i z}(1 - e^{-q_i z})\Bigr]
               = \sum_k c_k \frac{z^k}{k!},

and its Taylor coefficients are the wanted sums :math:`c_k`: h is entire, and
:math:`k![z^k] e^z e^{-q_i z} e^{-q_j z} = (1-q_i-q_j)^k`. Cauchy's formula on the circle |z| = r by
the trapezoidal rule with M nodes is one discrete Fourier transform, which returns for each k

.. math:: e^{-r} \sum_{m \in Z} c_{k+mM} \frac{r^{k+mM}}{(k+mM)!}
          = \sum_m c_{k+mM} \mathrm{Poisson}(k+mM; r),

that is c_k times a Poisson weight plus aliases. All |c_k| are at most sum|f| sum|g|, so the aliases
are Poisson tails: with r near the mean of k, O(sqrt r) nodes push them below 1e-20, and rounding
divided by the Poisson weight stays at rounding level after averaging over a binomial k, whose
weights never exceed the Poisson ones by more than a factor sqrt(2 pi N). Since q_i + q_j <= 1 for
i != j, no pair grows on the left half of the circle; there all terms together are below exp(-r)
and are dropped once that is nothing. The largest action is kept out of the product, so that its
own square, which may grow, is never formed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_NEVER = -1e200  # stands for log 0: times 0 it is 0, and exp of any multiple is 0
_NEGLIGIBLE = 1e-25
_DIRECT_TERMS = 2**23
_BLOCK = 2**19


class Actions(NamedTuple):
    """Actions of one kind, grouped by equal probability, rarest first."""

    p: Vector
    copies: Vector
    total: float
    square: float
    log_absent: Vector  # log(1 - q), q = p / total

    @property
    def q(self) -> Vector:
        """Probability given that the rollout is of this kind."""
        return self.p / self.total


def group_actions(p: Vector) -> Actions:
    """The actions of positive probability, equal ones together."""
    values, times = np.unique(p[p > 0], return_counts=True)
    copies = times.astype(np.float64)
    total = float(copies @ values)
    log_absent = np.full(values.size, _NEVER)
    if values.size:
        log_absent = np.log1p(-np.minimum(values / total, 0.75))
        if copies[-1] == 1:  # the largest may be near 1: what the others leave it has more digits
            rest = float(copies[:-1] @ values[:-1]) / total
            log_absent[-1] = np.log(rest) if rest > 0 else _NEVER
    return Actions(values, copies, total, float(copies @ values**2), log_absent)


def binomial(N: int, mu: float, nu: float) -> tuple[int, Vector]:
    """First k and probabilities of Binomial(N, mu), nu = 1 - mu, without negligible ends."""
    if mu <= 0 or nu <= 0:
        return (0 if mu <= 0 else N), np.ones(1)
    k = np.arange(N)
    return _from_ratios(np.log((N - k) / (k + 1.0)) + np.log(mu / nu))


def _poisson(mean: float, low: int, high: int) -> Vector:
    """Poisson probabilities of low..high, which hold all but a negligible part."""
    logs = _cumulate(np.log(mean / np.arange(low + 1.0, high + 1.0)))
    weights = np.exp(logs)
    return weights / weights.sum()


def _from_ratios(log_ratios: Vector) -> tuple[int, Vector]:
    logs = _cumulate(log_ratios)
    kept = np.flatnonzero(logs > np.log(_NEGLIGIBLE))
    weights = np.exp(logs[kept[0] : kept[-1] + 1])
    return int(kept[0]), weights / weights.sum()


def _cumulate(log_ratios: Vector) -> Vector:
    """Logarithms relative to the mode, summed outwards from it to keep their digits."""
    mode = int(np.count_nonzero(log_ratios > 0))
    down = -np.cumsum(log_ratios[:mode][::-1])[::-1]
    return np.concatenate([down, [0.0], np.cumsum(log_ratios[mode:])])


def single_sums(actions: Actions, weights: Vector, low: int, high: int) -> tuple[Vector, Vector]:
    """Expected sums of each row of `weights` over unsampled and over sampled actions.

    Returns two arrays of shape (rows, high - low + 1), for k = low..high draws.
    """
    length = high - low + 1
    unsampled, sampled = np.zeros((2, len(weights), length))
    baby = np.arange(float(np.ceil(np.sqrt(length))))
    giant = low + baby.size * np.arange(np.ceil(length / baby.size))
    step = max(_BLOCK // baby.size, 1)
    for start in range(0, actions.p.size, step):
        part = slice(start, start + step)
        log_absent, w = actions.log_absent[part], weights[:, part] * actions.copies[part]
        far, near = np.outer(giant, log_absent), np.outer(log_absent, baby)
        absent, near_absent, near_sampled = np.exp(far), np.exp(near), -np.expm1(near)
        far_sampled = -np.expm1(far)
        for row in range(len(w)):
            scaled = absent * w[row]
            unsampled[row] += (scaled @ near_absent).ravel()[:length]
            both = (far_sampled @ w[row])[:, None] + scaled @ near_sampled
            sampled[row] += both.ravel()[:length]
    return unsampled, sampled


def pair_sums(
    actions: Actions, pairs: list[tuple[Vector, Vector]], low: int, high: int, mean: float
) -> list[Vector]:
    """E[(sum of f over unsampled) (sum of g over sampled)] of each (f, g), for k = low..high.

    `mean` is the mean of k. Those who weight k by its binomial get full precision; a single k far
    from `mean` would not be.
    """
    if actions.p.size**2 * (high - low + 1) <= _DIRECT_TERMS:
        return _pairs_directly(actions, pairs, low, high)
    return _pairs_by_cauchy(actions, pairs, low, high, mean)


def _pairs_directly(
    actions: Actions, pairs: list[tuple[Vector, Vector]], low: int, high: int
) -> list[Vector]:
    q, copies, log_absent = actions.q, actions.copies, actions.log_absent
    ordered = np.outer(copies, copies) - np.diag(copies)
    absent = np.exp(log_absent)[:, None]
    share = np.divide(q, absent, where=ordered > 0, out=np.zeros_like(ordered))
    with np.errstate(divide="ignore"):
        log_other = np.maximum(np.log1p(-np.minimum(share, 1.0)), _NEVER)
    sums = np.empty((len(pairs), high - low + 1))
    step = max(_BLOCK // ordered.size, 1) if ordered.size else high + 1
    for start in range(low, high + 1, step):
        k = np.arange(start, min(start + step, high + 1))[:, None, None]
        both = ordered * -np.expm1(k * log_other) * np.exp(k * log_absent[:, None])
        part = slice(start - low, start - low + len(k))
        sums[:, part] = [(both @ g) @ f for f, g in pairs]
    return list(sums)


def _pairs_by_cauchy(
    actions: Actions, pairs: list[tuple[Vector, Vector]], low: int, high: int, mean: float
) -> list[Vector]:
    r = max(mean, 1.0)
    reach = 10 * np.sqrt(r) + 30
    M = int(max(high - r, r - low) + reach) + 2
    angle = 2 * np.pi * np.arange(M // 2 + 1) / M
    angle = angle[(np.cos(angle) >= 0) | (r < 600)]
    h = np.zeros((len(pairs), M // 2 + 1), complex)
    step = max(_BLOCK // actions.p.size, 1)
    for start in range(0, angle.size, step):
        z = r * np.exp(1j * angle[start : start + step])
        rest, top = _poissonised(actions, pairs, z)
        h[:, start : start + z.size] = np.exp(z - r) * (rest + top)
    first, last = max(int(min(low, r - reach)), 0), int(max(high, r + reach)) + 1
    weight = _poisson(r, first, last)[low - first : high - first + 1]
    at = np.arange(low, high + 1) % M
    return [np.fft.hfft(row, M)[at] / M / weight for row in h]


def _poissonised(
    actions: Actions, pairs: list[tuple[Vector, Vector]], z: NDArray[np.complex128]
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Pair sums at Poisson(z) draws: pairs without, and pairs with one copy of the top action."""
    copies = actions.copies.copy()
    copies[-1] -= 1
    unsampled, sampled = _unsampled_and_sampled(np.outer(z, actions.q))
    both = unsampled * sampled
    rest, top = np.empty((2, len(pairs), z.size), complex)
    for at, (f, g) in enumerate(pairs):
        f_unsampled, g_sampled = unsampled @ (copies * f), sampled @ (copies * g)
        rest[at] = f_unsampled * g_sampled - both @ (copies * f * g)
        top[at] = f[-1] * unsampled[:, -1] * g_sampled + g[-1] * sampled[:, -1] * f_unsampled
    return rest, top


def _unsampled_and_sampled(
    x: NDArray[np.complex128],
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """exp(-x) and 1 - exp(-x), each with all its digits."""
    half = 0.5 * x.imag
    sine, cosine = np.sin(half), np.cos(half)
    size = np.exp(-x.real)
    unsampled = np.empty_like(x)
    unsampled.real = size * (1 - 2 * sine * sine)
    unsampled.imag = size * (-2 * sine * cosine)
    sampled = -unsampled
    sampled.real = 2 * size * sine * sine - np.expm1(-x.real)
    return unsampled, sampled
