"""The command line: each command is one call of one public function, and prints what it returns."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from . import _cli_audit

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
simulate = typer.Typer(
    help="One run of a simulator, as CSV on standard output.",
    epilog="Example: tailmiss simulate categorical --N 8 --steps 100 > run.csv",
    no_args_is_help=True,
)
app.add_typer(simulate, name="simulate")
app.command(epilog=_cli_audit.EPILOG)(_cli_audit.audit)

EXTRAS = {"torch": "torch", "distributed": "dask", "ray": "ray"}  # module: the extra that brings it


def main() -> None:
    """Entry point: 0 ok, 1 a check failed, 2 bad input or output, 130 interrupted."""
    try:
        raise SystemExit(app(standalone_mode=False))
    except (TyperException, ValueError, OSError) as error:
        raise SystemExit(_complain(error)) from None
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        needed = f"this needs {error.name}: pip install 'tailmiss[{EXTRAS[error.name]}]'"
        raise SystemExit(_complain(ValueError(needed))) from None
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept", file=sys.stderr)
        raise SystemExit(130) from None


def _complain(error: TyperException | ValueError | OSError) -> int:
    """Say on standard error what was wrong, in one line; the exit code."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
        why = {0: "no rollout is correct", 1: "every rollout is correct"}.get(
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
        (f"zone, tail miss >= {level:g}", zone),
        (f"covering, tail miss <= {delta:g}", _at(cover, mu_pos, tau)),
        ("cost of covering", f"{cover / worst:.3g} times the rollouts of the worst group size"),
    )


def _at(N: int, mu_pos: float, tau: float) -> str:
    from . import tail_miss

    mixed = tail_miss.mixed_group_prob(N, mu_pos)
    chance = tail_miss.tail_miss_prob(N, mu_pos, tau)
    return f"N = {N}  (mixed {mixed:.6g}, tail miss {chance:.6g})"


@app.command(
    epilog="Examples: tailmiss figures  |  tailmiss figures fig1a fig3 --out pictures  |"
    "  tailmiss figures fig2 --full --jobs 2"
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
    import joblib

    from .figures import REGISTRY, _figure

    chosen = _choose(REGISTRY, ids or [])
    if list_:
        for module in chosen:
            print(f"{_figure.figure_id(module):<22}{_figure.title(module)}")
        return
    failed = 0
    with joblib.parallel_config(backend=_backend(backend), n_jobs=jobs), _progress() as progress:
        task = progress.add_task("figures", total=len(chosen))
        for module in chosen:
            name = _figure.figure_id(module)
            progress.update(task, description=name)
            if check:
                found = _figure.check(module, full=full, seed=seed, store=out / "runs")
                print(f"{name}: {'; '.join(found) or 'same'}")
                failed += bool(found)
            else:
                for path in _figure.build(module, full=full, seed=seed, out=out):
                    print(path)
            progress.advance(task)
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


def _progress() -> Any:
    """A progress display on standard error, silent where that is not a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, disable=not console.is_terminal, transient=True)


@simulate.command(
    "categorical",
    epilog="Example: tailmiss simulate categorical --N 2048 --gamma 1 --seed 1 > run.csv",
)
def simulate_categorical(
    n_actions: Annotated[int, typer.Option(help="actions of the softmax")] = 128_000,
    n_correct: Annotated[int, typer.Option(help="of them correct, the first")] = 10_000,
    anchor_logit: Annotated[float, typer.Option(help="initial logit of action 0")] = 5.0,
    correct_logit: Annotated[float, typer.Option(help="of the other correct ones")] = 3.0,
    incorrect_logit: Annotated[float, typer.Option(help="of the incorrect ones")] = 0.0,
    logits: Annotated[
        Path | None, typer.Option(help="file of initial logits, one a line, in place of those")
    ] = None,
    group_size: Annotated[int, typer.Option("--group-size", "--N", help="actions drawn, N")] = 8,
    rule: Annotated[str, typer.Option(help="advantage rule, one of tailmiss.RULES")] = "centered",
    rule_option: Annotated[
        list[str] | None, typer.Option(help="an option of the rule, NAME=NUMBER")
    ] = None,
    gamma: Annotated[float, typer.Option(help="focal exponent; F-GRPO: 0.5 or 1")] = 0.0,
    steps: Annotated[int, typer.Option(help="updates")] = 1000,
    learning_rate: Annotated[float, typer.Option(help="of gradient ascent")] = 1e-2,
    optimizer: Annotated[str, typer.Option(help="adam, adamw or sgd")] = "adam",
    beta1: Annotated[float, typer.Option(help="of adam and adamw")] = 0.9,
    beta2: Annotated[float, typer.Option(help="of adam and adamw")] = 0.999,
    eps: Annotated[float, typer.Option(help="of adam and adamw")] = 1e-8,
    weight_decay: Annotated[float, typer.Option(help="of adamw")] = 0.01,
    surrogate: Annotated[
        str, typer.Option(help="ratio, as trainers do, or probability, the literal formula")
    ] = "ratio",
    distinct: Annotated[bool, typer.Option(help="count a drawn action once")] = False,
    response_weight_cap: Annotated[
        float | None, typer.Option(help="largest of ReCo's N w; no weight by default")
    ] = None,
    entropy_bonus: Annotated[float, typer.Option(help="times entropy, added")] = 0.0,
    kl: Annotated[float, typer.Option(help="times KL to the initial policy, subtracted")] = 0.0,
    record_every: Annotated[int, typer.Option(help="updates between rows")] = 10,
    seed: Annotated[int, typer.Option(help="seed of everything random", min=0)] = 0,
) -> None:
    """A softmax over actions under any rule: success rate, retained correct mass, entropy."""
    options: dict[str, Any] = dict(locals())
    import numpy as np

    from .sims import CategoricalConfig, simulate_categorical

    seed = options.pop("seed")
    options["rule_options"] = dict(map(_setting, options.pop("rule_option") or []))
    if logits is not None:
        try:
            options["logits"] = np.loadtxt(logits, ndmin=1)
        except ValueError as error:
            raise ValueError(f"logits: {logits}: {error}") from None
        options["n_actions"] = len(options["logits"])
    _csv(simulate_categorical(CategoricalConfig(**options), rng=seed).frame())


def _setting(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"rule-option must be NAME=NUMBER; got {text!r}") from None
    return name, int(number) if number.is_integer() else number


@simulate.command(
    "tokens",
    epilog="Example: tailmiss simulate tokens --token-rule variance_ppo --response-weight"
    " --inner-steps 4 --seed 1 > run.csv",
)
def simulate_tokens(
    prompts: Annotated[int, typer.Option(help="prompts in all")] = 64,
    prompts_per_policy: Annotated[int, typer.Option(help="prompts that share a policy")] = 8,
    length: Annotated[int, typer.Option(help="tokens of an answer")] = 16,
    vocabulary: Annotated[int, typer.Option(help="size of the vocabulary")] = 32,
    strategies: Annotated[int, typer.Option(help="likely answers per policy")] = 32,
    correct: Annotated[int, typer.Option(help="of them correct, per prompt")] = 4,
    zipf: Annotated[float, typer.Option(help="exponent of their initial shares")] = 1.5,
    slip: Annotated[float, typer.Option(help="chance that a token is drawn uniformly")] = 0.01,
    context: Annotated[
        int | None, typer.Option(help="last tokens a softmax sees; whole prefix by default")
    ] = None,
    group_size: Annotated[int, typer.Option("--group-size", "--N", help="rollouts, N")] = 8,
    steps: Annotated[int, typer.Option(help="rollout batches")] = 400,
    inner_steps: Annotated[int, typer.Option(help="gradient steps on each batch")] = 1,
    learning_rate: Annotated[float, typer.Option(help="of gradient ascent")] = 0.5,
    rule: Annotated[str, typer.Option(help="advantage rule, one of tailmiss.RULES")] = "grpo",
    rule_option: Annotated[
        list[str] | None, typer.Option(help="an option of the rule, NAME=NUMBER")
    ] = None,
    gamma: Annotated[float, typer.Option(help="focal exponent; F-GRPO: 0.5 or 1")] = 0.0,
    token_rule: Annotated[
        str,
        typer.Option(
            help="importance, cispo, variance, variance_ppo, variance_autograd,"
            " variance_ratio_mask, variance_cispo or variance_absolute"
        ),
    ] = "importance",
    clip_low: Annotated[float, typer.Option(help="lower clip")] = 0.2,
    clip_high: Annotated[float, typer.Option(help="upper clip; DAPO: 0.28")] = 0.2,
    ratio_cap: Annotated[float, typer.Option(help="largest variance ratio")] = 10.0,
    response_weight: Annotated[bool, typer.Option(help="ReCo's weight per response")] = False,
    weight_length: Annotated[
        float | None,
        typer.Option(help="root of the probability in w; the length by default, 1 for none"),
    ] = None,
    weight_cap: Annotated[float, typer.Option(help="largest N w")] = 5.0,
    self_normalize: Annotated[bool, typer.Option(help="divide w by its group sum")] = False,
    entropy_quantile: Annotated[float, typer.Option(help="80/20 rule: 0.8")] = 0.0,
    record_every: Annotated[int, typer.Option(help="batches between rows")] = 20,
    alive_mass: Annotated[
        float, typer.Option(help="probability from which on a strategy is alive")
    ] = 1 / 256,
    seed: Annotated[int, typer.Option(help="seed of everything random", min=0)] = 0,
) -> None:
    """Token policies under GRPO, F-GRPO, DAPO, CISPO or a reading of ReCo; exact pass@k."""
    options: dict[str, Any] = dict(locals())
    from .sims.tokens import TokenConfig, simulate_tokens

    seed = options.pop("seed")
    options["rule_options"] = dict(map(_setting, options.pop("rule_option") or []))
    _csv(simulate_tokens(TokenConfig(**options), rng=seed).frame())


@simulate.command(
    "maze",
    epilog="Example: tailmiss simulate maze --N 8 --gamma 1 --seed 1 > run.csv",
)
def simulate_maze(
    policy: Annotated[str, typer.Option(help="window, or transformer (needs torch)")] = "window",
    paper: Annotated[
        bool, typer.Option("--paper", help="the paper's 3.9M-parameter transformer, for a GPU")
    ] = False,
    size: Annotated[int | None, typer.Option(help="side of a maze, 2n + 1 for n x n cells")] = None,
    algorithm: Annotated[str | None, typer.Option(help="prim, kruskal or wilson")] = None,
    group_size: Annotated[int, typer.Option("--group-size", "--N", help="rollouts, N")] = 8,
    rule: Annotated[str, typer.Option(help="advantage rule, one of tailmiss.RULES")] = "grpo",
    rule_option: Annotated[
        list[str] | None, typer.Option(help="an option of the rule, NAME=NUMBER")
    ] = None,
    gamma: Annotated[float, typer.Option(help="focal exponent; F-GRPO: 0.5 or 1")] = 0.0,
    weighting: Annotated[
        str, typer.Option(help="focal, or the control batch_mean or learning_rate")
    ] = "focal",
    response_weight: Annotated[bool, typer.Option(help="ReCo's weight per response")] = False,
    success: Annotated[str, typer.Option(help="target path only, or the goal on any")] = "target",
    steps: Annotated[int | None, typer.Option(help="updates")] = None,
    prompts: Annotated[int | None, typer.Option(help="mazes in a batch")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="of AdamW")] = None,
    warm_start_pass_at_1: Annotated[float | None, typer.Option(help="where it ends")] = None,
    warm_start_steps: Annotated[int | None, typer.Option(help="most supervised steps")] = None,
    test_mazes: Annotated[int | None, typer.Option(help="held-out mazes")] = None,
    base_seed: Annotated[int, typer.Option(help="base policy and held-out mazes", min=0)] = 0,
    record_every: Annotated[int | None, typer.Option(help="updates between records")] = None,
    seed: Annotated[int, typer.Option(help="seed of training", min=0)] = 0,
) -> None:
    """Mazes with one correct path each, from a warm start: exact pass@k, by class of maze.

    What is not given is the policy's: 17x17 Prim mazes and 2,000 updates on 64 mazes for the
    window, 4x4-cell Kruskal mazes on 32 for the transformer.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if value is not None}
    from dataclasses import replace

    from . import _validate
    from .sims import maze

    _validate.one_of("policy", given.pop("policy"), ("window", "transformer"))
    base = maze.MazeConfig() if policy == "window" else maze.SMALL_TRANSFORMER
    if given.pop("paper"):
        base = maze.PAPER
    if rule != base.rule or rule_option:
        given["rule_options"] = dict(map(_setting, given.pop("rule_option", ())))
    seed = given.pop("seed")
    _csv(maze.simulate_maze(replace(base, **given), rng=seed).frame())


def _csv(frame: Any) -> None:
    frame.to_csv(sys.stdout, index=False, float_format="%.10g", lineterminator="\n")


def _rows(*rows: tuple[str, Any]) -> None:
    width = max(len(label) for label, _ in rows) + 2
    for label, value in rows:
        print(f"{label:<{width}}{value if isinstance(value, str) else format(value, '.6g')}")


if __name__ == "__main__":
    main()
