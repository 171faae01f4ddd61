"""An audit as JSON, as a table and as sentences."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ._audit_regime import LARGEST, TELLING, telling, too_few
from ._audit_rows import CAUTION, DOUBTFUL
from ._audit_text import how_measured, text_dict
from ._population_fit import DRAWS

if TYPE_CHECKING:
    from ._audit_regime import Regime
    from ._audit_text import TextDiversity
    from .audit import Audit, Row
    from .bootstrap import MeanOverProblems


def as_dict(audit: Audit) -> dict[str, Any]:
    """One object of plain values; NaN becomes None."""
    result: dict[str, Any] = {
        "source": audit.source,
        "format": audit.format,
        "prompts": audit.prompts,
        "groups": audit.groups,
        "rollouts": audit.rollouts,
        "scored": audit.scored,
        "correct": audit.correct,
        "rollouts_per_group": dict(zip(("smallest", "median", "largest"), audit.n, strict=True)),
        "group_size": audit.group_size,
        "success_rate": audit.success_rate,
        "pass_at_k": _rows(audit.pass_at_k, "value"),
        "pass_hat_k": _rows(audit.pass_hat_k, "value"),
        "mixed_share": _rows(audit.mixed_share, "unbiased", naive=True),
        "tail_miss": {f"{rho:g}": _rows(r, "unbiased") for rho, r in audit.tail_miss.items()},
        "unseen_correct_mass": audit.answers.unseen_mass if audit.answers else None,
        "answers": asdict(audit.answers) if audit.answers else None,
        "text_diversity": text_dict(audit.text),
        "population": None,
        "extrapolation": None,
        "regime": None,
        "gradient": None,
        "columns": audit.columns,
        "threshold": audit.threshold,
        "warnings": list(audit.warnings),
    }
    if audit.answers:
        result["answers"]["unsampled"] = {
            str(N): {"value": value, "prompts": prompts}
            for N, (value, prompts) in audit.answers.unsampled.items()
        }
    if population := audit.population:
        names = ("alpha", "beta", "zero", "one", "mean_rate", "log_likelihood")
        result["population"] = {name: getattr(population, name) for name in names}
        result["extrapolation"] = {
            "from": audit.n[2],
            "fit_p_value": audit.fit_p_value,
            "caution": CAUTION,
        }
    if audit.regime:
        result["regime"] = asdict(audit.regime) | {"cost": audit.regime.cost}
        result["regime"] |= {"end_known": audit.regime.end_known, "advice": advice(audit) or None}
    if gradient := audit.gradient:
        result["gradient"] = {
            "group_size": gradient.group_size,
            "edges": gradient.edges,
            "prompts": gradient.prompts,
            "shares": [
                {"rule": rule, "gamma": gamma, "shares": shares}
                for (rule, gamma), shares in gradient.shares.items()
            ],
            "learning_rate": {f"{g:g}": v for g, v in gradient.learning_rate.items()},
            "learning_rate_uniform": {f"{g:g}": v for g, v in gradient.uniform.items()},
        }
    steps = {step: as_dict(part) for step, part in audit.by_step.items()}
    result["by_step"] = steps or None
    clean = _clean(result)
    assert isinstance(clean, dict)
    return clean


def _rows(rows: dict[int, Row], name: str, *, naive: bool = False) -> dict[str, Any]:
    result = {}
    for at, row in rows.items():
        values = asdict(row)
        values = {name: values.pop("value"), **values}
        if not naive:
            del values["naive"]
        if row.extrapolated:
            values["caution"] = CAUTION
        result[str(at)] = values
    return result


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_frame(audit: Audit) -> Any:
    """One row for each number at one k or N, for the whole and for each step."""
    import pandas as pd

    records = []
    for step, part in {"": audit, **audit.by_step}.items():
        tables = [
            ("pass_at_k", math.nan, part.pass_at_k),
            ("pass_hat_k", math.nan, part.pass_hat_k),
            ("mixed_share", math.nan, part.mixed_share),
            *(("tail_miss", rho, rows) for rho, rows in part.tail_miss.items()),
        ]
        records += [
            {"step": step, "quantity": quantity, "rho": rho, "at": at, **asdict(row)}
            for quantity, rho, rows in tables
            for at, row in rows.items()
        ]
    return pd.DataFrame(records)


def as_sentences(audit: Audit) -> list[str]:
    """The findings, the group size first."""
    lines = []
    if audit.group_size == 1:
        lines.append("Group size 1: no group can be mixed, so none carries a signal.")
    else:
        lines += _about_group_size(audit)
    ks = [k for k, row in audit.pass_at_k.items() if row.prompts]
    ends = sorted({*ks[:1], *ks[-1:]})
    shown = ", ".join(f"pass@{k} {_with_interval(audit.pass_at_k[k])}" for k in ends)
    averages = f"; averaged over prompts {shown}." if shown else "; no prompt has k rollouts."
    lines.append(
        f"{audit.correct} of {audit.scored} scored rollouts succeed ({audit.success_rate:.1%})"
        f"{averages}"
    )
    if answers := audit.answers:
        lines.append(
            f"{answers.distinct_correct} distinct correct answers, {answers.singletons} of them"
            f" seen once: the next rollout is a correct answer not seen yet with chance"
            f" {answers.unseen_mass:.2%} (Good-Turing); the most common answer is correct for"
            f" {answers.majority_correct:.0%} of prompts."
        )
    if audit.text and audit.text.groups:
        lines.append(_about_text(audit.text))
    if audit.gradient:
        lines += _about_focal(audit)
    lines.append(_about_assumptions(audit))
    return lines


def _with_interval(row: Row | MeanOverProblems) -> str:
    if math.isnan(row.low):
        return f"{row.value:.3f}"
    return f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]"


def _about_group_size(audit: Audit) -> list[str]:
    where, row = audit.regime, audit.mixed_share[audit.group_size]
    if not row.prompts and audit.population is None:
        return [f"Group size {audit.group_size}: no prompt has so many rollouts."]
    share = row.value if row.prompts else row.fitted
    how = "" if row.prompts else " (from the fitted population)"
    lines = [
        f"Group size {audit.group_size}: {share:.1%} of groups are mixed and carry a"
        f" signal{how}; the mean success rate alone would suggest {row.naive:.1%}."
    ]
    if where is None:
        return [*lines, "Nothing is said of other sizes: no population could be fitted."]
    place = {
        "inactive": "inactive region: most groups carry no signal yet",
        "concentration zone": (
            "concentration zone: groups are active and tend to miss rare correct answers"
        ),
        "covering": "covering region: groups are large enough to hold rare correct answers",
    }[where.place]
    few = audit.population is not None and too_few(audit.population)
    worst = "" if few else f"; {_worst(where, audit.prompts)}"
    lines.append(
        f"It lies{' by the fit' if few else ''} in the {place}. For correct answers that are"
        f" {where.rho:.0%} of the correct mass, {where.tail_miss:.1%} of groups are mixed and miss"
        f" them{worst}."
    )
    if few:
        number = f"{audit.prompts} prompt{'s' if audit.prompts > 1 else ''}"
        return [*lines, f"From {number} nothing can be said of the worst size and the zone's end."]
    zone = "The zone (at least half of that worst; in `tailmiss plan`, at least 0.5)"
    start = f"{zone} starts at N = {where.first}"
    if where.last_interval and not where.end_known:
        reach = _sizes(where.last_interval)
        return [*lines, f"{start}; {audit.prompts} prompts do not tell where it ends{reach}."]
    if not where.leaves:
        return [*lines, f"{start} and reaches past {LARGEST:,}."]
    spread, dearer = "", ""
    if where.last_interval:
        low, high = where.last_interval
        spread = f" [{low}, {high}]"
        dearer = f" [{_short(low / where.group_size)}, {_short(high / where.group_size)}]"
    lines.append(
        f"{start} and ends at {where.last}{spread}; the first size past it is"
        f" {_short(where.cost)}{dearer} times the rollouts of now."
    )
    return lines


def _worst(where: Regime, prompts: int) -> str:
    between = where.worst_interval
    if between and not telling(between):
        return f"{prompts} prompts do not tell the worst size{_sizes(between)}"
    spread = f" [{between[0]}, {between[1]}]" if between else ""
    return f"the worst size is N = {where.worst}{spread} ({where.peak:.1%})"


def _sizes(between: tuple[int, int]) -> str:
    low, high = between
    if low >= LARGEST:
        return f", only that it is past {LARGEST:,}"
    top = f"past {LARGEST:,}" if high >= LARGEST else f"{_short(high)}"
    return f" to within a factor of {TELLING}: anywhere from N = {_short(low)} to {top}"


def _short(value: float) -> str:
    """Two significant digits."""
    return f"{float(f'{value:.2g}'):,.12g}"


def advice(audit: Audit) -> str:
    """What a reader can do, where the numbers support it; "" where they do not."""
    where = audit.regime
    if where is None or where.last_interval is None or audit.fit_p_value < DOUBTFUL:
        return ""
    low, high = where.last_interval
    rare = f"correct answers that are {where.rho:.0%} of the correct mass"
    if where.place == "covering" and where.group_size > high:
        return f"What to do: nothing for {rare}; groups of {where.group_size} are past the zone."
    if where.place != "concentration zone" or where.group_size > low:
        return ""
    larger = f"groups above N = {where.last}, at {_short(where.cost)} times the rollouts"
    if not where.end_known:
        larger = f"groups above N = {_short(low)} at least, how far is not known"
    return (
        f"What to do, if {rare} matter: {larger}; or the focal weight at this N (README, Put the"
        " weight in your trainer), which draws no more rollouts. If only pass@1 matters, neither."
    )


def _about_text(text: TextDiversity) -> str:
    two, bleu, different = (
        text.measures[name] for name in ("distinct_2", "self_bleu", "distinct_texts")
    )
    shown = f"Responses of a group: {different.value:.0%} of them different as strings"
    if two.used:
        shown += f", Distinct-2 {_with_interval(two)}"
    if bleu.used:
        shown += f", Self-BLEU {_with_interval(bleu)}"
    return f"{shown} ({how_measured(text)})."


def _about_focal(audit: Audit) -> list[str]:
    gradient = audit.gradient
    assert gradient is not None
    rule = next(iter(gradient.shares))[0]
    plain = gradient.shares.get((rule, 0.0))
    gammas = [g for r, g in gradient.shares if r == rule and g > 0]
    if plain is None or not gammas:
        return []
    gamma = 0.5 if 0.5 in gammas else gammas[0]
    focal = gradient.shares[rule, gamma]
    if math.isnan(focal[0]):
        return []
    before, after = ([f"{share[i]:.1%}" for i in (0, -1)] for share in (plain, focal))
    if before == after:
        return []
    return [
        f"F-GRPO with gamma {gamma:g} would move the share of the expected update that goes to"
        f" prompts below {gradient.edges[1]:.0%} success from {before[0]} to {after[0]}, and"
        f" from {before[1]} to {after[1]} above {gradient.edges[-2]:.0%}; on these prompts"
        f" it shrinks advantages as a learning rate times {gradient.learning_rate[gamma]:.3f} would"
        f" (the papers' figure for evenly spread prompts is {gradient.uniform[gamma]:.3f})."
    ]


def fit_check(p: float) -> str:
    """What the test of the fit says, for the end of a sentence; "" where there was none."""
    if math.isnan(p):
        return ""
    if p < DOUBTFUL:
        return f", and the counts do not fit this one ({shown_p(p)})"
    return (
        f"; the counts do not contradict this one ({shown_p(p)}), but n rollouts cannot tell a"
        " prompt that succeeds much less often than once in n from one that never does"
    )


def shown_p(p: float) -> str:
    """A p-value of the test of the fit, which cannot fall below 1 / (1 + its draws)."""
    return f"p {'<=' if p * (1 + DRAWS) < 1 + 1e-9 else '='} {p:.2g}"


def _about_assumptions(audit: Audit) -> str:
    if audit.population is None:
        return "All numbers are unbiased estimates from the rollouts; nothing is modelled."
    return (
        f"Up to {audit.n[2]} rollouts a prompt the numbers are unbiased estimates; past that, and"
        " for the region, they come from a fitted population (Beta with masses at 0 and 1:"
        f" alpha {audit.population.alpha:.3g}, beta {audit.population.beta:.3g},"
        f" {audit.population.zero:.1%} at 0 and {audit.population.one:.1%} at 1"
        " by the fit, not by measurement)."
        f" Caution: if success rates follow another law, the truth can lie outside the intervals of"
        f" the fit{fit_check(audit.fit_p_value)}. The rare share is an assumption, not a"
        " measurement."
    )
