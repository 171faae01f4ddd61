"""What a printed pass@k curve alone can and cannot mean.

With n samples of each problem, every pass@k, every share of mixed groups and every tail-miss share
is linear in how the success counts 0..n are spread over the problems. Linear programs over all such
spreads tell whether a curve can occur at all, and between which values everything else must lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._curve_problems import whole_problems
from .passk import pass_at_k
from .prompts import mixed_share, tail_miss_share

Array = NDArray[np.float64]
_SLACK = 1e-7


@dataclass(frozen=True, eq=False)
class CountPopulation:
    """Problems by their number of successes among n samples: `share` of them have `c` each."""

    samples: int
    c: Array
    share: Array

    def average(self, value: Callable[..., Array], *at: float) -> float:
        """Mean of value(n, c, ...) over the problems."""
        return float(value(self.samples, self.c, *at) @ self.share)

    def pass_at_k(self, k: float) -> float:
        """pass@k of these problems."""
        return self.average(pass_at_k, k)

    def mixed_share(self, N: float) -> float:
        """Share of groups of N that are mixed."""
        return self.average(mixed_share, N)

    def tail_miss_share(self, N: float, rho: float) -> float:
        """Share of groups of N that are mixed and miss the rare share rho of the correct mass."""
        return self.average(tail_miss_share, N, rho)


@dataclass(frozen=True, eq=False)
class Bound:
    """Sharp bounds of one quantity, with a population that attains each.

    Attributes
    ----------
    quantity : str
        "pass_at_k", "mixed_share" or "tail_miss".
    at : int
        k or N.
    rho : float
        Rare share of the correct mass; NaN but for tail miss.
    low, high : float
        The bounds, as fractions.
    lowest, highest : CountPopulation
        Who attains them.
    """

    quantity: str
    at: int
    rho: float
    low: float
    high: float
    lowest: CountPopulation
    highest: CountPopulation


@dataclass(frozen=True, eq=False)
class CurveAudit:
    """What :func:`audit_curve` found.

    Attributes
    ----------
    k, value : arrays
        The curve, as fractions.
    samples, problems : int, int or None
        Samples of each problem, and the number of problems where given.
    half_width : float
        Half of the last printed digit, as a fraction: how far a value may be off by rounding.
    misfit : float
        Smallest possible largest distance between the curve and one that can occur, a fraction.
    feasible : bool
        Whether that is within rounding, for problems in any proportions.
    feasible_for_problems : bool or None
        Whether whole numbers of `problems` can produce it; None where not asked or not settled.
    closest : CountPopulation
        A population at that distance.
    bounds : tuple of Bound
        Of pass@k, mixed share and tail-miss share; over the closest populations where infeasible.
    """

    k: Array
    value: Array
    samples: int
    problems: int | None
    half_width: float
    misfit: float
    feasible: bool
    feasible_for_problems: bool | None
    closest: CountPopulation
    bounds: tuple[Bound, ...] = ()

    @property
    def beyond_rounding(self) -> float:
        """The misfit that rounding cannot explain; 0 where the curve is possible."""
        return 0.0 if self.feasible else self.misfit - self.half_width

    def to_frame(self) -> Any:
        """One row a bound."""
        import pandas as pd

        names = ("quantity", "rho", "at", "low", "high")
        return pd.DataFrame(
            [{n: getattr(b, n) for n in names} for b in self.bounds], columns=list(names)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, fractions throughout."""
        bounds: dict[str, Any] = {"pass_at_k": {}, "mixed_share": {}, "tail_miss": {}}
        for b in self.bounds:
            place = bounds[b.quantity]
            if b.quantity == "tail_miss":
                place = place.setdefault(f"{b.rho:g}", {})
            place[str(b.at)] = {"low": b.low, "high": b.high}
        return {
            "feasible": self.feasible,
            "feasible_for_problems": self.feasible_for_problems,
            "misfit": self.misfit,
            "misfit_points": 100 * self.misfit,
            "beyond_rounding_points": 100 * self.beyond_rounding,
            "half_width": self.half_width,
            "samples": self.samples,
            "problems": self.problems,
            "curve": {f"{k:g}": v for k, v in zip(self.k, self.value, strict=True)},
            "closest": {
                f"{c:g}": s for c, s in zip(self.closest.c, self.closest.share, strict=True)
            },
            "bounds": bounds,
        }


def audit_curve(
    k: ArrayLike,
    value: ArrayLike,
    samples: int,
    *,
    half_width: float,
    problems: int | None = None,
    at: int | Sequence[int] | None = None,
    rho: float | Sequence[float] = (0.05,),
) -> CurveAudit:
    r"""Whether a printed pass@k curve is possible, and what it certifies.

    .. math:: \min_q \max_k \Bigl| \sum_c q_c \Bigl(1 - \tfrac{C(n-c,k)}{C(n,k)}\Bigr) - y_k \Bigr|,
              \qquad q \ge 0, \ \sum_c q_c = 1

    Parameters
    ----------
    k : array_like of int, 1 <= k <= samples
        Where the curve is printed.
    value : array_like in [0, 1]
        Printed pass@k, as fractions.
    samples : int >= 1
        Samples of each problem, n, from which pass@k was estimated without bias.
    half_width : float >= 0
        Half of the last printed digit, as a fraction: 0.0005 for "17.4" percent.
    problems : int >= 1, optional
        Number of problems; then whole numbers of them are asked for too (by descent, then by a
        mixed-integer program that is given half a minute).
    at : int or sequence of int, optional
        k and N at which to bound; powers of two up to `samples` by default, () for none.
    rho : float or sequence in [0, 1]
        Rare shares of the correct mass for the tail-miss bounds.

    Returns
    -------
    CurveAudit

    Raises
    ------
    ValueError
        k above samples, not whole or standing twice; a value outside [0, 1]; lengths that differ;
        a linear program that neither method of HiGHS solves (not seen yet).

    Notes
    -----
    HiGHS (simplex, else interior point), at tolerance 1e-9. Bounds hold the truth for 500 simulated
    populations and are attained by the populations returned (tests/test_curves.py). Proportions of
    problems are free unless `problems` is given, so "impossible" is a proof and "possible" is for
    some number of problems.

    Examples
    --------
    >>> audit_curve([1, 2], [0.1, 0.4], 8, half_width=0.005, at=()).feasible
    False
    """
    samples = check.whole_number("samples", samples)
    k, value = check.whole("k", k), check.mass("value", value)
    check.at_most("k", k, "samples", np.array(float(samples)))
    if k.ndim != 1 or k.shape != value.shape or not k.size:
        raise ValueError(f"k and value must be lists of one length; got {k.shape}, {value.shape}")
    if np.unique(k).size < k.size:
        raise ValueError("k must not stand twice")
    half_width = float(check.within("half_width", half_width, 0, 1))
    c = np.arange(samples + 1.0)
    curves = pass_at_k(samples, c, k[:, None])
    closest, misfit = _closest(curves, value)
    feasible = misfit <= half_width + _SLACK
    whole = None
    if problems is not None:
        problems = check.whole_number("problems", problems)
        reach = half_width + _SLACK
        whole = feasible and whole_problems(curves, value, reach, problems, closest)
    reach = half_width + _SLACK if feasible else misfit + _SLACK
    if at is None:
        at = [2**i for i in range(samples.bit_length()) if 2**i <= samples]
    bounds = [
        _bound(curves, value, reach, samples, quantity, int(x), share, vector)
        for quantity, x, share, vector in _quantities(
            samples, c, np.atleast_1d(at).tolist(), np.atleast_1d(rho).tolist()
        )
    ]
    return CurveAudit(
        k, value, samples, problems, half_width, misfit, bool(feasible), whole,
        _population(samples, closest), tuple(bounds),
    )  # fmt: skip


def _quantities(samples: int, c: Array, at: Sequence[int], rho: Sequence[float]) -> Any:
    for x in at:
        x = check.whole_number("at", x)
        if x > samples:
            raise ValueError(f"at must be <= samples ({samples}); got {x}")
        yield "pass_at_k", x, math.nan, pass_at_k(samples, c, x)
    sizes = [x for x in at if x > 1]
    for N in sizes:
        yield "mixed_share", N, math.nan, mixed_share(samples, c, N)
    for share in rho:
        for N in sizes:
            yield "tail_miss", N, float(share), tail_miss_share(samples, c, N, share)


def _population(samples: int, q: Array) -> CountPopulation:
    q = np.where(q > 1e-12, q, 0.0)
    held = np.flatnonzero(q)
    return CountPopulation(samples, held.astype(float), q[held] / q[held].sum())


def _solve(objective: Array, **constraints: Any) -> Any:
    """By the simplex method, or by the interior-point one where that gives up."""
    from scipy.optimize import linprog

    options: Any = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    for method in ("highs-ds", "highs-ipm"):
        result = linprog(objective, method=method, options=options, **constraints)
        if result.status == 0:
            return result
    raise ValueError(f"the curve could not be judged: a linear program failed ({result.message})")


def _closest(curves: Array, value: Array) -> tuple[Array, float]:
    """Shares of the success counts whose curve has the smallest largest distance, and it."""
    rows, size = curves.shape
    reach = np.ones((rows, 1))
    result = _solve(
        np.append(np.zeros(size), 1.0),
        A_ub=np.block([[curves, -reach], [-curves, -reach]]),
        b_ub=np.concatenate([value, -value]),
        A_eq=np.append(np.ones(size), 0.0)[None],
        b_eq=[1.0],
    )
    shares = np.maximum(result.x[:-1], 0.0)
    shares /= shares.sum()
    return shares, float(np.abs(curves @ shares - value).max())


def _bound(
    curves: Array,
    value: Array,
    reach: float,
    samples: int,
    quantity: str,
    at: int,
    rho: float,
    vector: Array,
) -> Bound:
    ends = []
    for sign in (1.0, -1.0):
        result = _solve(
            sign * vector,
            A_ub=np.concatenate([curves, -curves]),
            b_ub=np.concatenate([value + reach, reach - value]),
            A_eq=np.ones((1, vector.size)),
            b_eq=[1.0],
        )
        ends.append((sign * float(result.fun), _population(samples, result.x)))
    (low, lowest), (high, highest) = ends
    low, high = (float(np.clip(end, 0.0, 1.0)) for end in (low, high))
    return Bound(quantity, at, rho, low, high, lowest, highest)
