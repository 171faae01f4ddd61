"""Mazes with one correct path each, and policies that learn them by group-relative updates.

The maze experiment of [FGRPO] v2, Sec. 5.2. With a single correct path a falling pass@K cannot be a
loss of variety within a prompt: it is a loss of coverage across prompts, which share parameters.
Success is one sequence, so pass@1 of a maze is a product of probabilities and nothing is sampled to
evaluate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmiss import _validate as check
from tailmiss._rng import RNG, generator
from tailmiss.advantages import advantage_table, learning_rate_multiplier
from tailmiss.weights import focal_weight

if TYPE_CHECKING:
    import pandas as pd

ALGORITHMS = ("prim", "kruskal", "wilson")
SUCCESSES = ("target", "goal")
WEIGHTINGS = ("focal", "batch_mean", "learning_rate")
BUDGETS = (1, 128, 256, 1024, 2048)


def _check_size(size: Any) -> int:
    size = check.whole_number("size", size, 5)
    if size % 2 == 0:
        raise ValueError(f"size must be odd; got {size}")
    return size


@dataclass(frozen=True)
class WindowPolicy:
    """One hidden layer that sees the maze around it; trained by compiled loops.

    Parameters
    ----------
    window : odd int >= 1
        Side of the square of the maze that the policy sees, centred on it.
    hidden : int >= 1
        Hidden units (ReLU).
    """

    window: int = 7
    hidden: int = 64

    def __post_init__(self) -> None:
        if check.whole_number("window", self.window) % 2 == 0 or self.window > 13:
            raise ValueError(f"window must be odd and at most 13; got {self.window}")
        check.whole_number("hidden", self.hidden)


@dataclass(frozen=True)
class TransformerPolicy:
    """Causal transformer of the Qwen2 kind that reads the maze and writes moves; needs torch.

    Parameters
    ----------
    layers, width, heads, key_value_heads, feed_forward : int >= 1
        Its size; `heads` divides `width` and `key_value_heads` divides `heads`.
    rope_theta : float > 0
        Base of the rotary positions.
    encoding : {"cells", "tokens"}
        What a prompt is: one token a cell that says which of its sides are open, with a move a
        cell; or the paper's text, one token a square, with a move a square.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    key_value_heads: int = 4
    feed_forward: int = 160
    rope_theta: float = 1e4
    encoding: str = "cells"

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "key_value_heads", "feed_forward"):
            check.whole_number(name, getattr(self, name))
        if self.width % (2 * self.heads) or self.heads % self.key_value_heads:
            raise ValueError(
                f"heads must divide width into even parts and be a multiple of key_value_heads;"
                f" got width {self.width}, heads {self.heads}, {self.key_value_heads}"
            )
        check.within("rope_theta", self.rope_theta, 0.0, np.inf, inclusive=False)
        check.one_of("encoding", self.encoding, ("cells", "tokens"))


@dataclass(frozen=True)
class MazeConfig:
    r"""Everything that, with a seed, determines a run of :func:`simulate_maze`.

    The defaults are the window policy's; ``SMALL_TRANSFORMER`` and ``PAPER`` are the others.

    Parameters
    ----------
    policy : WindowPolicy or TransformerPolicy
        What learns.
    size : odd int >= 5
        Side of a maze in squares, 2n + 1 for n x n cells.
    algorithm : {"prim", "kruskal", "wilson"}
        Generator of the mazes; every training maze is fresh.
    group_size, rule, rule_options, gamma
        Rollouts per maze, N; advantage rule and focal exponent as for
        :func:`tailmiss.advantage_table`. Under "dapo" groups without both kinds are drawn again,
        up to ten batches in all.
    weighting : {"focal", "batch_mean", "learning_rate"}
        The focal weight itself, or one of two controls that shrink the update without looking at
        the group: every group gets the batch's mean focal weight over mixed groups; or no weight,
        and the learning rate times :func:`tailmiss.learning_rate_multiplier`.
    response_weight, weight_cap
        ReCo's response weight in the place of 1/N, at most weight_cap/N.
    success : {"target", "goal"}
        A rollout is correct if it is the target path, or if it reaches the goal on any way.
        Evaluation is by the target path in both cases.
    steps, prompts : int >= 0, >= 1
        Updates, one per batch of rollouts (fully on-policy), and mazes in a batch.
    learning_rate, weight_decay, clip_norm : float >= 0
        Of AdamW, betas (0.9, 0.999); largest norm of the gradient, 0 for no limit. The loss is the
        mean over all moves of a batch.
    warm_start_pass_at_1, warm_start_steps, warm_start_prompts, warm_start_learning_rate
        Supervised start on target paths: it ends at this mean pass@1 on validation mazes, looked
        at every ten steps, or after so many steps.
    test_mazes, validation_mazes : int >= 1
        Held-out mazes for evaluation, and others to end the warm start.
    base_seed : int >= 0
        Names the initial policy, the warm start and the held-out mazes, so that runs that differ in
        anything else start from the same base and are compared on the same mazes.
    record_every : int >= 1
        Steps between evaluations; the first and the last step are always evaluated.

    Raises
    ------
    ValueError
        A field outside its range.
    """

    policy: WindowPolicy | TransformerPolicy = field(default_factory=WindowPolicy)
    size: int = 17
    algorithm: str = "prim"
    group_size: int = 8
    rule: str = "grpo"
    rule_options: dict[str, Any] = field(default_factory=dict)
    gamma: float = 0.0
    weighting: str = "focal"
    response_weight: bool = False
    weight_cap: float = 5.0
    success: str = "target"
    steps: int = 2000
    prompts: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    clip_norm: float = 0.0
    warm_start_pass_at_1: float = 0.012
    warm_start_steps: int = 5000
    warm_start_prompts: int = 64
    warm_start_learning_rate: float = 1e-3
    test_mazes: int = 512
    validation_mazes: int = 512
    base_seed: int = 0
    record_every: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.policy, WindowPolicy | TransformerPolicy):
            raise ValueError(
                f"policy must be a WindowPolicy or TransformerPolicy; got {self.policy!r}"
            )
        _check_size(self.size)
        check.one_of("algorithm", self.algorithm, ALGORITHMS)
        check.one_of("weighting", self.weighting, WEIGHTINGS)
        check.one_of("success", self.success, SUCCESSES)
        for name, low in {
            "group_size": 1, "steps": 0, "prompts": 1, "warm_start_steps": 0,
            "warm_start_prompts": 1, "test_mazes": 1, "validation_mazes": 1, "base_seed": 0,
            "record_every": 1,
        }.items():  # fmt: skip
            check.whole_number(name, getattr(self, name), low)
        for name in ("learning_rate", "weight_decay", "clip_norm", "warm_start_learning_rate"):
            check.within(name, getattr(self, name), 0.0, np.finfo(float).max)
        check.mass("warm_start_pass_at_1", self.warm_start_pass_at_1)
        check.within("weight_cap", self.weight_cap, 1.0, np.finfo(float).max)
        advantage_table(self.rule, self.group_size, gamma=self.gamma, **self.rule_options)

    @property
    def tables(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Plain advantages of correct and wrong rollouts, and the weight of a group, by K."""
        correct, wrong = advantage_table(self.rule, self.group_size, **self.rule_options)
        gamma = 0.0 if self.weighting == "learning_rate" else self.gamma
        weight = focal_weight(np.arange(self.group_size + 1) / self.group_size, gamma)
        return correct, wrong, weight

    @property
    def scaled_learning_rate(self) -> float:
        """The learning rate, times m_gamma where that is the control."""
        if self.weighting != "learning_rate":
            return self.learning_rate
        return float(self.learning_rate * learning_rate_multiplier(self.gamma))

    @property
    def batches(self) -> int:
        """Batches that may be drawn for one update: more than one where groups are drawn again."""
        return 10 if self.rule == "dapo" else 1


SMALL_TRANSFORMER = MazeConfig(
    policy=TransformerPolicy(), size=9, algorithm="kruskal", prompts=32, learning_rate=3e-4,
    warm_start_learning_rate=3e-4,
)  # fmt: skip
PAPER = MazeConfig(
    policy=TransformerPolicy(4, 256, 4, 2, 1024, 1e6, "tokens"),
    rule_options={"ddof": 1, "eps": 1e-6},
    steps=20_000,
    prompts=256,
    learning_rate=1e-4,
    clip_norm=1.0,
    warm_start_pass_at_1=1.0,
    warm_start_steps=1500,
    warm_start_prompts=32,
    warm_start_learning_rate=5e-4,
    test_mazes=256,
    record_every=250,
)


@dataclass(frozen=True, eq=False)
class MazeRun:
    """What a run did.

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

    n, size = check.whole_number("n", n, 0), _check_size(size)
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
    Of several shortest paths the one that prefers up, down, left, right in this order.

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
    size = _check_size(given.shape[1])
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
    n, child = (
        (config.test_mazes, 0) if part == "test" else (config.validation_mazes, 1)
    )
    mazes = generate_mazes(n, config.size, rng=base_stream(config, child), algorithm=config.algorithm)
    return mazes, *solve_mazes(mazes)


def base_stream(config: MazeConfig, child: int) -> np.random.Generator:
    """Streams named by the base: 0 test mazes, 1 validation mazes, 2 initial policy, 3 warm start."""
    return np.random.default_rng(np.random.SeedSequence(config.base_seed, spawn_key=(child,)))


def _averages(
    rollouts: float, correct: float, groups: float, mixed: float, weight: float, detour: float
) -> tuple[float, float, float, float]:
    return (
        correct / rollouts,
        mixed / groups,
        weight / mixed if mixed else np.nan,
        detour / correct if correct else np.nan,
    )
