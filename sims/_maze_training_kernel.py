"""Training and evaluation of the window policy: whole loops over fresh mazes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ._maze_kernel import carve, solve
from ._maze_policy_kernel import (
    backward,
    blank_gradient,
    credit,
    fold,
    follow,
    forget_slots,
    ready,
    roll_out,
    unfold,
    workspace,
)


@njit(nogil=True, cache=True)
def adamw(
    parameters: Any,
    gradient: Any,
    moments: Any,
    step: int,
    learning_rate: float,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> None:
    """One step of AdamW downhill, as torch.optim.AdamW does it; `step` counts from 1."""
    bias1, root_bias2 = 1 - beta1**step, np.sqrt(1 - beta2**step)
    for i in range(parameters.size):
        g = gradient[i]
        moments[0, i] += (1 - beta1) * (g - moments[0, i])
        moments[1, i] = beta2 * moments[1, i] + (1 - beta2) * g * g
        parameters[i] *= 1 - learning_rate * weight_decay
        denominator = np.sqrt(moments[1, i]) / root_bias2 + eps
        parameters[i] -= learning_rate / bias1 * moments[0, i] / denominator


@njit(nogil=True, cache=True)
def target_log_probs(
    mazes: Any, moves: Any, lengths: Any, parameters: Any, window: int, hidden: int, out: Any
) -> None:
    """Exact log-probability of every maze's target path."""
    size = mazes.shape[1]
    _, weights = ready(parameters, size, window, hidden)
    work = workspace(size, window, hidden, 1)
    for i in range(mazes.shape[0]):
        out[i], used = follow(mazes[i], moves[i], lengths[i], weights, work)
        forget_slots(work, used)


@njit(nogil=True, cache=True)
def imitate(
    parameters: Any,
    moments: Any,
    done: int,
    steps: int,
    batch: int,
    size: int,
    algorithm: int,
    window: int,
    hidden: int,
    learning_rate: float,
    weight_decay: float,
    rng: Any,
) -> None:
    """Supervised steps on the target paths of fresh mazes; the loss is the mean over moves."""
    work = workspace(size, window, hidden, 1)
    work.correct[0] = True
    model, weights = ready(parameters, size, window, hidden)
    flat, slope, gradient = blank_gradient(size, window, hidden)
    maze, target, queue, toward = blank_maze(size)
    for step in range(done + 1, done + steps + 1):
        unfold(model[0], window, weights[0])
        flat[:] = 0
        tokens = 0
        for _ in range(batch):
            carve(maze, algorithm, rng)
            length = solve(maze, target, queue, toward)
            _, used = follow(maze, target, length, weights, work)
            tokens += credit(1, 1.0, 0.0, 0.0, work)
            backward(weights, gradient, work, used)
        fold(gradient[0], window, slope[0])
        flat /= tokens
        adamw(parameters, flat, moments, step, learning_rate, weight_decay)


@njit(nogil=True, cache=True)
def blank_maze(size: int) -> Any:
    """A maze, its path, and the solver's scratch arrays."""
    return (
        np.empty((size, size), np.int8),
        np.empty(size * size, np.int8),
        np.empty(size * size, np.int32),
        np.empty((size, size), np.int8),
    )


@njit(nogil=True, cache=True)
def reinforce(
    parameters: Any,
    moments: Any,
    done: int,
    steps: int,
    prompts: int,
    size: int,
    algorithm: int,
    window: int,
    hidden: int,
    by_target: bool,
    gain: Any,
    loss: Any,
    focal: Any,
    average: bool,
    response: float,
    batches: int,
    learning_rate: float,
    weight_decay: float,
    clip_norm: float,
    rng: Any,
    statistics: Any,
) -> None:
    """On-policy steps, one update each, on fresh mazes; the loss is the mean over moves.

    `gain[K]` and `loss[K]` are the plain advantages and `focal[K]` the group's weight. With
    `average` every mixed group gets the batch mean of that weight instead of its own. Groups
    without both kinds are drawn again, up to `batches` of them in all (1: never).
    `statistics` gathers, over these steps: rollouts, correct ones, groups, mixed groups, the sum of
    their focal weights, and correct rollouts along paths longer than the shortest possible.
    """
    group_size = gain.size - 1
    work = workspace(size, window, hidden, group_size)
    model, weights = ready(parameters, size, window, hidden)
    flat, slope, gradient = blank_gradient(size, window, hidden)
    maze, target, queue, toward = blank_maze(size)
    for step in range(done + 1, done + steps + 1):
        unfold(model[0], window, weights[0])
        flat[:] = 0
        tokens, kept, mixed, weight = 0, 0, 0, 0.0
        for drawn in range(prompts * batches):
            if kept == prompts:
                break
            carve(maze, algorithm, rng)
            length = solve(maze, target, queue, toward)
            hits, used = roll_out(maze, target, by_target, group_size, weights, work, rng)
            active = 0 < hits < group_size
            statistics[0] += group_size
            statistics[1] += hits
            statistics[2] += 1
            statistics[3] += active
            if length > 2 * (size - 3):
                statistics[5] += hits
            if batches > 1 and not active and drawn < prompts * batches - 1:
                forget_slots(work, used)
                continue
            kept += 1
            if active:
                mixed += 1
                weight += focal[hits]
            g = 1.0 if average else focal[hits]
            tokens += credit(group_size, g * gain[hits], g * loss[hits], response, work)
            backward(weights, gradient, work, used)
        statistics[4] += weight
        fold(gradient[0], window, slope[0])
        scale = 1.0 / tokens
        if average and mixed:
            scale *= weight / mixed
        flat *= scale
        if clip_norm > 0:
            flat *= min(1.0, clip_norm / (np.sqrt(np.sum(flat * flat)) + 1e-6))
        adamw(parameters, flat, moments, step, learning_rate, weight_decay)


@njit(nogil=True, cache=True)
def target_gradients(
    mazes: Any, moves: Any, lengths: Any, parameters: Any, window: int, hidden: int, out: Any
) -> None:
    """Gradient of the log-probability of every maze's target path, one row a maze."""
    size = mazes.shape[1]
    _, weights = ready(parameters, size, window, hidden)
    work = workspace(size, window, hidden, 1)
    work.correct[0] = True
    flat, slope, gradient = blank_gradient(size, window, hidden)
    for i in range(mazes.shape[0]):
        flat[:] = 0
        _, used = follow(mazes[i], moves[i], lengths[i], weights, work)
        credit(1, -1.0, 0.0, 0.0, work)
        backward(weights, gradient, work, used)
        fold(gradient[0], window, slope[0])
        out[i] = flat
