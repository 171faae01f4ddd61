"""Mazes with one correct path each, and policies that learn them by group-relative updates.

The maze experiment of [FGRPO] v2, Sec. 5.2. With a single correct path a falling pass@K cannot be a
loss of variety within a prompt: it is a loss of coverage across prompts, which share parameters.
Success is one sequence, so pass@1 of a maze is a product of probabilities and nothing is sampled to
evaluate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmiss import _validate as check
from tailmiss._rng import RNG, generator

from ._maze_config import (
    ALGORITHMS,
    PAPER,
    SMALL_TRANSFORMER,
    MazeConfig,
    TransformerPolicy,
    WindowPolicy,
    base_stream,
    check_size,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ALGORITHMS",
    "BUDGETS",
    "PAPER",
    "SMALL_TRANSFORMER",
    "MazeConfig",
    "MazeRun",
    "TransformerPolicy",
    "WindowPolicy",
    "generate_mazes",
    "pass_at_k",
    "simulate_maze",
    "solve_mazes",
]
BUDGETS = (1, 128, 256, 1024, 2048)


@dataclass(frozen=True, eq=False)
class MazeRun:
    """What a maze run recorded, exactly, on held-out mazes.

    ``steps`` (R,): the records' steps, 0 the warm-started base. ``log_p`` (R, test mazes): exact
    log-probability of every test maze's target path. ``lengths`` (test mazes,): moves of the target
    path in squares. ``train`` (R, 4): over the steps since the record before, the mean reward, the
    share of mixed groups, the mean weight of mixed groups, and the share of correct rollouts that
    were on detour mazes (NaN where there was nothing to average).
    """

    config: MazeConfig
    steps: NDArray[Any]
    log_p: NDArray[Any]
    lengths: NDArray[Any]
    train: NDArray[Any]
    warm_start_steps: int

    @property
    def detour(self) -> NDArray[Any]:
        """Mazes whose path is longer than the Manhattan distance from start to goal."""
        return self.lengths > 2 * (self.config.size - 3)

    def pass_at_k(self, k: ArrayLike, mazes: ArrayLike | None = None) -> NDArray[Any]:
        """Mean of 1 - (1-p)^k over the test mazes, or some of them: (R,), or (R, len(k))."""
        budgets = check.whole("k", k)
        log_p = self.log_p if mazes is None else self.log_p[:, np.asarray(mazes)]
        if log_p.shape[1] == 0:
            return np.full((len(self.steps), *budgets.shape), np.nan)
        return np.stack([pass_at_k(log_p, one).mean(-1) for one in budgets.ravel()], -1).reshape(
            len(self.steps), *budgets.shape
        )

    def frame(self) -> pd.DataFrame:
        """One row per record and class of mazes: ``all``, ``shortest``, ``detour``."""
        import pandas as pd

        parts = []
        names = ("reward", "mixed_share", "mean_weight", "detour_share")
        classes = {"all": None, "shortest": ~self.detour, "detour": self.detour}
        for name, mazes in classes.items():
            part = pd.DataFrame({"step": self.steps, "mazes": name})
            part["share"] = 1.0 if mazes is None else mazes.mean()
            passed = self.pass_at_k(BUDGETS, mazes)
            for i, k in enumerate(BUDGETS):
                part[f"pass@{k}"] = passed[:, i]
            for i, column in enumerate(names):
                part[column] = self.train[:, i]
            part["warm_start_steps"] = self.warm_start_steps
            parts.append(part)
        return pd.concat(parts, ignore_index=True)


def pass_at_k(log_p: ArrayLike, k: float) -> NDArray[Any]:
    """1 - (1-p)^k from ln p, without rounding small p away."""
    p = np.minimum(np.exp(np.asarray(log_p, float)), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(k * np.log1p(-p)))


def generate_mazes(n: int, size: int, *, rng: RNG, algorithm: str = "prim") -> NDArray[np.int8]:
    """Perfect mazes: spanning trees of the cells of a square grid.

    Parameters
    ----------
    n : int >= 0
        How many.
    size : odd int >= 5
        Side in squares, 2m + 1 for m x m cells.
    rng : int, SeedSequence or Generator
        A Generator is advanced.
    algorithm : {"prim", "kruskal", "wilson"}
        Randomised Prim as in the paper's data (a random frontier cell is joined to a random carved
        neighbour), randomised Kruskal, or Wilson's uniform spanning tree.

    Returns
    -------
    int8 (n, size, size)
        1 = wall, 0 = open; start (1, 1), goal (size-2, size-2).

    Raises
    ------
    ValueError
        n negative, size even or below 5, unknown algorithm.

    Notes
    -----
    Exactly one simple path joins any two cells (tests/test_maze.py, networkx as oracle). Paths of
    17x17 Prim mazes are 29.08 moves long on average, 28 of 76.9 %.

    Examples
    --------
    >>> generate_mazes(1, 5, rng=0)[0]
    array([[1, 1, 1, 1, 1],
           [1, 0, 0, 0, 1],
           [1, 0, 1, 1, 1],
           [1, 0, 0, 0, 1],
           [1, 1, 1, 1, 1]], dtype=int8)
    """
    from ._maze_kernel import carve_all

    n, size = check.whole_number("n", n, 0), check_size(size)
    check.one_of("algorithm", algorithm, ALGORITHMS)
    mazes = np.empty((n, size, size), np.int8)
    carve_all(mazes, ALGORITHMS.index(algorithm), generator(rng))
    return mazes


def solve_mazes(mazes: ArrayLike) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Shortest paths from start to goal, by breadth-first search.

    Parameters
    ----------
    mazes : int (n, size, size)
        1 = wall, 0 = open, as from :func:`generate_mazes`; any mazes whose start reaches the goal.

    Returns
    -------
    moves : int8 (n, L)
        0 up, 1 down, 2 left, 3 right, padded with -1.
    lengths : int64 (n,)
        Moves in each path.

    Raises
    ------
    ValueError
        Not square mazes of odd side, values other than 0 and 1, or a goal that cannot be reached.

    Notes
    -----
    Of several shortest paths the one that prefers up, down, left, right in this order; compared
    with networkx in tests/test_maze.py.

    Examples
    --------
    >>> moves, lengths = solve_mazes(generate_mazes(2, 5, rng=1))
    >>> lengths
    array([4, 4])
    >>> moves
    array([[3, 3, 1, 1],
           [3, 3, 1, 1]], dtype=int8)
    """
    from ._maze_kernel import solve_all

    given = np.asarray(mazes)
    if given.ndim != 3 or given.shape[1] != given.shape[2]:
        raise ValueError(f"mazes must be (n, size, size); got shape {given.shape}")
    size = check_size(given.shape[1])
    check.within("mazes", given, 0, 1)
    check.whole("mazes", given, 0)
    squares = np.ascontiguousarray(given, np.int8)
    moves = np.full((len(squares), size * size), -1, np.int8)
    lengths = np.empty(len(squares), np.int64)
    solve_all(squares, moves, lengths)
    if (lengths < 0).any():
        raise ValueError(
            f"mazes: the goal of maze {int(np.argmin(lengths))} cannot be reached from its start"
        )
    return moves[:, : int(lengths.max(initial=0))], lengths


def simulate_maze(config: MazeConfig, *, rng: RNG) -> MazeRun:
    """Warm start on target paths, then group-relative updates on fresh mazes, evaluated exactly.

    Parameters
    ----------
    config : MazeConfig
        The task, the policy and the update; ``config.base_seed`` names the base it starts from.
    rng : int, SeedSequence or Generator
        Training mazes and rollouts of the updates.

    Returns
    -------
    MazeRun

    Raises
    ------
    ValueError
        From a field of the config; a transformer without torch raises ImportError.

    Notes
    -----
    [FGRPO] v2, Sec. 5.2 and App. K, from scratch and small enough for one core. Held by
    tests/test_maze.py and tests/test_maze_transformer.py: the gradient equals torch autograd,
    evaluation equals sampling, AdamW equals torch's.

    Examples
    --------
    >>> from dataclasses import replace
    >>> small = MazeConfig(size=7, steps=20, prompts=8, warm_start_pass_at_1=0.2, test_mazes=64)
    >>> run = simulate_maze(small, rng=0)
    >>> run.log_p.shape
    (2, 64)
    >>> bool(run.pass_at_k(1)[0] < run.pass_at_k(8)[0] <= 1)
    True
    """
    rng = generator(rng)
    if isinstance(config.policy, WindowPolicy):
        from . import maze_window as learner
    else:
        from . import maze_transformer as learner  # type: ignore[no-redef]

    mazes, moves, lengths = held_out(config, "test")
    state, warm_steps = learner.warm_start(config)
    steps = np.unique(np.append(np.arange(0, config.steps + 1, config.record_every), config.steps))
    log_p = np.empty((len(steps), len(mazes)))
    train = np.full((len(steps), 4), np.nan)
    for i, step in enumerate(steps):
        if i:
            counts = learner.advance(config, state, int(step - steps[i - 1]), rng)
            train[i] = _averages(*counts)
        log_p[i] = learner.target_log_probs(config, state, mazes, moves, lengths)
    return MazeRun(config, steps, log_p, lengths, train, warm_steps)


def held_out(
    config: MazeConfig, part: str
) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int64]]:
    """The "test" or "validation" mazes of a config, with their target paths."""
    n = config.test_mazes if part == "test" else config.validation_mazes
    rng = base_stream(config, 0 if part == "test" else 1)
    mazes = generate_mazes(n, config.size, rng=rng, algorithm=config.algorithm)
    return mazes, *solve_mazes(mazes)


def _averages(
    rollouts: float, correct: float, groups: float, mixed: float, weight: float, detour: float
) -> tuple[float, float, float, float]:
    return (
        correct / rollouts,
        mixed / groups,
        weight / mixed if mixed else np.nan,
        detour / correct if correct else np.nan,
    )
