"""The window policy of `simulate_maze`: warm start, updates and exact evaluation on its kernel."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmiss.advantages import weight_function

from . import _maze_policy_kernel as kernel
from . import _maze_training_kernel as training
from ._maze_config import ALGORITHMS, MazeConfig, WindowPolicy, base_stream
from .maze import held_out

LOOK_EVERY = 10


@dataclass
class Learner:
    """Parameters and optimiser state; `step` counts updates since the moments were zero."""

    parameters: NDArray[Any]
    moments: NDArray[Any]
    step: int = 0


def shape(config: MazeConfig) -> tuple[int, int, int]:
    """Side of a maze, side of the window, hidden units: what the kernels need to know."""
    policy = config.policy
    assert isinstance(policy, WindowPolicy)
    return config.size, policy.window, policy.hidden


def initial_parameters(config: MazeConfig) -> NDArray[Any]:
    """He-normal for the inputs that are on at once, and nearly uniform moves."""
    size, window, hidden = shape(config)
    flat = np.zeros(kernel.n_parameters(size, window, hidden))
    inputs, _, outputs, _ = kernel.layers(flat, size, window, hidden)
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
    size, window, hidden = shape(config)
    training.reinforce(
        learner.parameters, learner.moments, learner.step, steps, config.prompts, size,
        ALGORITHMS.index(config.algorithm), window, hidden, config.success == "target", gain, loss,
        weight, config.weighting == "batch_mean",
        float(config.weight_cap) if config.response_weight else 0.0, config.batches,
        float(config.scaled_learning_rate), float(config.weight_decay), float(config.clip_norm),
        rng, statistics,
    )  # fmt: skip
    learner.step += steps
    return statistics


def target_log_probs(
    config: MazeConfig, learner: Learner, mazes: Any, moves: Any, lengths: Any
) -> NDArray[Any]:
    """Exact log-probability of every target path."""
    _, window, hidden = shape(config)
    out = np.empty(len(mazes))
    training.target_log_probs(mazes, moves, lengths, learner.parameters, window, hidden, out)
    return out


def expected_change(
    config: MazeConfig, learner: Learner, fresh: Any, unseen: Any
) -> tuple[NDArray[Any], float]:
    r"""What the expected update does to mazes that are not in its batch, to first order.

    With p_y the target probability of a training maze y, the expected policy gradient is
    :math:`u = E_y[w_N(p_y) \nabla p_y]` (exact, see :func:`tailmiss.weight_function`), and the
    log-probability of another maze x moves by :math:`u \cdot \nabla \ln p_x` per unit of learning
    rate.

    Parameters
    ----------
    config, learner
        The update rule and the policy. Under the controls the weights are those of `config.tables`.
    fresh, unseen : (mazes, moves, lengths)
        Mazes that stand for the training distribution, and mazes to be predicted.

    Returns
    -------
    change : float64 (unseen mazes,)
    size : float
        The norm of u; divide by it to compare directions.
    """
    gamma = 0.0 if config.weighting == "learning_rate" else config.gamma
    p = np.exp(target_log_probs(config, learner, *fresh))
    w = weight_function(config.rule, config.group_size, p, gamma=gamma, **config.rule_options)
    update = (w * p) @ gradients(config, learner, *fresh) / len(p)
    return gradients(config, learner, *unseen) @ update, float(np.linalg.norm(update))


def gradients(
    config: MazeConfig, learner: Learner, mazes: Any, moves: Any, lengths: Any
) -> NDArray[Any]:
    """Gradient of every target path's log-probability, one row a maze."""
    _, window, hidden = shape(config)
    out = np.empty((len(mazes), learner.parameters.size))
    training.target_gradients(mazes, moves, lengths, learner.parameters, window, hidden, out)
    return out


def sample_paths(
    config: MazeConfig, learner: Learner, maze: Any, n: int, rng: np.random.Generator
) -> list[tuple[NDArray[Any], float]]:
    """Rollouts in one maze: their moves and log-probabilities."""
    size, window, hidden = shape(config)
    _, weights = kernel.ready(learner.parameters, size, window, hidden)
    work = kernel.workspace(size, window, hidden, n)
    anywhere = np.full(size**2, -1, np.int8)
    kernel.roll_out(maze, anywhere, False, n, weights, work, rng)
    paths = [(work.slots[i, :m], work.moves[i, :m].copy()) for i, m in enumerate(work.lengths)]
    return [(moves, float(work.logp[slots, moves].sum())) for slots, moves in paths]
