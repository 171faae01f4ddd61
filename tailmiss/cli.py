"""The command line: each command is one call of one public function, and prints what it returns."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="tailmiss",
    help="When does a group-relative update forget rare correct answers? Closed forms, simulators,"
    " audits of real rollouts, and the papers' figures.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
simulate = typer.Typer(
    help="One run of a simulator, as CSV on standard output.", no_args_is_help=True
)
app.add_typer(simulate, name="simulate")


def main() -> None:
    """Entry point: 0 ok, 1 a check failed, 2 bad input or output, 130 interrupted."""
    try:
        app()
    except (ValueError, OSError) as error:
        raise SystemExit(_complain(error)) from None
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept", file=sys.stderr)
        raise SystemExit(130) from None


def _complain(error: ValueError | OSError) -> int:
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"tailmiss: {text}", file=sys.stderr)
    return 2


@app.command(epilog="Example: tailmiss prob --N 8 --mu-pos 0.5 --tau 0.01")
def prob(
    N: Annotated[int, typer.Option("--N", help="group size")],
    mu_pos: Annotated[float, typer.Option(help="probability that one rollout is correct")],
    tau: Annotated[float, typer.Option(help="mass of the rare correct answers, <= mu-pos")],
) -> None:
    """Every group event at one point, and where it lies on the tail-miss curve."""
    from . import tail_miss

    chance = tail_miss.tail_miss_prob(N, mu_pos, tau)
    worst = tail_miss.worst_group_size(mu_pos, tau)
    peak = tail_miss.tail_miss_prob(worst, mu_pos, tau)
    if N == worst:
        place = "at the worst group size"
    elif N < worst:
        place = f"before the worst group size {worst}: a larger group is mixed more often"
    else:
        place = f"past the worst group size {worst}: a larger group covers more"
    _rows(
        ("mixed group", tail_miss.mixed_group_prob(N, mu_pos)),
        ("no rare correct rollout", tail_miss.miss_prob(N, tau)),
        ("tail miss (mixed, none rare)", chance),
        ("tail miss at its worst N", f"{peak:.6g}  (N = {worst})"),
        ("where", place),
    )


def _rows(*rows: tuple[str, Any]) -> None:
    width = max(len(label) for label, _ in rows) + 2
    for label, value in rows:
        print(f"{label:<{width}}{value if isinstance(value, str) else format(value, '.6g')}")


if __name__ == "__main__":
    main()
