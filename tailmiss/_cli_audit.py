"""The command `tailmiss audit`: rollout files, or a published pass@k curve."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ._audit_text import TextDiversity
    from .audit import Audit, Row
    from .curves import CurveAudit

EPILOG = (
    "Examples: tailmiss audit rollouts.jsonl --threshold 1; tailmiss audit completions/*.parquet"
    " --reward accuracy_reward --out report; tailmiss audit --curve k_value.csv --samples 1024"
)


def audit(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help='rollout files, or "-" for standard input'),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="column that tells prompts apart; a,b for both")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="column of the reward; a,b asks for both")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="a success is a reward of at least this")
    ] = None,
    answer: Annotated[str | None, typer.Option(help="column of the model's answer")] = None,
    text: Annotated[
        str | None, typer.Option(help="column of the response, where its name does not tell")
    ] = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="leave out how varied the responses are")
    ] = False,
    step: Annotated[
        str | None, typer.Option(help="column of the training step; none pools the steps")
    ] = None,
    n: Annotated[str | None, typer.Option("--n", help="column of rollouts, in counts")] = None,
    c: Annotated[str | None, typer.Option("--c", help="column of successes, in counts")] = None,
    where: Annotated[list[str] | None, typer.Option(help="keep rollouts with COLUMN=VALUE")] = None,
    group_size: Annotated[
        int | None, typer.Option("--group-size", help="group size in use; else the usual n")
    ] = None,
    rho: Annotated[
        str, typer.Option(help="rare shares of the correct mass; the first decides the region")
    ] = "0.05,0.01,0.1",
    k: Annotated[str | None, typer.Option("--k", help="k of pass@k, as 1,5,10")] = None,
    N: Annotated[str | None, typer.Option("--N", help="group sizes, as 4,8,16")] = None,
    rules: Annotated[str, typer.Option(help="advantage rules to compare")] = "grpo,rloo,maxrl",
    gamma: Annotated[str, typer.Option(help="focal exponents to compare")] = "0,0.5,1",
    confidence: Annotated[float, typer.Option(help="of all intervals")] = 0.95,
    seed: Annotated[int, typer.Option(help="seed of the bootstrap over prompts")] = 0,
    curve: Annotated[
        Path | None, typer.Option(help="a printed pass@k curve instead: CSV of k, value")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="samples of each problem; --curve needs it")
    ] = None,
    problems: Annotated[int | None, typer.Option(help="with --curve: number of problems")] = None,
    percent: Annotated[
        bool | None,
        typer.Option("--percent/--fractions", help="with --curve: the scale of the values"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
    out: Annotated[
        Path | None, typer.Option(help="also write report.html, tables and figures here")
    ] = None,
) -> None:
    """Which groups carry a signal, what they miss, and what another group size would do."""
    # SciPy's optimiser shares systems of four unknowns among threads; on busy cores they wait for
    # each other, 100 times as long as one takes alone. Read when SciPy is loaded, which is below.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    rhos = _numbers("--rho", rho, float)
    if no_text and text is not None:
        raise ValueError(f"--no-text and --text {text} exclude each other")
    if curve is not None:
        if files:
            raise ValueError("--curve takes the place of rollout files; give one of the two")
        if samples is None:
            raise ValueError("--curve needs --samples: how many samples each problem had")
        _audit_curve(str(curve), samples, problems, percent, rhos, N or k, as_json, out)
        return
    if not files:
        raise ValueError("no file given; see tailmiss audit --help")
    from .audit import audit as run
    from .rollouts import read_rollouts

    pairs = [_pair(text) for text in where or []]
    chosen = dict(pairs)
    if len(chosen) < len(pairs):
        raise ValueError("--where takes a column once; got " + ", ".join(where or []))
    options: dict[str, Any] = {
        "group_size": group_size,
        "rho": rhos,
        "k": None if k is None else _numbers("--k", k, int),
        "N": None if N is None else _numbers("--N", N, int),
        "rules": [rule.strip() for rule in rules.split(",")],
        "gamma": _numbers("--gamma", gamma, float),
        "confidence": confidence,
        "rng": seed,
    }
    with _progress() as progress:
        rollouts = read_rollouts(
            files, prompt=prompt, reward=reward, threshold=threshold, answer=answer, step=step,
            text="none" if no_text else text, n=n, c=c, where=chosen, progress=progress,
        )  # fmt: skip
    result = run(rollouts, **options)
    if out is not None:
        from .report import write_report

        for path in write_report(result, out):
            print(path, file=sys.stderr)
    if as_json:
        print(json.dumps(result.to_dict(), allow_nan=False))
    else:
        print("\n".join(_text(result)))


def _numbers(name: str, text: str, kind: Any) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{name} must be numbers with commas between; got {text!r}") from None


def _pair(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not equals or not column:
        raise ValueError(f"--where must be COLUMN=VALUE; got {text!r}")
    return column.strip(), value.strip()


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar over the bytes read, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = ("reading", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)


def _text(result: Audit) -> list[str]:
    from ._audit_output import advice

    columns = result.columns | {"text": result.text.column if result.text else None}
    taken = ", ".join(f"{role} = {name}" for role, name in columns.items() if name)
    rule = "" if result.threshold is None else f"; success is reward >= {result.threshold:g}"
    small, middle, large = result.n
    each = f"{large}" if small == large else f"{small} to {large} (median {middle:g})"
    counts = [f"{result.prompts} prompts", f"{each} scored rollouts each"]
    if result.groups != result.prompts:
        counts.insert(1, f"{result.groups} groups over {len(result.by_step)} steps")
    lines = [f"{result.source}: read as {result.format}", f"{taken or 'counts'}{rule}"]
    lines += [", ".join(counts), "", *result.summary(), ""]
    lines += _table("pass@k", "k", result.pass_at_k)
    lines += _table("pass^k", "k", result.pass_hat_k)
    lines += _table("mixed share", "N", result.mixed_share, naive=True)
    for rho, rows in result.tail_miss.items():
        lines += _table(f"tail miss, rho = {rho:g}", "N", rows)
    lines += _text_table(result.text)
    for name, part in result.by_step.items():
        row = part.mixed_share.get(part.group_size)
        line = f"step {name}: success {part.success_rate:.4f}"
        line += f", mixed at N = {part.group_size}: {_number(row.value)}" if row else ""
        if part.text and part.text.groups:
            two, bleu = (part.text.measures[m].value for m in ("distinct_2", "self_bleu"))
            line += f", Distinct-2: {_number(two)}, Self-BLEU: {_number(bleu)}"
        lines.append(line)
    lines += [f"warning: {warning}" for warning in result.warnings]
    do = advice(result)
    return [*lines, do] if do else lines


def _table(title: str, at: str, rows: dict[int, Row], *, naive: bool = False) -> list[str]:
    from ._audit_rows import CAUTION

    head = f"{title:<22}{at:>6}  {'value':>8}  {'interval over prompts':>22}  {'prompts':>7}"
    head += f"  {'fitted':>8}" + (f"  {'from mean rate':>14}" if naive else "")
    lines = [head]
    for x, row in rows.items():
        interval = f"[{_number(row.low)}, {_number(row.high)}]" if not math.isnan(row.low) else ""
        line = f"{'':<22}{x:>6}  {_number(row.value):>8}  {interval:>22}  {row.prompts:>7}"
        line += f"  {_number(row.fitted):>8}" + (f"  {_number(row.naive):>14}" if naive else "")
        if row.extrapolated:
            line += "  if Beta"
        if not math.isnan(row.fitted_low):
            line += f": {_number(row.fitted_low)} to {_number(row.fitted_high)}"
        if row.bounded:
            line += f"; any law: {_number(row.least)} to {_number(row.most)}"
        lines.append(line.rstrip())
    if any(row.extrapolated for row in rows.values()):
        lines.append(f'  "if Beta": {CAUTION}')
    return [*lines, ""]


def _text_table(text: TextDiversity | None) -> list[str]:
    from ._audit_text import NAMES, how_measured

    if text is None or not text.groups:
        return []
    lines = [f"{'text diversity':<30}{'value':>8}  {'interval over prompts':>22}  {'groups':>7}"]
    for name, row in text.measures.items():
        interval = f"[{_number(row.low)}, {_number(row.high)}]" if not math.isnan(row.low) else ""
        line = f"  {NAMES[name]:<28}{_number(row.value):>8}  {interval:>22}  {row.used:>7}"
        lines.append(line)
    return [*lines, f"  {how_measured(text)}", ""]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _audit_curve(
    path: str,
    samples: int,
    problems: int | None,
    percent: bool | None,
    rhos: list[float],
    at: str | None,
    as_json: bool,
    out: Path | None,
) -> None:
    from ._curve_file import read_curve
    from .curves import audit_curve

    printed = read_curve(path, percent=percent)
    result = audit_curve(
        printed.k, printed.value, samples, half_width=printed.half_width, problems=problems,
        at=None if at is None else _numbers("--N", at, int), rho=rhos,
    )  # fmt: skip
    if out is not None:
        from . import provenance

        provenance.write(out / "bounds.csv", result.to_frame().to_csv(index=False))
        print(out / "bounds.csv", file=sys.stderr)
    if as_json:
        print(json.dumps(result.to_dict(), allow_nan=False))
    else:
        print("\n".join(_curve_text(path, printed.percent, result)))
    if not result.feasible or result.feasible_for_problems is False:
        raise typer.Exit(1)


def _curve_text(path: str, percent: bool, result: CurveAudit) -> list[str]:
    rounding = 100 * result.half_width
    lines = [
        f"{path}: {len(result.k)} values in {'percent' if percent else 'fractions'}, printed to"
        f" within {rounding:.4g} points; {result.samples} samples of each problem",
    ]
    if result.feasible:
        lines.append(
            f"possible: some problems have this curve to within {100 * result.misfit:.3f} points"
        )
    else:
        lines.append(
            f"impossible: no problems in any proportions come closer than"
            f" {100 * result.misfit:.3f} points to every value,"
            f" {100 * result.beyond_rounding:.3f} more than rounding allows"
        )
    if result.problems is not None and result.feasible:
        settled = {
            True: "can have it",
            False: "cannot have it, whatever their successes",
            None: "were not settled in the time given",
        }[result.feasible_for_problems]
        lines.append(f"{result.problems} problems {settled}")
    if result.bounds:
        whose = "" if result.feasible else " over the closest populations"
        lines.append(f"certified ranges{whose}:")
        for bound in result.bounds:
            name = {"pass_at_k": "pass@k", "mixed_share": "mixed share"}.get(
                bound.quantity, f"tail miss, rho = {bound.rho:g}"
            )
            lines.append(f"  {name:<22}{bound.at:>6}  {bound.low:.4f} to {bound.high:.4f}")
    return lines
