"""Likelihood of a population of prompts: its maximum, and intervals from its profile.

The parameters are (ln alpha, ln beta, zero, t) with one = (1 - zero) t, so that a box is all there
is to respect and a mass may be exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._rng import RNG, generator

if TYPE_CHECKING:
    from .prompts import PromptPopulation

Array = NDArray[np.float64]
_LAW = (float(np.log(1e-3)), float(np.log(1e4)))
_MASS = (0.0, 0.999)
_FEWEST_FOR_MASSES = 4
_LEAST_MASS = 1e-6
_MOST_CELLS = 2000
_ENOUGH_WORSE = 5
DRAWS = 59


def distinct_counts(n: ArrayLike, c: ArrayLike) -> Array:
    """Distinct (n, c) and how many prompts have each; refused where nothing can be fitted."""
    n, c = check.whole("n", n, 0), check.whole("c", c, 0)
    check.at_most("c", c, "n", n)
    pairs = np.stack([a.ravel() for a in np.broadcast_arrays(n, c)])
    values, counts = np.unique(pairs[:, pairs[0] > 0], axis=1, return_counts=True)
    cells = np.column_stack([values.T, counts]).astype(float)
    if not cells.size or cells[:, 0].max() < 2:
        raise ValueError("a population needs prompts with at least 2 rollouts")
    if cells[:, 2].sum() < 2:
        raise ValueError("a population needs at least 2 prompts")
    if not ((cells[:, 1] > 0) & (cells[:, 1] < cells[:, 0])).any():
        raise ValueError("no prompt has both outcomes: a population cannot be fitted")
    return cells


def fit_cells(kind: type[PromptPopulation], cells: Array, masses: bool) -> PromptPopulation:
    """The population of largest likelihood."""
    masses = masses and bool(cells[:, 0].max() >= _FEWEST_FOR_MASSES)
    results = [_minimise(_loss, start, masses, cells) for start in _starts(cells, masses)]
    best = min(results, key=lambda result: result.fun)
    population = _population(kind, best.x)
    zero, one = (m if m > _LEAST_MASS else 0.0 for m in (population.zero, population.one))
    return kind(population.alpha, population.beta, zero, one, cells, -float(best.fun))


def fit_p_value(best: PromptPopulation, draws: int, rng: RNG) -> float:
    """Share of fits to counts drawn from `best` that are no better than `best` is to its own.

    Drawing ends where enough have been (Besag and Clifford, 1991): the p-value stays valid.
    """
    assert best.cells is not None
    n, _, w = best.cells.T
    masses = bool(n.max() >= _FEWEST_FOR_MASSES)
    sizes = np.unique(n)
    if sizes.sum() <= (4 if masses else 2) or len(best.cells) > _MOST_CELLS:
        return float("nan")
    prompts = {size: int(w[n == size].sum()) for size in sizes.tolist()}
    laws = {size: best.expected_counts(int(size)) for size in prompts}
    start, source = _point(best), generator(rng)
    seen = _deviance(best.cells, _loss(start, best.cells)[0])
    worse = 0
    for drawn in range(1, draws + 1):
        cells = np.concatenate(
            [
                np.column_stack([np.full(hits.size, size), hits, times[hits]])
                for size, number in prompts.items()
                for times in [source.multinomial(number, laws[size])]
                for hits in [np.flatnonzero(times)]
            ]
        ).astype(float)
        fit = _minimise(_loss, start, masses, cells, precision=1e-7)
        worse += _deviance(cells, float(fit.fun)) >= seen - 1e-9
        if worse == _ENOUGH_WORSE:
            return worse / drawn
    return (worse + 1) / (draws + 1)


def _deviance(cells: Array, loss: float) -> float:
    """Twice the log-likelihood that the fit loses to the observed shares themselves."""
    n, _, w = cells.T
    total = np.array([w[n == size].sum() for size in n])
    return 2 * (float(w @ np.log(w / total)) + loss)


def _point(population: PromptPopulation) -> Array:
    """Its parameters, within the box."""
    start = np.array(
        [
            np.log(population.alpha),
            np.log(population.beta),
            population.zero,
            population.one / max(1 - population.zero, 1e-9),
        ]
    )
    return np.clip(start, [_LAW[0]] * 2 + [0, 0], [_LAW[1]] * 2 + [_MASS[1]] * 2)


def fit_curve(kind: type[PromptPopulation], k: Array, value: Array, mass: bool) -> PromptPopulation:
    """The population whose pass@k is nearest in the mean square, from several starts."""
    from scipy.optimize import least_squares

    if k.ndim != 1 or k.shape != value.shape or k.size < 2 + mass:
        raise ValueError(
            f"k and value must be lists of one length, at least {2 + mass}; got {k.shape} and"
            f" {value.shape}"
        )
    top = _MASS[1] if mass else 1e-12

    def off(x: Array) -> Array:
        return np.asarray(_population(kind, np.append(x, 0.0)).pass_at_k(k)) - value

    rate = float(np.clip(value[np.argmin(k)], 1e-3, 0.999))
    starts = [
        [np.log(max(rate * size, 2e-3)), np.log((1 - rate) * size), zero * top]
        for size in (0.5, 2.0, 8.0)
        for zero in (0.02, 0.4 * (1 - float(value.max())) + 0.01)
    ]
    box = ([_LAW[0]] * 2 + [0.0], [_LAW[1]] * 2 + [top])
    fits = [least_squares(off, start, bounds=box, xtol=1e-12, ftol=1e-12) for start in starts]
    best = min(fits, key=lambda fit: fit.cost)
    return _population(kind, np.append(best.x if mass else [*best.x[:2], 0.0], 0.0))


def _population(kind: type[PromptPopulation], x: Array) -> PromptPopulation:
    alpha, beta = np.exp(x[:2])
    zero = float(x[2])
    return kind(float(alpha), float(beta), zero, (1 - zero) * float(x[3]))


def _minimise(loss: Any, start: Array, masses: bool, *args: Any, precision: float = 1e-13) -> Any:
    from scipy.optimize import minimize

    bounds = [_LAW] * 2 + [_MASS if masses else (0.0, 0.0)] * 2
    options: Any = {"maxiter": 500, "ftol": precision, "gtol": 1e-7}
    return minimize(
        loss, start, args=args, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )


def _starts(cells: Array, masses: bool) -> list[Array]:
    n, c, w = cells.T
    rate = float(np.clip((w * c).sum() / (w * n).sum(), 0.01, 0.99))
    laws = [np.log([rate * s, (1 - rate) * s]) for s in (0.6, 3.0)]
    if not masses:
        return [np.append(law, [0.0, 0.0]) for law in laws]
    middle = np.clip(rate, 0.3, 0.7)
    inside = np.log([1.5 * middle, 1.5 * (1 - middle)])
    share = [0.7 * float(w[c == end].sum() / w.sum()) for end in (0, n)]
    wide = [np.append(law, [0.01, 0.01]) for law in laws]
    return [*wide, np.append(inside, [share[0], share[1] / (1 - share[0])])]


def _loss(x: Array, cells: Array) -> tuple[float, Array]:
    """Negative log-likelihood and its gradient."""
    from scipy.special import betaln, digamma

    n, c, w = cells.T
    a, b = np.exp(x[:2])
    zero, t = x[2:]
    one = (1 - zero) * t
    rest = (1 - zero) * (1 - t)
    ways = -betaln(c + 1, n - c + 1) - np.log(n + 1)
    law = np.exp(ways + betaln(a + c, b + n - c) - betaln(a, b))
    total = np.maximum(rest * law + zero * (c == 0) + one * (c == n), 1e-300)
    common = digamma(a + b) - digamma(a + b + n)
    pull = w * rest * law / total
    to_zero, to_one = w @ (((c == 0) - law) / total), w @ (((c == n) - law) / total)
    gradient = np.array(
        [
            pull @ (a * (digamma(a + c) - digamma(a) + common)),
            pull @ (b * (digamma(b + n - c) - digamma(b) + common)),
            to_zero - t * to_one,
            (1 - zero) * to_one,
        ]
    )
    return -float(w @ np.log(total)), -gradient


def profile_interval(
    best: PromptPopulation, statistic: Callable[[PromptPopulation], float], confidence: float
) -> tuple[float, float]:
    """Range of a statistic over the populations that the data do not rule out.

    Each end maximises log-likelihood + pull * statistic; the pull is searched until the likelihood
    has dropped by as much as the confidence allows.
    """
    from scipy.special import chdtri

    assert best.cells is not None
    cells, kind = best.cells, type(best)
    drop = float(chdtri(1, 1 - confidence)) / 2
    masses = bool(cells[:, 0].max() >= _FEWEST_FOR_MASSES)
    start = _point(best)
    free = range(4 if masses else 2)

    def value(x: Array) -> float:
        return float(statistic(_population(kind, x)))

    def pulled(x: Array, pull: float) -> tuple[float, Array]:
        loss, gradient = _loss(x, cells)
        here = value(x)
        for i in free:
            step = np.zeros(4)
            step[i] = 1e-6
            gradient[i] -= pull * (value(x + step) - here) / 1e-6
        return loss + best.log_likelihood - pull * here, gradient

    def end(sign: int) -> float:
        near, far = (0.0, 0.0, start), None
        pull = float(cells[:, 2].sum()) ** 0.5
        for _ in range(20):
            x = _minimise(pulled, near[2], masses, sign * pull, precision=1e-9).x
            fallen = max(_loss(x, cells)[0] + best.log_likelihood, 0.0)
            if fallen < drop:
                near = (pull, fallen, x)
                pull = pull * min(4, (drop / max(fallen, drop / 16)) ** 0.5)
            else:
                far = (pull, fallen, x)
                pull = pull * (drop / fallen) ** 0.5
            if far is not None:
                if not near[0] < pull < far[0]:
                    pull = (max(near[0], far[0] / 8) * far[0]) ** 0.5
                if far[1] - near[1] < 0.3 * drop or far[0] < 1.02 * near[0]:
                    break
            elif near[1] > 0.98 * drop:
                break
        if far is None:
            return value(near[2])
        share = (drop**0.5 - near[1] ** 0.5) / (far[1] ** 0.5 - near[1] ** 0.5)
        return value(near[2]) + share * (value(far[2]) - value(near[2]))

    ends = (end(-1), value(start), end(1))
    return min(ends), max(ends)
