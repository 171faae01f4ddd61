"""The window policy of `simulate_maze`: warm start, updates and exact evaluation on its kernel."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _maze_policy_kernel as kernel
from . import _maze_training_kernel as training
from ._maze_config import ALGORITHMS, MazeConfig, base_stream
from .maze import held_out

LOOK_EVERY = 10


@dataclass
class Learner:
    """Parameters and optimiser state; `step` counts updates since the moments were zero."""

    parameters: NDArray[Any]
    moments: NDArray[Any]
    step: int = 0


def initial_parameters(config: MazeConfig) -> NDArray[Any]:
    """He-normal for the inputs that are on at once, and nearly uniform moves."""
    window, hidden = config.policy.window, config.policy.hidden  # type: ignore[union-attr]
    flat = np.zeros(kernel.n_parameters(config.size, window, hidden))
    inputs, _, outputs, _ = kernel.layers(flat, config.size, window, hidden)
    rng = base_stream(config, 2)
    inputs[:] = rng.normal(scale=np.sqrt(2 / (window**2 / 2)), size=inputs.shape)
    outputs[:] = rng.normal(scale=0.01, size=outputs.shape)
    return flat


def warm_start(config: MazeConfig) -> tuple[Learner, int]:
    """A fresh learner at the base of the config, and the supervised steps it took."""
    parameters, steps = _base(
        config.policy, config.size, config.algorithm, config.weight_decay,
        config.warm_start_pass_at_1, config.warm_start_steps, config.warm_start_prompts,
        config.warm_start_learning_rate, config.validation_mazes, config.base_seed,
    )  # fmt: skip
    return Learner(parameters.copy(), np.zeros((2, parameters.size))), steps


@functools.lru_cache(maxsize=8)
def _base(
    policy: Any, size: int, algorithm: str, weight_decay: float, goal: float, limit: int,
    prompts: int, learning_rate: float, validation_mazes: int, base_seed: int,
) -> tuple[NDArray[Any], int]:  # fmt: skip
    config = MazeConfig(
        policy=policy, size=size, algorithm=algorithm, base_seed=base_seed,
        validation_mazes=validation_mazes,
    )  # fmt: skip
    parameters = initial_parameters(config)
    moments = np.zeros((2, parameters.size))
    validation, rng = held_out(config, "validation"), base_stream(config, 3)
    learner, done = Learner(parameters, moments), 0
    while done < limit:
        if np.exp(target_log_probs(config, learner, *validation)).mean() >= goal:
            break
        more = min(LOOK_EVERY, limit - done)
        training.imitate(
            parameters, moments, done, more, prompts, size, ALGORITHMS.index(algorithm),
            policy.window, policy.hidden, float(learning_rate), float(weight_decay), rng,
        )  # fmt: skip
        done += more
    return parameters, done


def advance(
    config: MazeConfig, learner: Learner, steps: int, rng: np.random.Generator
) -> NDArray[Any]:
    """More updates; what happened in them, as `training.reinforce` counts it."""
    gain, loss, weight = config.tables
    statistics = np.zeros(6)
    rates = config.scaled_learning_rate, config.weight_decay, config.clip_norm
    training.reinforce(
        learner.parameters, learner.moments, learner.step, steps, config.prompts, config.size,
        ALGORITHMS.index(config.algorithm), config.policy.window, config.policy.hidden,  # type: ignore[union-attr]
        config.success == "target", gain, loss, weight, config.weighting == "batch_mean",
        float(config.weight_cap) if config.response_weight else 0.0, config.batches,
        *(float(rate) for rate in rates), rng, statistics,
    )  # fmt: skip
    learner.step += steps
    return statistics


def target_log_probs(
    config: MazeConfig, learner: Learner, mazes: Any, moves: Any, lengths: Any
) -> NDArray[Any]:
    """Exact log-probability of every target path."""
    out = np.empty(len(mazes))
    training.target_log_probs(
        mazes,
        moves,
        lengths,
        learner.parameters,
        config.policy.window,
        config.policy.hidden,
        out,  # type: ignore[union-attr]
    )
    return out
