"""Prompts and policies of the token simulator: how they start, and what they answer, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmiss import _validate as check
from tailmiss._rng import RNG, generator

if TYPE_CHECKING:
    from ._tokens_config import TokenConfig

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TokenTask:
    """The prompts of a run and the policies that answer them, before any update.

    Attributes
    ----------
    logits : float64 (F, C, V)
        One softmax a context, for each of the F policies.
    child : int64 (F or 1, C, V)
        Context that follows a context and a token; context 0 is the start.
    strategies : int64 (F, S, T)
        Token sequences that may be correct.
    correct : bool (P, S)
        Which of them each prompt accepts; prompt i uses policy i // (P // F).
    """

    logits: Array
    child: NDArray[np.int64]
    strategies: NDArray[np.int64]
    correct: NDArray[np.bool_]


def check_task(task: TokenTask, *, prompts: int, length: int) -> None:
    """Raise ValueError, with the reason, where a task does not fit the run or itself."""
    F, C, V = task.logits.shape
    S = task.correct.shape[-1]
    shapes = {
        "child": (task.child.shape, ((F, C, V), (1, C, V))),
        "strategies": (task.strategies.shape, ((F, S, length),)),
        "correct": (task.correct.shape, ((prompts, S),)),
    }
    for name, (found, wanted) in shapes.items():
        if found not in wanted:
            raise ValueError(f"task.{name} must have shape {wanted[0]}; got {found}")
    if prompts % F:
        raise ValueError(f"task.logits must hold policies that divide {prompts} prompts; got {F}")
    check.finite("task.logits", task.logits)
    check.whole("task.child", task.child, 0, high=C - 1)
    check.whole("task.strategies", task.strategies, 0, high=V - 1)
    hopeless = np.flatnonzero(~task.correct.any(axis=1))
    if hopeless.size:
        raise ValueError(f"task.correct must accept a strategy; none for prompt {hopeless[0]}")


def make_task(config: TokenConfig, *, rng: RNG = None) -> TokenTask:
    """Draw strategies, what each prompt accepts, and the policies that carry the shares."""
    rng = generator(rng)
    F = config.prompts // config.prompts_per_policy
    strategies = np.stack([_fork(config, rng) for _ in range(F)])
    order = rng.random((config.prompts, config.strategies)).argsort(axis=1)
    correct = order < config.correct
    if config.context is None:
        child = _prefix_contexts(strategies, config.vocabulary)
    else:
        child = _suffix_contexts(config.length, config.vocabulary, config.context)
    C, V = child.shape[1:]
    blank = TokenTask(np.empty((F, C, V)), child, strategies, correct)
    share = np.arange(1.0, config.strategies + 1) ** -config.zipf
    # Where no strategy passes, one token a context is as sure as a strategy's are.
    planted = np.zeros((F, C, V))
    row = np.arange(F)[:, None, None]
    np.add.at(planted, (row, strategy_contexts(blank), strategies), share[:, None])
    usual = np.eye(V)[rng.integers(V, size=(F, C))]
    through = planted.sum(-1, keepdims=True)
    along = np.divide(planted, through, out=usual, where=through > 0)
    p = (1 - config.slip) * along + config.slip / V
    return TokenTask(np.log(p), child, strategies, correct)


def _fork(config: TokenConfig, rng: np.random.Generator) -> NDArray[np.int64]:
    """Distinct token sequences, each leaving an earlier one at a random depth."""
    T, V = config.length, config.vocabulary
    found = [tuple(rng.integers(V, size=T))]
    while len(found) < config.strategies:
        depth = rng.integers(T)
        parent = found[rng.integers(len(found))]
        new = (*parent[:depth], *rng.integers(V, size=T - depth))
        if new not in found:
            found.append(new)
    return np.array(found, np.int64)


def _prefix_contexts(strategies: NDArray[np.int64], V: int) -> NDArray[np.int64]:
    """A context for every proper prefix of a strategy, and one a position for all others."""
    F, _, T = strategies.shape
    tries = []
    for family in strategies.tolist():
        node: dict[tuple[int, ...], int] = {(): 0}
        for tokens in family:
            for t in range(1, T):
                node.setdefault(tuple(tokens[:t]), T + len(node) - 1)
        tries.append(node)
    C = T - 1 + max(map(len, tries))
    off = np.minimum(np.arange(C) + 1, T - 1)
    child = np.zeros((F, C, V), np.int64)
    for f, node in enumerate(tries):
        child[f] = off[:, None]
        for prefix, c in node.items():
            child[f, c] = min(len(prefix) + 1, T - 1)
        for prefix, c in node.items():
            if prefix:
                child[f, node[prefix[:-1]], prefix[-1]] = c
    return child


def _suffix_contexts(T: int, V: int, m: int) -> NDArray[np.int64]:
    """A context for every (position, last m tokens), the same for all policies."""
    seen = [V ** min(t, m) for t in range(T)]
    start = np.concatenate([[0], np.cumsum(seen)])
    child = np.zeros((1, int(start[-1]), V), np.int64)
    for t in range(T - 1):
        suffix = np.arange(seen[t])[:, None] * V + np.arange(V)
        child[0, start[t] : start[t + 1]] = start[t + 1] + suffix % seen[t + 1]
    return child


def strategy_mass(task: TokenTask, logits: Array, path: NDArray[np.int64]) -> Array:
    """Probability of every strategy under its policy, (F, S): a product along its path."""
    row = np.arange(len(logits))[:, None, None]
    logp = _log_softmax(logits[row, path])
    chosen = np.take_along_axis(logp, task.strategies[..., None], axis=-1)[..., 0]
    return np.exp(chosen.sum(axis=-1))


def position_profile(task: TokenTask, logits: Array) -> tuple[Array, Array]:
    """Expected p(1-p) of the sampled token and expected entropy at each position, (T,) each.

    Exact: the distribution over contexts is carried forward token by token.
    """
    F, C, _ = logits.shape
    logp = _log_softmax(logits)
    p = np.exp(logp)
    variance, entropy = (p * p * (1 - p)).sum(-1), -(p * logp).sum(-1)
    place = np.broadcast_to(np.arange(F)[:, None, None] * C + task.child, p.shape)
    occupied = np.zeros((F, C))
    occupied[:, 0] = 1.0
    T = task.strategies.shape[2]
    by_position = np.empty((2, T))
    for t in range(T):
        by_position[:, t] = (occupied * variance).sum() / F, (occupied * entropy).sum() / F
        live = np.nonzero(occupied)
        flow = occupied[live][:, None] * p[live]
        arrived = np.bincount(place[live].ravel(), flow.ravel(), minlength=F * C)
        occupied = arrived.astype(float).reshape(F, C)
    return by_position[0], by_position[1]


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def strategy_contexts(task: TokenTask) -> NDArray[np.int64]:
    """Contexts that each strategy passes, (F, S, T)."""
    F, S, T = task.strategies.shape
    child = np.broadcast_to(task.child, task.logits.shape)
    path = np.zeros((F, S, T), np.int64)
    row = np.arange(F)[:, None]
    for t in range(1, T):
        path[..., t] = child[row, path[..., t - 1], task.strategies[..., t - 1]]
    return path


def sample_answers(
    task: TokenTask, logits: Array, n: int, *, rng: RNG = None
) -> tuple[NDArray[np.int16], Array]:
    """n answers from each policy, (F, n, T), and the probabilities of their tokens."""
    from . import _tokens_kernel as kernel

    F, _, T = task.strategies.shape
    uniforms = generator(rng).random((F, n, T))
    batch = empty_batch(uniforms.shape)
    nothing = np.zeros((F, task.strategies.shape[1]), bool)
    kernel.sample(logits, task.child, task.strategies, nothing, uniforms, *batch)
    return batch[0].astype(np.int16), batch[2]


def empty_batch(shape: tuple[int, ...]) -> tuple[Any, ...]:
    integers = [np.empty(shape, np.int64) for _ in range(2)]
    floats = [np.empty(shape) for _ in range(2)]
    return (*integers, *floats, np.empty(shape[:2], np.int64), np.empty(shape[:2], np.bool_))
