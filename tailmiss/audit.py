"""The report on a rollout table: what the groups show, and what they miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _validate as check
from ._audit_answers import Answers, summarise_answers
from ._audit_output import shown_p
from ._audit_regime import Gradient, Regime, gradient_shares, regime
from ._audit_rows import DOUBTFUL, NAN, Row, Rows, Wanted
from ._audit_text import TextDiversity, at_step, measure_texts
from ._rng import RNG
from .passk import pass_at_k, pass_hat_k
from .prompts import PromptPopulation, mixed_share, tail_miss_share
from .rollouts import Rollouts
from .tail_miss import mixed_group_prob

Array = NDArray[np.float64]
_LARGEST = 4096


@dataclass(frozen=True, eq=False)
class Audit:
    """What :func:`audit` found.

    Attributes
    ----------
    source, format, columns, threshold, warnings
        As of the rollouts; warnings also name what the numbers rest on.
    prompts, groups, rollouts, scored, correct : int
        Distinct prompts; groups (prompts, or prompts at a step); all rollouts; those with a reward;
        successes.
    n : tuple of (smallest, median, largest)
        Scored rollouts of a group.
    group_size : int
        The group size in use.
    success_rate : float
        correct / scored.
    pass_at_k, pass_hat_k, mixed_share : dict of int to Row
        By k, and by group size N.
    tail_miss : dict of float to (dict of int to Row)
        By rho, then by N: mixed and without a rollout of the rare share rho of the correct mass.
    population : PromptPopulation or None
        The fit; None where no prompt has both outcomes.
    fit_p_value : float
        How often counts drawn from the fit fit it worse than the counts at hand; NaN where they
        could not tell. A large value says nothing of success rates too small to have shown.
    regime : Regime or None
        Where the group size in use lies.
    gradient : Gradient or None
        Shares of the expected update by difficulty, and the learning rate this implies.
    answers : Answers or None
        What an answer column adds.
    text : TextDiversity or None
        How varied the responses within groups are, where the file has text.
    by_step : dict of str to Audit
        The same for each training step.
    """

    source: str
    format: str
    prompts: int
    groups: int
    rollouts: int
    scored: int
    correct: int
    n: tuple[int, float, int]
    group_size: int
    success_rate: float
    pass_at_k: dict[int, Row]
    pass_hat_k: dict[int, Row]
    mixed_share: dict[int, Row]
    tail_miss: dict[float, dict[int, Row]]
    population: PromptPopulation | None
    fit_p_value: float
    regime: Regime | None
    gradient: Gradient | None
    answers: Answers | None
    text: TextDiversity | None
    columns: dict[str, str | None]
    threshold: float | None
    warnings: tuple[str, ...]
    counts: Array = field(repr=False)
    by_step: dict[str, Audit] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; null where a number rests on nothing."""
        from ._audit_output import as_dict

        return as_dict(self)

    def to_frame(self) -> Any:
        """A tidy pandas table: step, quantity, rho, at (k or N), and the numbers of each Row."""
        from ._audit_output import as_frame

        return as_frame(self)

    def summary(self) -> list[str]:
        """The findings in plain sentences, the main ones first."""
        from ._audit_output import as_sentences

        return as_sentences(self)


def audit(
    rollouts: Rollouts | tuple[ArrayLike, ArrayLike],
    *,
    group_size: int | None = None,
    rho: float | Sequence[float] = (0.05, 0.01, 0.1),
    k: int | Sequence[int] | None = None,
    N: int | Sequence[int] | None = None,
    rules: str | Sequence[str] = ("grpo", "rloo", "maxrl"),
    gamma: float | Sequence[float] = (0.0, 0.5, 1.0),
    confidence: float = 0.95,
    rng: RNG = 0,
) -> Audit:
    r"""Audit rollouts: success, mixed groups, missed tails, and what a group size does to them.

    Up to the rollouts at hand every number is unbiased; past them it comes from a fitted population
    of prompts and is marked so.

    Parameters
    ----------
    rollouts : Rollouts, or (n, c)
        From :func:`tailmiss.read_rollouts`, or counts: rollouts and successes of each prompt.
    group_size : int >= 2, optional
        Group size in use; by default the most common number of rollouts in a group.
    rho : float or sequence in (0, 1)
        Shares of the correct mass taken as rare; the first decides the regime.
    k, N : int or sequence of int, optional
        Where to evaluate; powers of two up to 4,096 by default, of which the powers of four past
        the rollouts get an interval of the fit. The group size in use is always among N.
    rules, gamma : str, float >= 0, or sequences of them
        Advantage rules and focal exponents to compare.
    confidence : float in (0, 1)
        Of all intervals: over prompts by bootstrap, of the fit by profile likelihood.
    rng : int, SeedSequence or Generator
        Source of the bootstrap samples.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        Neither rollouts nor counts; a group size below 2, a share outside (0, 1), counts out of
        range; no share, rule or focal exponent; nothing scored.

    Notes
    -----
    Equal to the exact fractions of real files to 1e-12 (tests/test_audit.py). Rollouts are never
    resampled and prompts never pooled: the share of mixed groups is a mean over prompts.

    On busy cores the fit is many times faster with OPENBLAS_NUM_THREADS=1 set before SciPy is
    loaded, as ``tailmiss audit`` sets it.

    Examples
    --------
    >>> result = audit(([8, 8], [0, 4]), N=[4])
    >>> round(result.mixed_share[4].value, 4), round(result.mixed_share[4].naive, 4)
    (0.4857, 0.6797)
    """
    if not isinstance(rollouts, Rollouts):
        rollouts = _from_counts(rollouts)
    if group_size is not None:
        group_size = check.whole_number("group_size", group_size, 2)
    options: dict[str, Any] = {
        "group_size": group_size,
        "rho": np.atleast_1d(check.mass("rho", rho, inclusive=False)).tolist(),
        "k": None if k is None else [check.whole_number("k", v) for v in np.atleast_1d(k)],
        "N": None if N is None else [check.whole_number("N", v) for v in np.atleast_1d(N)],
        "rules": np.atleast_1d(rules).tolist(),
        "gamma": np.atleast_1d(check.finite("gamma", gamma, 0)).tolist(),
        "confidence": float(check.mass("confidence", confidence, inclusive=False)),
        "rng": rng,
    }
    for name in ("rho", "rules", "gamma"):
        if not options[name]:
            raise ValueError(f"{name} must hold at least one value")
    whole = _audit(rollouts, options, intervals=True)
    if rollouts.step is None:
        return whole
    parts, missing = {}, []
    for step, groups, part in rollouts.by_step():
        if part.n.any():
            parts[step] = _audit(part, options, within=at_step(whole.text, groups))
        else:
            missing.append(step)
    warnings = whole.warnings
    if missing:
        warnings += (f"no rollout is scored at step {', '.join(missing)}",)
    return Audit(**{**whole.__dict__, "by_step": parts, "warnings": warnings})


def _audit(
    rollouts: Rollouts,
    options: Mapping[str, Any],
    *,
    intervals: bool = False,
    within: TextDiversity | None = None,
) -> Audit:
    n, c = rollouts.n.astype(float), rollouts.c.astype(float)
    held = n > 0
    if not held.any():
        raise ValueError(f"{rollouts.source}: no rollout is scored")
    warnings = list(rollouts.warnings)
    population = _population(n[held], c[held], warnings)
    largest, use = int(n.max()), _group_size(rollouts, options["group_size"])
    rate = float(c.sum() / n.sum())
    clusters: NDArray[Any] | None = None
    if rollouts.step is not None and intervals:
        clusters = np.unique(rollouts.prompt.astype(str), return_inverse=True)[1]
    ends = (int(n[held].min()), float(np.median(n[held])), largest)
    ks = options["k"] or _powers(1, max(largest, 256), use, ends)
    sizes = options["N"] or _powers(2, max(largest, 1024), use, ends)
    sizes = sorted({*sizes, use} - {1})
    asked = {*(options["k"] or ()), *(options["N"] or ()), use}
    rows = Rows(n, c, clusters, population, options, asked if intervals else None)
    passes, hats, shares, *missed = rows.at(
        Wanted(pass_at_k, ks, "pass_at_k"),
        Wanted(pass_hat_k, [x for x in ks if x <= largest], "pass_hat_k"),
        Wanted(mixed_share, sizes, "mixed_group_prob"),
        *(Wanted(tail_miss_share, sizes, "tail_miss_prob", (rho,)) for rho in options["rho"]),
    )
    mixed = {
        x: Row(**{**row.__dict__, "naive": float(mixed_group_prob(x, rate))})
        for x, row in shares.items()
    }
    fit = NAN
    if intervals and population is not None:
        fit = population.fit_p_value(rng=options["rng"])
        if fit < DOUBTFUL:
            warnings.append(
                f"the Beta law does not fit the counts ({shown_p(fit)}): do not trust values past"
                " the rollouts"
            )
    _warn(rollouts, n[held], c[held], passes, warnings)
    where = None
    if population is not None:
        sure = options["confidence"] if intervals else None
        where = regime(population, use, options["rho"][0], sure)
    share = gradient_shares(population, use, options["rules"], options["gamma"])
    return Audit(
        source=rollouts.source,
        format=rollouts.format,
        prompts=len(set(rollouts.prompt.tolist())),
        groups=rollouts.n.size,
        rollouts=int(rollouts.n.sum() + rollouts.unscored.sum()),
        scored=int(n.sum()),
        correct=int(c.sum()),
        n=ends,
        group_size=use,
        success_rate=rate,
        pass_at_k=passes,
        pass_hat_k=hats,
        mixed_share=mixed,
        tail_miss=dict(zip(options["rho"], missed, strict=True)),
        population=population,
        fit_p_value=fit,
        regime=where,
        gradient=share,
        answers=summarise_answers(rollouts, sizes, warnings),
        text=measure_texts(
            rollouts, confidence=options["confidence"], rng=options["rng"], within=within
        ),
        columns=rollouts.columns,
        threshold=rollouts.threshold,
        warnings=tuple(warnings),
        counts=np.stack([n, c]),
    )


def _from_counts(given: Any) -> Rollouts:
    try:
        n, c = given
        if not isinstance(given, (tuple, list, np.ndarray)) or not (np.ndim(n) and np.ndim(c)):
            raise TypeError
    except (TypeError, ValueError):
        shown = f"{given!r:.60}"
        shown = f"a {type(given).__name__}" if "\n" in shown else shown
        raise ValueError(
            "rollouts must be what read_rollouts returns, or counts (n, c), a sequence each with"
            f" one value a prompt; got {shown}. Of a DataFrame give (df['n'], df['c']), or write"
            " its rollouts to a file for read_rollouts"
        ) from None
    return Rollouts.from_counts(n, c)


def _population(n: Array, c: Array, warnings: list[str]) -> PromptPopulation | None:
    try:
        return PromptPopulation.fit(n, c)
    except ValueError as error:
        warnings.append(f"no population fitted, so nothing is said past the rollouts: {error}")
        return None


def _group_size(rollouts: Rollouts, given: int | None) -> int:
    drawn = rollouts.n + rollouts.unscored
    sizes, counts = np.unique(drawn[drawn > 0], return_counts=True)
    return given or int(sizes[np.argmax(counts)])


def _powers(low: int, high: int, use: int, ends: tuple[int, float, int]) -> list[int]:
    high = min(high, _LARGEST)
    powers = {2**i for i in range(high.bit_length()) if low <= 2**i <= high}
    return sorted(powers | {x for x in (use, ends[0], ends[2]) if x >= low})


def _warn(
    rollouts: Rollouts, n: Array, c: Array, passes: Mapping[int, Row], warnings: list[str]
) -> None:
    if n.min() < n.max():
        partly = [k for k, row in passes.items() if 0 < row.prompts < n.size]
        warnings.append(
            f"prompts have {n.min():g} to {n.max():g} rollouts: a value at k or N above"
            f" {n.min():g} rests on fewer prompts"
            + (f" ({passes[partly[-1]].prompts} of {n.size} at k = {partly[-1]})" if partly else "")
        )
    if rollouts.identical:
        warnings.append(
            f"{rollouts.identical} groups without a signal hold one completion over and over: where"
            " sampling, not difficulty, is why, a larger group cannot help"
        )
    if n.size == 1:
        warnings.append("one prompt: nothing can be said of other prompts, so there is no interval")
    elif not c.any() or (c == n).all():
        kind = "success" if not c.any() else "failure"
        bound = 1 - 0.05 ** (1 / n.sum())
        warnings.append(
            f"no {kind} at all: 0 is what was seen, not proof; the pooled rate may be up to"
            f" {min(bound, 1.0):.2g} (95%)"
        )
    elif n.size < 20:
        warnings.append(f"only {n.size} prompts: intervals over prompts are rough")
