"""Autoregressive policies that learn by group-relative updates, with everything counted exactly.

A prompt is answered by T tokens over a vocabulary V. A few token sequences, the *strategies*, carry
almost all mass at the start, with Zipf shares; they fork from one another at random depths, and at
every token the policy slips off them with a small probability. A prompt accepts some of the
strategies as correct, common and rare ones alike. Prompts that share a policy cannot be told apart
by it: it has to keep several strategies alive to solve them all, which is how pass@k can fall while
pass@1 rises. With one prompt a policy, success on the trained prompt is all there is.

The policy has one softmax per prefix (prefixes that no strategy passes share one per position: no
correct answer can follow them), or one per (position, last m tokens), so that updates generalise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmiss import _validate as check
from tailmiss._rng import RNG, generator
from tailmiss.advantages import advantage_table

from .token_policies import (
    Array,
    TokenTask,
    check_task,
    empty_batch,
    make_task,
    position_profile,
    sample_answers,
    strategy_contexts,
    strategy_mass,
)

if TYPE_CHECKING:
    import pandas as pd

TOKEN_RULES = (
    "importance",
    "cispo",
    "variance",
    "variance_ppo",
    "variance_autograd",
    "variance_ratio_mask",
    "variance_cispo",
    "variance_absolute",
)

LARGEST_SOFTMAX_TABLE = 10**7


@dataclass(frozen=True)
class TokenConfig:
    """Everything that, with a seed, determines a run of :func:`simulate_tokens`.

    Parameters
    ----------
    prompts, prompts_per_policy : int >= 1
        Prompts in all, and how many of them share one policy (a divisor of `prompts`).
    length, vocabulary : int >= 1, >= 2
        Tokens of an answer, T, and size of the vocabulary, V.
    strategies, correct : int >= 1
        Strategies per policy, and how many of them each prompt accepts.
    zipf : float >= 0
        Strategy s = 1, 2, ... starts with a share proportional to s^-zipf.
    slip : float in (0, 1)
        Probability that a token is drawn uniformly instead of along the strategies.
    context : int >= 0 or None
        Last tokens that a softmax sees, beside its position; None sees the whole prefix.
    group_size, steps, inner_steps : int >= 1, >= 0, >= 1
        Rollouts per prompt, N; rollout batches; gradient steps on each batch.
    learning_rate : float >= 0
        Of plain gradient ascent on the logits. The loss sums over tokens (all answers have T, so
        the published 1/T is part of this rate) and averages over the prompts of a policy.
    rule, gamma, rule_options
        Advantage rule and focal exponent, as for :func:`tailmiss.advantage_table`.
    token_rule : str
        One of ``TOKEN_RULES``: PPO's clipped importance ratio, CISPO, or a reading of ReCo's
        variance ratio (``tailmiss.reco.gradient_factor`` has the formulas).
    clip_low, clip_high : float >= 0
        Clip range; DAPO's clip-higher is clip_high=0.28.
    ratio_cap : float >= 1
        Largest variance ratio used as a coefficient.
    response_weight, weight_length, weight_cap, self_normalize
        ReCo's w = 1/(N pibar) in the place of 1/N, pibar = pi^(1/weight_length) with T for None;
        1 makes it the inverse probability of the response. At most weight_cap/N; divided by its sum
        over the group.
    entropy_quantile : float in [0, 1)
        Tokens below this quantile of the batch's entropies take no update; 0.8 is the 80/20 rule.
    record_every : int >= 1
        Steps between records; the first and the last step are always recorded.
    samples : int >= 0
        Answers drawn from each policy at every record, for measures of text diversity.
    alive_mass : float in (0, 1)
        A strategy is alive while its probability is at least this.

    Raises
    ------
    ValueError
        A field outside its range.
    """

    prompts: int = 64
    prompts_per_policy: int = 8
    length: int = 16
    vocabulary: int = 32
    strategies: int = 32
    correct: int = 4
    zipf: float = 1.5
    slip: float = 0.01
    context: int | None = None
    group_size: int = 8
    steps: int = 400
    inner_steps: int = 1
    learning_rate: float = 0.5
    rule: str = "grpo"
    gamma: float = 0.0
    rule_options: dict[str, Any] = field(default_factory=dict)
    token_rule: str = "importance"
    clip_low: float = 0.2
    clip_high: float = 0.2
    ratio_cap: float = 10.0
    response_weight: bool = False
    weight_length: float | None = None
    weight_cap: float = 5.0
    self_normalize: bool = False
    entropy_quantile: float = 0.0
    record_every: int = 20
    samples: int = 0
    alive_mass: float = 1 / 256

    def __post_init__(self) -> None:
        for name, low in {
            "prompts": 1, "prompts_per_policy": 1, "length": 1, "vocabulary": 2, "strategies": 1,
            "correct": 1, "group_size": 1, "steps": 0, "inner_steps": 1, "record_every": 1,
            "samples": 0,
        }.items():  # fmt: skip
            check.whole_number(name, getattr(self, name), low)
        for name in ("zipf", "learning_rate"):
            check.number(name, getattr(self, name), 0)
        for name in ("clip_low", "clip_high"):
            check.within(name, getattr(self, name), 0.0, np.inf)
        for name in ("response_weight", "self_normalize"):
            check.one_of(name, getattr(self, name), (False, True))
        for name in ("ratio_cap", "weight_cap", "weight_length"):
            value = getattr(self, name)
            check.within(name, 1.0 if value is None else value, 1.0, np.inf)
        check.mass("slip", self.slip, inclusive=False)
        check.mass("alive_mass", self.alive_mass, inclusive=False)
        check.one_of("token_rule", self.token_rule, TOKEN_RULES)
        if self.context is not None:
            seen = min(check.whole_number("context", self.context, 0), self.length - 1)
            if self.vocabulary ** (seen + 1) > LARGEST_SOFTMAX_TABLE:
                raise ValueError(
                    f"context must leave at most {LARGEST_SOFTMAX_TABLE:.0e} entries a position;"
                    f" got {self.context} tokens of {self.vocabulary}"
                )
        if check.share("entropy_quantile", self.entropy_quantile) == 1:
            raise ValueError("entropy_quantile must be below 1, to leave some tokens; got 1.0")
        if self.prompts % self.prompts_per_policy:
            raise ValueError(
                f"prompts ({self.prompts}) must be a multiple of prompts_per_policy"
                f" ({self.prompts_per_policy})"
            )
        if self.correct > self.strategies:
            raise ValueError(
                f"correct must be <= strategies ({self.strategies}); got {self.correct}"
            )
        if self.strategies > self.vocabulary**self.length / 2:
            raise ValueError(
                f"strategies must be at most half the {self.vocabulary}^{self.length} answers;"
                f" got {self.strategies}"
            )
        advantage_table(self.rule, self.group_size, gamma=self.gamma, **self.rule_options)


@dataclass(frozen=True)
class TokenRun:
    """What :func:`simulate_tokens` recorded, R times from the first step to the last.

    Attributes
    ----------
    steps : int64 (R,)
    success : float64 (R, P)
        Exact probability that one answer to a prompt is correct; see :meth:`pass_at_k`.
    retained_mass : float64 (R, P)
        1 - sum max(0, initial - current) / sum initial, over the correct strategies of a prompt.
    alive : int64 (R, P)
        Correct strategies whose probability is at least ``alive_mass``.
    variance, entropy : float64 (R, T)
        Expected Bernoulli variance p(1-p) of the sampled token, and expected entropy in nats, by
        position, averaged over the policies.
    mixed_share, clipped_share, net_push : float64 (R,)
        Since the record before: groups with correct and wrong rollouts, token terms that a clip
        masked, mean of sum_i w_i A_i over groups.
    samples : int16 (R, F, M, T)
        Answers drawn from each policy.
    task, logits
        The task, and the policies at the end.
    """

    steps: NDArray[np.int64]
    success: Array
    retained_mass: Array
    alive: NDArray[np.int64]
    variance: Array
    entropy: Array
    mixed_share: Array
    clipped_share: Array
    net_push: Array
    samples: NDArray[np.int16]
    task: TokenTask = field(repr=False)
    logits: Array = field(repr=False)

    def pass_at_k(self, k: int) -> Array:
        """Exact pass@k over training, averaged over prompts: mean of 1 - (1 - p)^k."""
        k = check.whole_number("k", k)
        return np.mean(-np.expm1(k * np.log1p(-np.minimum(self.success, 1 - 1e-16))), axis=1)

    def frame(self, ks: tuple[int, ...] = (1, 8, 64, 256)) -> pd.DataFrame:
        """One row a record: pass@k, and every measure averaged over prompts or a third of T."""
        import pandas as pd

        columns: dict[str, Any] = {"step": self.steps}
        columns |= {f"pass_at_{k}": self.pass_at_k(k) for k in ks}
        columns["retained_mass"] = self.retained_mass.mean(axis=1)
        columns["alive"] = self.alive.mean(axis=1)
        thirds = np.array_split(self.variance, 3, axis=1)
        for name, part in zip(("early", "middle", "late"), thirds, strict=True):
            columns[f"variance_{name}"] = part.mean(axis=1) if part.size else np.nan
        columns["entropy"] = self.entropy.mean(axis=1)
        for name in ("mixed_share", "clipped_share", "net_push"):
            columns[name] = getattr(self, name)
        return pd.DataFrame(columns)


def simulate_tokens(
    config: TokenConfig, *, rng: RNG = None, task: TokenTask | None = None
) -> TokenRun:
    r"""Train token policies by a group-relative rule; record exact success and diversity.

    .. math:: g = \frac1B \sum_{q} \sum_i w_i A_i \sum_t f_{it} \nabla \log \pi(o_{it} | h_{it})

    over the B prompts of a policy, with A from a rule of ``RULES`` times the focal weight, w = 1/N
    or ReCo's response weight, and the factor f of a token rule; ascended `inner_steps` times on
    every batch of rollouts.

    Parameters
    ----------
    config : TokenConfig
    rng : int, SeedSequence, Generator or None
    task : TokenTask, optional
        Prompts and initial policies of your own; otherwise :func:`make_task` draws them.

    Returns
    -------
    TokenRun

    Raises
    ------
    ValueError
        A `task` that does not fit `config` or itself.

    Notes
    -----
    [RECO] v1 and [FGRPO] v2; every open choice of ReCo's text is a field of the configuration.
    Success rates, retained mass and variance come from the policy itself, without sampling
    (tests/test_tokens.py compares them with counts). The kernel equals its twin in tests/naive on
    the same uniforms. There is no KL term and no optimizer state; all answers have T tokens.

    Examples
    --------
    >>> run = simulate_tokens(TokenConfig(prompts=8, steps=50, vocabulary=8, length=6), rng=0)
    >>> bool(run.pass_at_k(1)[-1] > run.pass_at_k(1)[0])
    True
    """
    rng = generator(rng)
    if task is None:
        task = make_task(config, rng=rng)
    else:
        check_task(task, prompts=config.prompts, length=config.length)
    path = strategy_contexts(task)
    logits = task.logits.copy()
    initial = strategy_mass(task, logits, path)
    records: list[tuple[Any, ...]] = []
    since: list[tuple[float, float, float]] = []
    for step in range(config.steps + 1):
        if step % config.record_every == 0 or step == config.steps:
            counted = np.mean(since, axis=0) if since else np.full(3, np.nan)
            records.append((step, *_measure(config, task, logits, path, initial, rng), *counted))
            since = []
        if step < config.steps:
            shape = (config.prompts, config.group_size, config.length)
            since.append(train_step(config, task, logits, rng.random(shape)))
    steps, success, retained, alive, variance, entropy, samples, mixed, clipped, push = (
        np.array(column) for column in zip(*records, strict=True)
    )
    return TokenRun(
        steps, success, retained, alive, variance, entropy, mixed, clipped, push, samples,
        task, logits,
    )  # fmt: skip


def train_step(
    config: TokenConfig, task: TokenTask, logits: Array, uniforms: Array
) -> tuple[float, float, float]:
    """One batch of rollouts and its inner steps, in place on `logits`.

    Returns the share of mixed groups, the share of clipped token terms and the mean net push.
    """
    from . import _tokens_kernel as kernel

    tokens, contexts, p_old, entropy, _, success = batch = empty_batch(uniforms.shape)
    kernel.sample(logits, task.child, task.strategies, task.correct, uniforms, *batch)
    correct, wrong = advantage_table(
        config.rule, config.group_size, gamma=config.gamma, **config.rule_options
    )
    coefficient = np.empty(success.shape)
    length = np.inf
    if config.response_weight:
        length = float(config.length if config.weight_length is None else config.weight_length)
    kernel.response_coefficients(
        p_old, success, correct, wrong, length, config.weight_cap,
        config.self_normalize, coefficient,
    )  # fmt: skip
    clipped = kernel.inner_steps(
        logits, tokens, contexts, p_old, entropy >= entropy_floor(config, entropy), coefficient,
        config.inner_steps, config.learning_rate, TOKEN_RULES.index(config.token_rule),
        config.clip_low, config.clip_high, config.ratio_cap,
    )  # fmt: skip
    K = success.sum(axis=1)
    mixed = np.mean((K > 0) & (config.group_size > K))
    return float(mixed), float(clipped), float(coefficient.sum(axis=1).mean())


def entropy_floor(config: TokenConfig, entropy: Array) -> float:
    """Smallest entropy of a token that is updated: an order statistic of the batch."""
    if config.entropy_quantile == 0:
        return -np.inf
    rank = int(config.entropy_quantile * entropy.size)
    return float(np.partition(entropy.ravel(), rank)[rank])


def _measure(
    config: TokenConfig,
    task: TokenTask,
    logits: Array,
    path: NDArray[np.int64],
    initial: Array,
    rng: np.random.Generator,
) -> tuple[Any, ...]:
    share = config.prompts // len(logits)
    mass = np.repeat(strategy_mass(task, logits, path), share, axis=0)
    start = np.repeat(initial, share, axis=0)
    lost = np.maximum(start - mass, 0.0)
    retained = 1 - (lost * task.correct).sum(1) / (start * task.correct).sum(1)
    alive = ((mass >= config.alive_mass) & task.correct).sum(1)
    variance, entropy = position_profile(task, logits)
    samples, _ = sample_answers(task, logits, config.samples, rng=rng)
    return (mass * task.correct).sum(1), retained, alive, variance, entropy, samples
