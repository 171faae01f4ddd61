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

from ._tokens_config import TOKEN_RULES, TokenConfig
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
