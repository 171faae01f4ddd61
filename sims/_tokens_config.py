"""What a run of the token simulator is made of: the task, the update and what is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailmiss import _validate as check
from tailmiss.advantages import advantage_table

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
            check.one(name, check.within(name, getattr(self, name), 0.0, np.inf))
        for name in ("response_weight", "self_normalize"):
            check.one_of(name, getattr(self, name), (False, True))
        for name in ("ratio_cap", "weight_cap", "weight_length"):
            value = getattr(self, name)
            if value is not None or name != "weight_length":
                check.one(name, check.within(name, value, 1.0, np.inf))
        for name in ("slip", "alive_mass"):
            check.one(name, check.mass(name, getattr(self, name), inclusive=False))
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
        options = check.rule_options(self.rule_options)
        advantage_table(self.rule, self.group_size, gamma=self.gamma, **options)
