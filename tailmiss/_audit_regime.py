"""Where a group size lies on the tail-miss curve, and which prompts its updates serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._logit_rule import mean_tail_miss
from .advantages import advantage_table, learning_rate_multiplier, weight_function
from .prompts import PromptPopulation

LEVEL = 0.5
LARGEST = 2**16
TELLING = 10
FEWEST = 10
LARGEST_GROUP = 4096
EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_COARSE = np.linspace(0, 1, 101)
_LOG_SIZES = np.linspace(0, np.log(LARGEST), 64)
_SIZES = np.exp(_LOG_SIZES)


@dataclass(frozen=True)
class Regime:
    """Where the group size in use lies, for the rare share `rho` of the correct mass.

    Attributes
    ----------
    group_size, rho
        As asked for.
    tail_miss, peak : float
        Tail-miss probability, averaged over prompts, at the group size in use, and at its worst.
    worst : int
        The worst group size, on a grid of 400 from 1 to 65,536.
    first, last : int
        The zone: group sizes where it is at least half of its peak.
    leaves : int
        The first size past the zone, 0 where that is above 65,536.
    place : str
        "inactive", "concentration zone" or "covering": before the zone, in it, past it.
    worst_interval, last_interval : (int, int) or None
        Profile-likelihood intervals of `worst` and `last`; 65,536 stands for all that is larger.
        At 50 prompts of 8 rollouts those of 95% held the truth in 93% (tests/test_prompts.py).
        None below 10 prompts, where they nearly always span more than a factor of ten, and by step.
    """

    group_size: int
    rho: float
    tail_miss: float
    worst: int
    peak: float
    first: int
    last: int
    leaves: int
    place: str
    worst_interval: tuple[int, int] | None = None
    last_interval: tuple[int, int] | None = None

    @property
    def end_known(self) -> bool:
        """Whether the data tell the end of the zone to within a factor of ten."""
        return self.last_interval is not None and telling(self.last_interval)

    @property
    def cost(self) -> float:
        """Rollouts at the size that leaves the zone, for each one now."""
        return self.leaves / self.group_size


def telling(interval: tuple[int, int]) -> bool:
    """Whether an interval of a group size is narrow enough for one number to stand for it."""
    return interval[1] < min(TELLING * interval[0], LARGEST)


def too_few(population: PromptPopulation) -> bool:
    """Whether there are too few prompts to say anything of the worst size and the zone's end."""
    return population.cells is not None and bool(population.cells[:, 2].sum() < FEWEST)


def regime(
    population: PromptPopulation, group_size: int, rho: float, confidence: float | None = None
) -> Regime:
    """Place a group size on the curve: inactive, concentration zone or covering.

    With a confidence the worst size and the end of the zone get their intervals.
    """
    sizes = np.unique(np.append(np.geomspace(1, LARGEST, 400).astype(int), group_size))
    curve = np.asarray(population.tail_miss_prob(sizes, rho))
    peak = int(np.argmax(curve))
    inside = np.flatnonzero(curve >= LEVEL * curve[peak])
    first, last = int(sizes[inside[0]]), int(sizes[inside[-1]])
    leaves = 0
    if last < sizes[-1]:
        low, high = last, int(sizes[inside[-1] + 1])
        while high - low > 1:
            middle = (low + high) // 2
            if population.tail_miss_prob(middle, rho) >= LEVEL * curve[peak]:
                low = middle
            else:
                high = middle
        last, leaves = low, high
    place = "concentration zone"
    if group_size < first:
        place = "inactive"
    elif group_size > last:
        place = "covering"
    value = float(curve[np.searchsorted(sizes, group_size)])
    worst = int(sizes[peak])
    found = Regime(group_size, rho, value, worst, float(curve[peak]), first, last, leaves, place)
    if confidence is None or too_few(population):
        return found
    logs = [
        population.interval(lambda p: _landmarks(p, rho)[0], confidence=confidence),
        population.interval(lambda p: _landmarks(p, rho)[1], confidence=confidence),
    ]
    return replace(
        found, worst_interval=_whole(logs[0], worst), last_interval=_whole(logs[1], last)
    )


def _landmarks(population: PromptPopulation, rho: float) -> tuple[float, float]:
    """Logarithms of the worst size and of the end of the zone.

    Interpolated between sizes, as the profile needs numbers that move smoothly with the law; within
    1% of the exact ones (tests/test_prompts.py).
    """
    curve = mean_tail_miss(population.alpha, population.beta, _SIZES, np.full(_SIZES.size, rho))
    step, at = _LOG_SIZES[1], int(np.argmax(curve))
    worst, peak = _LOG_SIZES[at], curve[at]
    if 0 < at < curve.size - 1:
        before, here, after = curve[at - 1 : at + 2]
        bend = before - 2 * here + after
        if bend < 0:
            off = (before - after) / (2 * bend)
            worst, peak = worst + off * step, here - (before - after) * off / 4
    inside = int(np.flatnonzero(curve >= LEVEL * peak)[-1])
    if inside == curve.size - 1:
        return float(worst), float(_LOG_SIZES[-1])
    above, below = np.log(curve[inside : inside + 2])
    share = (above - np.log(LEVEL * peak)) / (above - below)
    return float(worst), float(_LOG_SIZES[inside] + share * step)


def _whole(logs: tuple[float, float], best: int) -> tuple[int, int]:
    low, high = np.exp(logs)
    return min(int(low), best), max(int(np.ceil(high - 1e-6)), best)


@dataclass(frozen=True)
class Gradient:
    """Shares of the expected update by difficulty, at the group size in use.

    `shares` has for each (rule, gamma) one share for each bin of success rate between `edges`: of
    w_N(p) p (1-p), the weight of the prompt times how far its success moves with its log-odds; NaN
    where the focal weight leaves nothing of any.
    `learning_rate` is the mean absolute advantage with the focal weight over the one without, for
    each gamma over this population, under the first rule; `uniform` is the papers' m_gamma.
    """

    group_size: int
    edges: tuple[float, ...]
    shares: dict[tuple[str, float], tuple[float, ...]]
    prompts: tuple[float, ...]
    learning_rate: dict[float, float]
    uniform: dict[float, float]


def gradient_shares(
    population: PromptPopulation | None,
    group_size: int,
    rules: Sequence[str],
    gammas: Sequence[float],
) -> Gradient | None:
    """What each rule and focal exponent does with this population; None without one."""
    if population is None or not 2 <= group_size <= LARGEST_GROUP:
        return None
    middle = (np.arange(2000) + 0.5) / 2000
    mass = _masses(population, middle)
    bins = np.searchsorted(EDGES, middle) - 1
    shares = {}
    for rule in rules:
        for gamma in gammas:
            update = mass * np.interp(middle, _COARSE, _update(rule, group_size, gamma))
            total = np.bincount(bins, update, len(EDGES) - 1)
            shares[rule, float(gamma)] = tuple((total / (total.sum() or np.nan)).tolist())
    prompts = np.bincount(bins, mass, len(EDGES) - 1)
    prompts[0] += population.zero
    prompts[-1] += population.one
    strength = {g: _strength(population, group_size, rules[0], g) for g in (0.0, *gammas)}
    return Gradient(
        group_size,
        EDGES,
        shares,
        tuple(prompts.tolist()),
        {float(g): strength[g] / strength[0.0] for g in gammas},
        {float(g): float(learning_rate_multiplier(g)) for g in gammas},
    )


@lru_cache(maxsize=256)
def _update(rule: str, group_size: int, gamma: float) -> NDArray[np.float64]:
    """w_N(p) p (1-p) on a grid of rates; the same at every step of a training log."""
    weight = weight_function(rule, group_size, _COARSE, gamma=gamma)
    return np.asarray(weight * _COARSE * (1 - _COARSE))


def _masses(population: PromptPopulation, middle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of prompts of the Beta part in equal bins around the given rates."""
    from scipy.special import betainc

    edges = np.linspace(0, 1, middle.size + 1)
    rest = 1 - population.zero - population.one
    return np.asarray(rest * np.diff(betainc(population.alpha, population.beta, edges)))


def _strength(population: PromptPopulation, N: int, rule: str, gamma: float) -> float:
    """Mean absolute advantage over prompts and groups."""
    correct, wrong = advantage_table(rule, N, gamma=gamma)
    K = np.arange(N + 1)
    return float(population.expected_counts(N) @ (K * abs(correct) + (N - K) * abs(wrong))) / N
