"""The command ``tailmiss simulate``: a config from options, one run, its records as CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="One run of a simulator, as CSV on standard output.",
    epilog="Example: tailmiss simulate categorical --N 8 --steps 100 > run.csv",
    no_args_is_help=True,
)

GroupSize = Annotated[int, typer.Option("--group-size", "--N", help="rollouts, N")]
Rule = Annotated[str, typer.Option(help="advantage rule, one of tailmiss.RULES")]
RuleOptions = Annotated[list[str] | None, typer.Option(help="an option of the rule, NAME=NUMBER")]
Gamma = Annotated[float, typer.Option(help="focal exponent; F-GRPO: 0.5 or 1")]
ResponseWeight = Annotated[bool, typer.Option(help="ReCo's weight per response")]


@app.command(
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
    rule: Rule = "centered",
    rule_option: RuleOptions = None,
    gamma: Gamma = 0.0,
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
    """A softmax over actions under any rule: success rate, retained correct mass, entropy.

    Columns: q_pos, probability of a correct action; retained_mass, share of the initial one that no
    action lost; entropy in nats; improved_share of the correct actions and worst_drop of one; then
    means over the groups since the row before: unsampled_mass of the correct actions that a group
    did not draw, unsampled_change of it by the update, focal_weight, mixed_share.
    """
    options: dict[str, Any] = dict(locals())
    import numpy as np

    from .sims import CategoricalConfig, simulate_categorical

    seed = options.pop("seed")
    options["rule_options"] = _settings(options.pop("rule_option"))
    if logits is not None:
        try:
            options["logits"] = np.loadtxt(logits, ndmin=1)
        except ValueError as error:
            raise ValueError(f"logits: {logits}: {error}") from None
        options["n_actions"] = len(options["logits"])
    _csv(lambda: simulate_categorical(CategoricalConfig(**options), rng=seed))


def _settings(texts: list[str] | None) -> dict[str, float]:
    """NAME=NUMBER as an entry; whole numbers as int."""
    settings: dict[str, float] = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"rule-option must be NAME=NUMBER; got {text!r}") from None
        settings[name] = int(number) if number.is_integer() else number
    return settings


@app.command(
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
    group_size: GroupSize = 8,
    steps: Annotated[int, typer.Option(help="rollout batches")] = 400,
    inner_steps: Annotated[int, typer.Option(help="gradient steps on each batch")] = 1,
    learning_rate: Annotated[float, typer.Option(help="of gradient ascent")] = 0.5,
    rule: Rule = "grpo",
    rule_option: RuleOptions = None,
    gamma: Gamma = 0.0,
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
    response_weight: ResponseWeight = False,
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
    """Token policies under GRPO, F-GRPO, DAPO, CISPO or a reading of ReCo; exact pass@k.

    Columns: pass_at_k; retained_mass, share of the initial correct mass that no strategy lost;
    alive, correct strategies of at least --alive-mass; variance p(1-p) of the sampled token in each
    third of an answer; entropy in nats; since the row before, mixed_share of the groups,
    clipped_share of the token terms, and net_push, the mean sum of weight times advantage.
    """
    options: dict[str, Any] = dict(locals())
    from .sims.tokens import TokenConfig, simulate_tokens

    seed = options.pop("seed")
    options["rule_options"] = _settings(options.pop("rule_option"))
    _csv(lambda: simulate_tokens(TokenConfig(**options), rng=seed))


@app.command(
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
    group_size: GroupSize = 8,
    rule: Rule = "grpo",
    rule_option: RuleOptions = None,
    gamma: Gamma = 0.0,
    weighting: Annotated[
        str, typer.Option(help="focal, or the control batch_mean or learning_rate")
    ] = "focal",
    response_weight: ResponseWeight = False,
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

    Columns: mazes, all or those whose path is shortest or makes a detour, and their share; pass@k;
    over the updates since the row before, mean reward, mixed_share of the groups, mean_weight of
    the mixed ones, detour_share of the correct rollouts.
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
        given["rule_options"] = _settings(given.pop("rule_option", None))
    seed = given.pop("seed")
    _csv(lambda: maze.simulate_maze(replace(base, **given), rng=seed))


def _csv(simulate: Callable[[], Any]) -> None:
    """Print the records of a run, made in a thread: a compiled loop does not hear Ctrl-C."""
    run: Future[Any] = Future()

    def work() -> None:
        try:
            run.set_result(simulate())
        except BaseException as error:
            run.set_exception(error)

    Thread(target=work, daemon=True).start()
    run.result().frame().to_csv(sys.stdout, index=False, float_format="%.10g", lineterminator="\n")
