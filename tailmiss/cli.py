"""The command line: each command is one call of one public function, and prints what it returns."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from . import __version__, _cli_audit, _cli_simulate

app = typer.Typer(
    name="tailmiss",
    help="When does a group-relative update forget rare correct answers? Closed forms, simulators,"
    " audits of real rollouts, and the papers' figures.",
    epilog="Example: tailmiss plan --mu-pos 0.3 --rho 0.05",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="which one this is"),
    ] = False,
) -> None:
    pass


app.add_typer(_cli_simulate.app, name="simulate")
app.command(epilog=_cli_audit.EPILOG)(_cli_audit.audit)

INTERRUPTED = 130
EXTRAS = {"torch": "torch", "distributed": "dask", "ray": "ray"}  # module: the extra that brings it


def main() -> None:
    """Entry point: 0 ok, 1 a check failed, 2 bad input or output, 130 interrupted.

    Names from files are shown on any terminal: what it cannot write is escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except (TyperException, ValueError, OSError) as error:
        raise SystemExit(_complain(error)) from None
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        needed = f"this needs {error.name}: pip install 'tailmiss[{EXTRAS[error.name]}]'"
        raise SystemExit(_complain(ValueError(needed))) from None
    except MemoryError:
        raise SystemExit(_complain(ValueError("not enough memory for what was asked"))) from None
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # what Typer makes of Ctrl-C in a command
        print("interrupted; what was finished is kept", file=sys.stderr)
    raise SystemExit(code)


def _complain(error: TyperException | ValueError | OSError) -> int:
    """Say on standard error what was wrong, in one line; the exit code."""
    if isinstance(error, OSError):  # what is left of the output may have nowhere to go at exit
        with suppress(io.UnsupportedOperation):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    text = error.format_message() if isinstance(error, TyperException) else str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if text:
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
    peak, place = _peak(N, mu_pos, tau)
    _rows(
        ("mixed group", tail_miss.mixed_group_prob(N, mu_pos)),
        ("no rare correct rollout", tail_miss.miss_prob(N, tau)),
        ("tail miss (mixed, none rare)", chance),
        ("tail miss at its worst N", peak),
        ("where", place),
    )


def _peak(N: int, mu_pos: float, tau: float) -> tuple[str, str]:
    """The worst group size and where N lies; at the ends of the ranges there is no such size."""
    from . import tail_miss

    if mu_pos in (0, 1) or tau == mu_pos:
        why = {0.0: "no rollout is correct", 1.0: "every rollout is correct"}.get(
            mu_pos, "every correct rollout is rare"
        )
        return "0  (at every N)", f"nowhere: {why}, so no group is mixed without a rare correct one"
    if tau == 0:
        return "1  (never reached)", "nothing is rare: a larger group is only mixed more often"
    worst = tail_miss.worst_group_size(mu_pos, tau)
    if N == worst:
        place = "at the worst group size"
    elif N < worst:
        place = f"before the worst group size {worst}: a larger group is mixed more often"
    else:
        place = f"past the worst group size {worst}: a larger group covers more"
    return f"{tail_miss.tail_miss_prob(worst, mu_pos, tau):.6g}  (N = {worst})", place


@app.command(epilog="Example: tailmiss plan --mu-pos 0.3 --rho 0.05 --delta 0.01")
def plan(
    mu_pos: Annotated[float, typer.Option(help="probability that one rollout is correct")],
    rho: Annotated[float, typer.Option(help="share of the correct mass that is rare, in (0, 1)")],
    delta: Annotated[float, typer.Option(help="accepted tail-miss probability")] = 0.01,
    level: Annotated[float, typer.Option(help="tail-miss probability that marks the zone")] = 0.5,
) -> None:
    """Worst group size, concentration zone, covering group size and what covering costs."""
    from . import _validate, tail_miss

    _validate.mass("rho", rho, inclusive=False)
    tau = rho * mu_pos
    worst = tail_miss.worst_group_size(mu_pos, tau)
    first, last = tail_miss.concentration_zone(mu_pos, tau, level)
    cover = tail_miss.covering_group_size(mu_pos, tau, delta)
    zone = f"N = {first} to {last}" if first else "none: the probability stays below it"
    _rows(
        ("rare correct mass tau", float(tau)),
        ("worst group size", _at(worst, mu_pos, tau)),
        (f"zone, tail miss >= {level:g} (in audit, half its peak)", zone),
        (f"covering, tail miss <= {delta:g}", _at(cover, mu_pos, tau)),
        ("cost of covering", f"{cover / worst:.3g} times the rollouts of the worst group size"),
    )


def _at(N: int, mu_pos: float, tau: float) -> str:
    from . import tail_miss

    mixed = tail_miss.mixed_group_prob(N, mu_pos)
    chance = tail_miss.tail_miss_prob(N, mu_pos, tau)
    return f"N = {N}  (mixed {mixed:.6g}, tail miss {chance:.6g})"


@app.command(
    epilog="Examples: tailmiss figures; tailmiss figures fig1a fig3 --out pictures;"
    " tailmiss figures fig2 --full --jobs 2"
)
def figures(
    ids: Annotated[list[str] | None, typer.Argument(help="which ones; all by default")] = None,
    list_: Annotated[bool, typer.Option("--list", help="name them and stop")] = False,
    full: Annotated[bool, typer.Option(help="the papers' scale instead of seconds")] = False,
    check: Annotated[bool, typer.Option(help="recompute and compare with the references")] = False,
    out: Annotated[Path, typer.Option(help="folder for CSV, JSON, PDF and PNG")] = Path("out"),
    seed: Annotated[int, typer.Option(help="seed of everything random", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="runs at the same time; -1 for every core")] = 1,
    backend: Annotated[str, typer.Option(help="loky, threading, dask or ray")] = "loky",
) -> None:
    """Regenerate the papers' figures and tables, or compare them with the committed ones."""
    from tempfile import TemporaryDirectory

    import joblib

    from .figures import REGISTRY, _figure
    from .sims.sweep import progress

    if jobs == 0:
        raise ValueError("jobs must be at least 1, or -1 for every core; got 0")
    chosen = _choose(REGISTRY, ids or [])
    if list_:
        for module in chosen:
            print(f"{_figure.figure_id(module):<22}{_figure.title(module)}")
        return
    failed = 0
    with (
        TemporaryDirectory() as fresh,
        joblib.parallel_config(backend=_backend(backend), n_jobs=jobs),
        progress() as shown,
    ):
        # Runs that older code left in `out` would answer for this code; hours of runs may resume
        kept = out / "runs" if full else Path(fresh)
        task = shown.add_task("figures", total=len(chosen))
        for module in chosen:
            name = _figure.figure_id(module)
            shown.update(task, description=name)
            if check:
                found = _figure.check(module, full=full, seed=seed, store=kept)
                print(f"{name}: {'; '.join(found) or 'same'}")
                failed += bool(found)
            else:
                for path in _figure.build(module, full=full, seed=seed, out=out):
                    print(path)
            shown.advance(task)
    if failed:
        raise typer.Exit(1)


def _choose(registry: tuple[ModuleType, ...], ids: list[str]) -> list[ModuleType]:
    from difflib import get_close_matches

    known = {module.__name__.rsplit(".", 1)[-1]: module for module in registry}
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"; close: {', '.join(near)}" if near else ""
            raise ValueError(f"no figure {name!r}{hint} (tailmiss figures --list names them)")
    return [known[name] for name in dict.fromkeys(ids)] or list(registry)


def _backend(name: str) -> str:
    """The joblib backend, with what it needs started or registered."""
    from . import _validate

    _validate.one_of("backend", name, ("loky", "threading", "dask", "ray"))
    if name == "dask":
        from distributed import Client

        Client()
    elif name == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    return name


def _rows(*rows: tuple[str, Any]) -> None:
    width = max(len(label) for label, _ in rows) + 2
    for label, value in rows:
        print(f"{label:<{width}}{value if isinstance(value, str) else format(value, '.6g')}")


if __name__ == "__main__":
    main()
