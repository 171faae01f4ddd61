"""The transformer policy of `simulate_maze`: reads the maze, writes moves and DONE. Needs torch."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tailmiss.torch import advantages, focal_weights, response_weights

from ._maze_config import MazeConfig, base_stream
from ._maze_model import Learner, attention, new_learner, optimiser
from ._maze_tree import Rollouts, gather_gradient, sample, take
from .maze import generate_mazes, held_out, solve_mazes
from .maze_encoding import Encoding

LOOK_EVERY = 5
NODES_AT_ONCE = 1 << 16


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread on the host: small models are faster so, and sums do not depend on the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def warm_start(config: MazeConfig) -> tuple[Learner, int]:
    """A fresh learner at the base of the config, and the supervised steps it took."""
    names = (
        "policy", "size", "algorithm", "weight_decay", "clip_norm", "warm_start_pass_at_1",
        "warm_start_steps", "warm_start_prompts", "warm_start_learning_rate", "validation_mazes",
        "base_seed",
    )  # fmt: skip
    weights, steps = _base(tuple((name, getattr(config, name)) for name in names))
    learner = new_learner(config)
    learner.model.load_state_dict(weights)
    learner.optimiser = optimiser(learner.model, config.scaled_learning_rate, config)
    return learner, steps


@functools.lru_cache(maxsize=8)
def _base(fields: tuple[tuple[str, Any], ...]) -> tuple[dict[str, Tensor], int]:
    config = MazeConfig(**dict(fields))
    learner, done = new_learner(config), 0
    validation, rng = held_out(config, "validation"), base_stream(config, 3)
    while done < config.warm_start_steps:
        if done % LOOK_EVERY == 0 and config.warm_start_pass_at_1 < 1:
            passed = np.exp(target_log_probs(config, learner, *validation)).mean()
            if passed >= config.warm_start_pass_at_1:
                break
        mazes = generate_mazes(
            config.warm_start_prompts, config.size, rng=rng, algorithm=config.algorithm
        )
        logp, lengths = answer_log_probs(learner, mazes, *solve_mazes(mazes))
        (-logp.sum() / int(lengths.sum())).backward()
        descend(learner, config)
        done += 1
    return learner.model.state_dict(), done


def descend(learner: Learner, config: MazeConfig) -> None:
    """One AdamW step along the gradient that was gathered."""
    if config.clip_norm > 0:
        nn.utils.clip_grad_norm_(learner.model.parameters(), config.clip_norm)
    learner.optimiser.step()
    learner.optimiser.zero_grad(set_to_none=False)


def answer_log_probs(
    learner: Learner, mazes: NDArray[Any], moves: NDArray[Any], lengths: NDArray[Any]
) -> tuple[Tensor, NDArray[Any]]:
    """Log-probability (n,) of every target answer, DONE included, and its number of tokens."""
    answers, n = learner.encoding.answers(moves, lengths)
    begin = np.full((len(mazes), 1), learner.encoding.start)
    text = np.hstack((learner.encoding.prompts(mazes), begin, answers[:, :-1]))
    place = learner.tensor(np.arange(text.shape[1]))
    logits = learner.model(learner.tensor(text), place, attention(), answers.shape[1])
    loss = functional.cross_entropy(
        logits.flatten(0, 1), learner.tensor(answers.ravel()), reduction="none"
    )
    counted = learner.tensor(np.arange(answers.shape[1]) < n[:, None])
    return -(loss.view(counted.shape) * counted).sum(1), n


@one_thread()
@torch.no_grad()
def target_log_probs(
    config: MazeConfig, learner: Learner, mazes: Any, moves: Any, lengths: Any
) -> NDArray[Any]:
    """Exact log-probability of every target answer, DONE included."""
    parts = [
        answer_log_probs(learner, mazes[i : i + 64], moves[i : i + 64], lengths[i : i + 64])[0]
        for i in range(0, len(mazes), 64)
    ]
    return torch.cat(parts).double().cpu().numpy()


def judge(
    config: MazeConfig, encoding: Encoding, mazes: NDArray[Any], moves: NDArray[Any],
    lengths: NDArray[Any], answers: NDArray[Any],
) -> NDArray[np.bool_]:  # fmt: skip
    """Which rollouts, of answers (P, N, T), are correct: (P, N)."""
    if config.success == "goal":
        return encoding.reach_goal(mazes, answers)
    target, n = encoding.answers(moves, lengths)
    width = max(target.shape[-1], answers.shape[-1])
    target, answers = (
        np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, width - part.shape[-1])])
        for part in (target, answers)
    )
    beyond = np.arange(width) >= n[:, None]
    return np.asarray(((answers == target[:, None]) | beyond[:, None]).all(-1))


@one_thread()
def advance(
    config: MazeConfig, learner: Learner, steps: int, rng: np.random.Generator
) -> NDArray[Any]:
    """More updates; rollouts, correct ones, groups, mixed ones, their weights, correct detours."""
    counts = np.zeros(6)
    for _ in range(steps):
        chunks = draw(config, learner, rng, counts)
        success = torch.from_numpy(np.concatenate([correct for _, correct in chunks])).float()
        c = credit(config, success, counts)
        sizes = [correct.size for _, correct in chunks]
        scale = 1 / sum(int(rollouts.counted.sum()) for rollouts, _ in chunks)
        for (rollouts, _), part in zip(chunks, c.flatten().split(sizes), strict=True):
            if config.response_weight:
                old, mask = torch.from_numpy(rollouts.logp), torch.from_numpy(rollouts.counted)
                N = config.group_size
                part = part * N * response_weights(old, mask, N, cap=config.weight_cap)
            gather_gradient(learner, rollouts, part.numpy(), scale)
        descend(learner, config)
    return counts


def credit(config: MazeConfig, success: Tensor, counts: NDArray[Any]) -> Tensor:
    """Weighted advantages (groups, N) of the rollouts."""
    N = config.group_size
    ids = torch.arange(len(success))[:, None].expand_as(success).flatten()
    advantage = advantages(config.rule, success.flatten(), ids, **config.rule_options)
    gamma = 0.0 if config.weighting == "learning_rate" else config.gamma
    weight = focal_weights(success.flatten(), ids, gamma).view(-1, N)
    mixed = (success.sum(1) > 0) & (success.sum(1) < N)
    counts[4] += float(weight[mixed, 0].sum())
    if config.weighting == "batch_mean" and mixed.any():
        weight = weight[mixed, 0].mean().expand(weight.shape)
    return advantage.view(-1, N) * weight


def draw(
    config: MazeConfig, learner: Learner, rng: np.random.Generator, counts: NDArray[Any]
) -> list[tuple[Rollouts, NDArray[np.bool_]]]:
    """Rollouts of a batch of fresh mazes and which are correct, in chunks that fit in memory."""
    encoding, N = learner.encoding, config.group_size
    at_once = max(1, NODES_AT_ONCE // (N * encoding.limit + encoding.prompt_length))
    chunks, kept = [], 0
    for batch in range(config.batches):
        mazes = generate_mazes(config.prompts, config.size, rng=rng, algorithm=config.algorithm)
        moves, lengths = solve_mazes(mazes)
        for start in range(0, config.prompts, at_once):
            some = slice(start, start + at_once)
            rollouts = sample(learner, encoding.prompts(mazes[some]), N, rng)
            answers = rollouts.answers.reshape(len(rollouts.prompts), N, -1)
            correct = judge(config, encoding, mazes[some], moves[some], lengths[some], answers)
            hits = correct.sum(1)
            mixed = (hits > 0) & (hits < N)
            counts[:4] += correct.size, hits.sum(), len(hits), mixed.sum()
            counts[5] += hits[lengths[some] > 2 * (config.size - 3)].sum()
            if batch + 1 < config.batches:
                keep = mixed & (mixed.cumsum() <= config.prompts - kept)
            else:
                keep = np.arange(len(hits)) < config.prompts - kept
            kept += int(keep.sum())
            if keep.any():
                chunks.append((take(rollouts, keep), correct[keep]))
        if kept >= config.prompts:
            break
    return chunks
