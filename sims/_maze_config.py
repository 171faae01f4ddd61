"""What a maze run is made of: the policy, the task, the update and the warm start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmiss import _validate as check
from tailmiss.advantages import advantage_table, learning_rate_multiplier
from tailmiss.weights import focal_weight

ALGORITHMS = ("prim", "kruskal", "wilson")
SUCCESSES = ("target", "goal")
WEIGHTINGS = ("focal", "batch_mean", "learning_rate")


def check_size(size: Any) -> int:
    """An odd side of at least 5 squares."""
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
    init_scale : float > 0
        Standard deviation of the initial weights times the root of the number of inputs.
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
    init_scale: float = 1.0
    encoding: str = "cells"

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "key_value_heads", "feed_forward"):
            check.whole_number(name, getattr(self, name))
        if self.width % (2 * self.heads) or self.heads % self.key_value_heads:
            raise ValueError(
                f"heads must divide width into even parts and be a multiple of key_value_heads;"
                f" got width {self.width}, heads {self.heads}, {self.key_value_heads}"
            )
        for name in ("rope_theta", "init_scale"):
            check.within(name, getattr(self, name), 0.0, np.inf, inclusive=False)
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
        at every ten steps (five for the transformer), or after so many steps.
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
        check_size(self.size)
        check.one_of("algorithm", self.algorithm, ALGORITHMS)
        check.one_of("weighting", self.weighting, WEIGHTINGS)
        check.one_of("success", self.success, SUCCESSES)
        check.one_of("response_weight", self.response_weight, (False, True))
        for name, low in {
            "group_size": 1, "steps": 0, "prompts": 1, "warm_start_steps": 0,
            "warm_start_prompts": 1, "test_mazes": 1, "validation_mazes": 1, "base_seed": 0,
            "record_every": 1,
        }.items():  # fmt: skip
            check.whole_number(name, getattr(self, name), low)
        for name in ("learning_rate", "weight_decay", "clip_norm", "warm_start_learning_rate"):
            check.number(name, getattr(self, name), 0)
        check.share("warm_start_pass_at_1", self.warm_start_pass_at_1)
        check.number("weight_cap", self.weight_cap, 1)
        options = check.rule_options(self.rule_options)
        advantage_table(self.rule, self.group_size, gamma=self.gamma, **options)

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


# Its rates, initial scale and clip_norm: figures/reference/full/maze_tuning.csv, validation mazes.
SMALL_TRANSFORMER = MazeConfig(
    policy=TransformerPolicy(), size=9, algorithm="kruskal", prompts=32, learning_rate=3e-4,
    clip_norm=1.0, warm_start_learning_rate=3e-4,
)  # fmt: skip
PAPER = MazeConfig(
    policy=TransformerPolicy(4, 256, 4, 2, 1024, 1e6, encoding="tokens"),
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


def base_stream(config: MazeConfig, child: int) -> np.random.Generator:
    """Streams named by the base: 0 test, 1 validation mazes, 2 initial policy, 3 warm start."""
    return np.random.default_rng(np.random.SeedSequence(config.base_seed, spawn_key=(child,)))
